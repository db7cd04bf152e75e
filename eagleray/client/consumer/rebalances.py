"""Partitions of a group that change hands: what the application is told, and what the consumer does about it."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.fetcher import Fetcher
from eagleray.client.consumer.group_member import GroupMember
from eagleray.client.consumer.membership import Change, ChangeKind, Subscription
from eagleray.client.consumer.positions import Positions
from eagleray.client.errors import EaglerayError
from eagleray.client.lookups import refresh_from_controller
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata

logger = logging.getLogger(__name__)

OnPartitions = Callable[[tuple[TopicPartition, ...]], Awaitable[None] | None]
"""Is told of partitions. An asyncio consumer awaits what it returns, where that can be awaited."""


class RebalanceListener(msgspec.Struct, frozen=True, kw_only=True):
    """The callbacks of a subscription; Kafka's ConsumerRebalanceListener.

    `on_revoked` runs before the partitions are given up, so that offsets can still be committed in it; `on_lost` where
    others may have them already. Without an `on_lost`, `on_revoked` is told of losses too.
    """

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    def callback_for(self, kind: ChangeKind) -> OnPartitions | None:
        """Return whom to tell, if anyone."""
        if kind is ChangeKind.ASSIGNED:
            return self.on_assigned
        if kind is ChangeKind.LOST and self.on_lost is not None:
            return self.on_lost
        return self.on_revoked


class RebalanceStage(enum.Enum):
    """How far a rebalance has come."""

    BEGUN = "begun"
    """The application has to be told; an interrupt may keep its task or thread from doing so at once."""

    BEING_TOLD = "being told"
    TOLD = "told"
    OVER = "over"
    """The change is in force, or the consumer has left the group."""


class Rebalance(msgspec.Struct, eq=False):
    """A change that the application has to be told of, by its own task or thread, before it comes into force."""

    change: Change
    partitions: tuple[TopicPartition, ...]
    callback: OnPartitions | None
    stage: RebalanceStage = RebalanceStage.BEGUN

    def tell(self) -> Awaitable[None] | None:
        """Call the application."""
        self.stage = RebalanceStage.BEING_TOLD
        return None if self.callback is None else self.callback(self.partitions)

    def was_told(self) -> None:
        """Note that the application has answered, or that its callback has failed."""
        if self.stage is RebalanceStage.BEING_TOLD:
            self.stage = RebalanceStage.TOLD


class Rebalancer(msgspec.Struct, eq=False):
    """Keeps what a consumer reads equal to what its group assigns to it, from one poll to the next.

    Owns: the place in the group, if the consumer has one. A change begins and ends within polls; what the application
    has to be told lies between, where the application is; until it is told, each poll returns it. What was fetched of
    partitions that are given up is dropped.
    """

    _runtime: ClientRuntime
    _config: ConsumerConfig
    _fetcher: Fetcher
    _positions: Positions
    _on_news: Callable[[], None]
    _news: Callable[[float], Awaitable[None]]
    before_revocation: Callable[[], Awaitable[None]] | None = None
    _member: GroupMember | None = None
    _listener: RebalanceListener = RebalanceListener()
    _is_beginning: bool = False
    _begun: Rebalance | None = None
    _warning: asyncio.Task[None] | None = None

    # In and out

    @property
    def is_joined(self) -> bool:
        """Whether the consumer has a place in its group, or is about to get one."""
        return self._member is not None

    def join(self, subscription: Subscription, listener: RebalanceListener) -> None:
        """Join the group for a subscription, or change that of the member."""
        if self._member is None:
            self._fetcher.assign(())
            self._member = GroupMember(self._runtime, self._config, self._on_news)
        self._listener = listener
        self._positions.waits_for_topics = True
        self._member.subscribe(subscription)
        missing = [topic for topic in subscription.topics if topic not in self._runtime.view.partitions]
        if missing:
            self._warning = self._runtime.loop.create_task(self._warn_of(missing))

    async def _warn_of(self, topics: list[str]) -> None:
        with suppress(EaglerayError):
            await refresh_from_controller(self._runtime, RetryPolicy())
            for topic in topics:
                if topic not in self._runtime.view.partitions:
                    logger.warning(
                        "group %r subscribes to topic %r, which does not exist yet; its records are read once it does. "
                        "Create it with admin.create_topic, or look for a misspelt name.",
                        self._config.group_id,
                        topic,
                    )

    async def first_answer(self, max_ms: int) -> None:
        """Wait until the group has answered, and take over what it assigns."""
        deadline_ms = self._runtime.now_ms() + max_ms
        while self._member is not None:
            await self.reconcile()
            left_ms = deadline_ms - self._runtime.now_ms()
            if not self._member.is_settling or left_ms <= 0:
                return
            await self._news(left_ms)

    async def leave(self) -> None:
        """Leave the group, and read nothing of it any more."""
        member, self._member = self._member, None
        if self._begun is not None:
            self._begun.stage = RebalanceStage.OVER
            self._begun = None
        if self._warning is not None:
            self._warning.cancel()
        if member is not None:
            self._fetcher.assign(())
            self._positions.waits_for_topics = False
            await member.leave()

    def metadata(self) -> ConsumerGroupMetadata:
        """Return who commits for the group: its member, or a consumer that is none."""
        assert self._config.group_id is not None, "a consumer that commits has a group"
        return ConsumerGroupMetadata(self._config.group_id) if self._member is None else self._member.metadata()

    async def next_epoch(self, known: ConsumerGroupMetadata) -> bool:
        """Wait until the member has heard of another epoch than this; return whether it has."""
        deadline_ms = self._runtime.now_ms() + self._config.request_timeout_ms
        while self._member is not None and self._member.membership.is_member:
            if self.metadata() != known:
                return True
            left_ms = deadline_ms - self._runtime.now_ms()
            if left_ms <= 0:
                return False
            self._member.hurry()
            await self._news(left_ms)
        return False

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Let the time of max.poll.interval.ms stand still."""
        member = self._member
        if member is None:
            yield
            return
        member.poll_begins()
        try:
            yield
        finally:
            member.poll_ends()

    # Changes

    async def reconcile(self) -> Rebalance | None:
        """Give up and take over what the group wants; return the first change that the application has to be told."""
        if self._is_beginning:
            return None
        if self._begun is not None:
            match self._begun.stage:
                case RebalanceStage.BEGUN:
                    return self._begun
                case RebalanceStage.BEING_TOLD:
                    # It is a callback that polls.
                    return None
            self.ends(self._begun)
        while self._member is not None and (change := self._member.next_change()) is not None:
            rebalance = await self._begin(self._member, change)
            if rebalance is not None:
                return rebalance
        if self._member is not None:
            self._member.raise_error()
        return None

    async def _begin(self, member: GroupMember, change: Change) -> Rebalance | None:
        rebalance = self._rebalance(member, change)
        self._is_beginning = True
        try:
            if change.kind is ChangeKind.ASSIGNED:
                self._fetcher.add(rebalance.partitions)
                self._positions.look_up()
            elif change.kind is ChangeKind.REVOKED and self.before_revocation is not None:
                await self.before_revocation()
        finally:
            # Where that was cancelled, the next poll begins the change again: the application has not been told.
            self._is_beginning = False
        if member is not self._member:
            return None
        if rebalance.callback is None:
            self.ends(rebalance)
            return None
        self._begun = rebalance
        return rebalance

    def _rebalance(self, member: GroupMember, change: Change) -> Rebalance:
        names = member.names_of(change.partitions)
        return Rebalance(change, names, self._listener.callback_for(change.kind) if names else None)

    def ends(self, rebalance: Rebalance) -> None:
        """Let a change come into force that the application has been told of."""
        if rebalance.stage is RebalanceStage.OVER:
            return
        rebalance.stage = RebalanceStage.OVER
        if self._begun is rebalance:
            self._begun = None
        if rebalance.change.kind is not ChangeKind.ASSIGNED:
            self._fetcher.remove(rebalance.partitions)
        if self._member is not None:
            self._member.change_done(rebalance.change)
        self._on_news()

    def last_rebalance(self) -> Rebalance | None:
        """Return what the application has to be told before the member leaves, if anything."""
        if self._member is None:
            return None
        rebalance = self._rebalance(self._member, self._member.membership.last_change())
        return None if rebalance.callback is None else rebalance
