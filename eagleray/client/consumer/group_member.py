"""A consumer's place in its group: sends the heartbeats that the membership wants, and brings it the answers."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat, ConsumerHeartbeatAnswered
from eagleray.broker.groups.consumer.partitions import Partitions, TopicIdPartition
from eagleray.broker.groups.membership import NO_GENERATION, NO_MEMBER
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.client.calls import is_only_busy
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.membership import (
    Change,
    GroupMembership,
    MemberHeartbeat,
    MemberSettings,
    MemberState,
    Subscription,
)
from eagleray.client.errors import EaglerayError, FatalError, RefusedError, error_for
from eagleray.client.ports import Timer
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata
from eagleray.protocol.errors import ErrorCode

_CLIENT_ID: Final = "eagleray"
_LEAVE_MS: Final = 5_000
"""How long closing waits for the coordinator to hear of it; the session timeout tells it otherwise."""


class GroupMember:
    """One member of one group, on the loop.

    Owns: the membership and its timer. Heartbeats go on while the application works; `on_news` is called whenever the
    application's poll may have something to do.
    """

    def __init__(self, runtime: ClientRuntime, config: ConsumerConfig, on_news: Callable[[], None]) -> None:
        assert config.group_id is not None, "a member has a group"
        self._runtime = runtime
        self._group_id = config.group_id
        self._instance_id = config.group_instance_id
        self._on_news = on_news
        self._member_id = str(uuid.uuid4())
        self._host = f"/{socket.gethostname()}"
        settings = MemberSettings(
            member_id=self._member_id,
            group_instance_id=config.group_instance_id,
            assignor=config.group_remote_assignor,
            max_poll_interval_ms=config.max_poll_interval_ms,
            retry_policy=RetryPolicy.of(config),
        )
        self.membership = GroupMembership(settings, runtime.now_ms())
        self._timer: Timer | None = None
        self._is_refreshing = False
        self._names: dict[TopicIdPartition, TopicPartition] = {}
        """The names of partitions that the member was told of; a topic that was deleted has none any more."""

    # What the application does

    def subscribe(self, subscription: Subscription) -> None:
        """Join for these topics, or tell the group that they are others now."""
        self.membership.subscribe(subscription, self._runtime.now_ms())
        self.pump()

    def poll_begins(self) -> None:
        """Let the application take its time until `poll_ends`, and join again where the group was lost."""
        self.membership.poll_begins()
        self.pump()

    def poll_ends(self) -> None:
        """Let the time until the next poll run."""
        self.membership.poll_ends(self._runtime.now_ms())
        self._arm()

    def metadata(self) -> ConsumerGroupMetadata:
        """Return who the member is, by which commits are taken or refused."""
        membership = self.membership
        if membership.state is MemberState.UNSUBSCRIBED or not membership.answers:
            return ConsumerGroupMetadata(self._group_id, NO_GENERATION, NO_MEMBER, None)
        return ConsumerGroupMetadata(self._group_id, membership.epoch, self._member_id, self._instance_id)

    def raise_error(self) -> None:
        """Raise what has ended the membership for good."""
        if self.membership.error is not None:
            raise _error_of(self._group_id, *self.membership.error)

    @property
    def is_settling(self) -> bool:
        """Whether the group has not answered yet, or what it assigns is of topics that are not known here yet."""
        membership = self.membership
        return membership.state is MemberState.JOINING or membership.is_missing_topics

    def hurry(self) -> None:
        """Send the next heartbeat now."""
        self.membership.hurry(self._runtime.now_ms())
        self.pump()

    async def leave(self) -> None:
        """Leave the group, and wait until the coordinator knows, but not for long."""
        self.membership.leave(self._runtime.now_ms())
        heard: asyncio.Future[None] = self._runtime.loop.create_future()

        def settle(*, is_late: bool = False) -> None:
            if not heard.done() and (is_late or self.membership.state is not MemberState.LEAVING):
                heard.set_result(None)

        self._on_news = settle
        timer = self._runtime.later(_LEAVE_MS, partial(settle, is_late=True))
        self.pump()
        settle()
        await heard
        timer.cancel()
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Heartbeats

    def pump(self) -> None:
        """Send what is due, and come back when something else is."""
        heartbeat = self.membership.heartbeat(self._runtime.now_ms())
        if heartbeat is not None:
            self._send(heartbeat)
        self._arm()

    def _arm(self) -> None:
        self._stop()
        due_ms = self.membership.next_due_ms()
        if due_ms is not None:
            self._timer = self._runtime.later(max(due_ms - self._runtime.now_ms(), 0) + 1, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.pump()
        self._on_news()

    def _send(self, heartbeat: MemberHeartbeat) -> None:
        node_id = self._runtime.view.group_coordinator(self._group_id)
        if node_id == NO_NODE:
            self._runtime.view.refresh()
            self.membership.unanswered(heartbeat.number, self._runtime.now_ms())
            return
        told = heartbeat.subscription
        self._runtime.ask(
            node_id,
            partial(self._on_reply, heartbeat.number),
            ConsumerHeartbeat,
            self._group_id,
            self._member_id,
            heartbeat.member_epoch,
            heartbeat.instance_id,
            None,
            heartbeat.rebalance_timeout_ms,
            None if told is None else told.topics,
            # An empty expression takes back one that was told before.
            None if told is None else told.pattern or "",
            heartbeat.assignor,
            heartbeat.owned,
            _CLIENT_ID,
            self._host,
        )

    def _on_reply(self, number: int, reply: ConsumerHeartbeatAnswered | Malformed | None) -> None:
        now_ms = self._runtime.now_ms()
        if isinstance(reply, Malformed):
            # Asking again would change nothing: what the application has given cannot be told to a coordinator.
            reply = ConsumerHeartbeatAnswered(reply.request_id, reply.error_code, reply.message)
        if not isinstance(reply, ConsumerHeartbeatAnswered):
            self._runtime.view.refresh()
            self.membership.unanswered(number, now_ms)
        else:
            if reply.error_code.is_retriable and not is_only_busy(reply.error_code):
                self._runtime.view.refresh()
            self.membership.answered(number, reply, now_ms)
        self._arm()
        self._on_news()

    # Partitions

    def next_change(self) -> Change | None:
        """Return what the application has to be told next; look for topics that are not known here yet."""
        image = self._runtime.view.image
        change = self.membership.next_change(lambda topic_id: image.topic_with_id(topic_id) is not None)
        if change is None:
            self.membership.rejoin(self._runtime.now_ms())
            if self.membership.is_missing_topics and not self._is_refreshing:
                self._is_refreshing = True
                self._runtime.view.refresh(self._refreshed)
            self.pump()
        return change

    def _refreshed(self) -> None:
        self._is_refreshing = False
        self._on_news()

    def change_done(self, change: Change) -> None:
        """Tell the coordinator that the application has been told."""
        self.membership.change_done(change, self._runtime.now_ms())
        self.membership.rejoin(self._runtime.now_ms())
        self.pump()

    def names_of(self, partitions: Partitions) -> tuple[TopicPartition, ...]:
        """Give partitions the names that they have, or had when they were assigned."""
        image = self._runtime.view.image
        for name in partitions - self._names.keys():
            topic = image.topic_with_id(name.topic_id)
            if topic is not None:
                self._names[name] = TopicPartition(topic.name, name.partition)
        return tuple(sorted(self._names[name] for name in partitions if name in self._names))


def _error_of(group_id: str, error_code: ErrorCode, message: str | None) -> EaglerayError:
    doing = f"being a member of group {group_id!r}"
    if error_code is ErrorCode.UNRELEASED_INSTANCE_ID:
        detail = f"{message}; close that consumer, or wait until its session has timed out"
        return FatalError(f"{doing}: {detail}.", error_code)
    if error_code is ErrorCode.FENCED_INSTANCE_ID:
        return FatalError(f"{doing}: {message}.", error_code)
    if error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        detail = "the group has members of Kafka's classic protocol; let them use group.protocol=consumer"
        return RefusedError(f"{doing}: {detail}.", error_code)
    error = error_for(error_code, doing, message)
    return error if isinstance(error, FatalError | RefusedError) else FatalError(error.message, error_code)
