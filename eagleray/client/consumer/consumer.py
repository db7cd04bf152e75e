"""The asyncio consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Self

from eagleray.broker.identities import TopicPartition
from eagleray.client import validation
from eagleray.client.config import ConsumerConfig
from eagleray.client.consumer.commits import Commits
from eagleray.client.consumer.fetched_batches import UNKNOWN, PartitionState
from eagleray.client.consumer.fetcher import EARLIEST, LATEST, Fetcher, RecordsAhead
from eagleray.client.consumer.membership import Subscription
from eagleray.client.consumer.positions import Positions
from eagleray.client.consumer.rebalances import OnPartitions, Rebalance, RebalanceListener, Rebalancer
from eagleray.client.errors import ClientClosed, InvalidConfig, RefusedError, TopicNotFound
from eagleray.client.lookups import fetch_offsets, find_topics, list_offsets
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime, settle
from eagleray.client.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp

_FOREVER_MS = 1000 * 60 * 60 * 24


class AsyncConsumer:
    """Reads what its group assigns to it, or the partitions that it is given.

        async with cluster.consumer("orders", group="audit", isolation="read_committed") as consumer:
            async for record in consumer:
                print(record.offset, record.value)
                await consumer.commit()

    With a group, a subscription joins it: its members share the partitions, and `poll` takes over and gives up what the
    group wants. Without one, a subscription reads all partitions; `assign` never joins. Owns: its positions, in memory;
    `commit` has the group keep them. Records are fetched ahead, one fetch for each leader at a time, while the
    application works. At read_committed it never returns a record of a transaction that is open or aborted. On failure:
    errors that a retry can mend are retried; others are raised by `poll`, after the records that came before.
    """

    def __init__(
        self, runtime: ClientRuntime, config: ConsumerConfig | None = None, topics: Iterable[str] = ()
    ) -> None:
        """Make a consumer; it subscribes to the topics when it is entered, or with the first `poll`."""
        self._topics = tuple(topics)
        self._runtime = runtime
        self._config = config or ConsumerConfig()
        self._retry_policy = RetryPolicy.of(self._config, self._config.default_api_timeout_ms)
        self._fetcher = Fetcher(runtime, self._config, self._wake)
        self._positions = Positions(runtime, self._config, self._fetcher, self._retry_policy, self._wake)
        self._group = Rebalancer(runtime, self._config, self._fetcher, self._positions, self._wake, self._news)
        self._commits = Commits(runtime, self._config, self._group, self._retry_policy, self._positions.known)
        self._group.before_revocation = self._commits.commit_before_revocation
        self._waiters: set[asyncio.Future[None]] = set()
        self._is_closing = False
        self._is_closed = False

    # What to read

    async def subscribe(
        self,
        *topics: str,
        pattern: str | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read these topics, and those that a regular expression describes; another call replaces this one.

        With a group, the consumer joins it, and `poll` brings what it is assigned; topics may come later. The
        callbacks are called with partitions, from within `poll`. Without a group, all partitions of the topics are
        read, and a topic that does not exist raises TopicNotFound.
        """
        self._check_open()
        wanted, pattern = validation.subscription(topics, pattern)
        self._topics = ()
        listener = RebalanceListener(on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        if self._config.group_id is None:
            if pattern is not None or listener != RebalanceListener():
                raise InvalidConfig("a pattern and callbacks are for members of a group, but there is no group.id.")
            found = await find_topics(self._runtime, wanted, self._retry_policy)
            self.assign(partition for partitions in found.values() for partition in partitions)
        else:
            self._group.join(Subscription(wanted, pattern), listener)

    async def unsubscribe(self) -> None:
        """Leave the group, and read nothing until the next `subscribe` or `assign`; `on_revoked` is told before."""
        rebalance = self.unsubscribe_begins()
        try:
            if rebalance is not None:
                await self._tell(rebalance)
        finally:
            await self.unsubscribe_ends()

    def unsubscribe_begins(self) -> Rebalance | None:
        """Return what the application has to be told before the consumer leaves its group."""
        self._check_open()
        self._topics = ()
        return self._group.last_rebalance()

    async def unsubscribe_ends(self) -> None:
        """Leave the group, and read nothing any more."""
        self._fetcher.assign(())
        await self._group.leave()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, whatever members of the group do."""
        self._check_open()
        if self._group.is_joined:
            raise RefusedError("the consumer has subscribed, so its group assigns its partitions; unsubscribe first.")
        self._fetcher.assign(validation.partitions(partitions))
        self._positions.look_up()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return set(self._fetcher.states)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset; the next record of the partition is that one, or the first behind it."""
        self._seek(partition, validation.integer("the offset", offset, 0))
        self._fetcher.pump()

    def _seek(self, partition: TopicPartition, offset: int, reset_to: int | None = None) -> None:
        self._state(partition).seek(offset, reset_to)
        self._fetcher.ahead.forget({partition})

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of partitions, or of all."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of partitions, or of all: with read_committed, the last that is decided."""
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: tuple[TopicPartition, ...], end: int) -> None:
        for partition in partitions or tuple(self._fetcher.states):
            self._seek(partition, UNKNOWN, end)
        self._positions.look_up()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these partitions until `resume`."""
        first_offsets = self._fetcher.ahead.first_offsets()
        for partition in partitions:
            self._state(partition).is_paused = True
            if partition in first_offsets:
                # What iterating has taken over and not yielded comes after `resume`, by another fetch.
                self._seek(partition, first_offsets[partition])

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions where they were."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._fetcher.pump()
        self._wake()

    def _state(self, partition: TopicPartition) -> PartitionState:
        self._check_open()
        state = self._fetcher.states.get(validation.partition(partition))
        if state is None:
            raise TopicNotFound(f"{partition} is not assigned to this consumer.")
        return state

    # Reading

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are some, an empty list where there are none in time.

        At most max.poll.records, in order within each partition. Callbacks of a subscription are called here.
        """
        deadline_ms = self._runtime.now_ms() + timeout_ms
        while (rebalance := await self.read_ahead(deadline_ms - self._runtime.now_ms(), max_records)) is not None:
            await self._tell(rebalance)
        return self.take_ahead(max_records)

    async def read_ahead(self, timeout_ms: float, max_records: int | None = None) -> Rebalance | None:
        """Wait until `ahead` has records or the time is over, or return what the caller has to tell the application.

        Records are put there on the loop, and a `Rebalance` is returned again until it is told: a thread that is
        interrupted while it waits has lost neither. After it was told, `rebalance_ends` has to be called.
        """
        self._check_open()
        if self._topics:
            await self._start()
        self._commits.commit_if_due()
        deadline_ms = self._runtime.now_ms() + timeout_ms
        with self._group.polling():
            while True:
                self._positions.raise_error()
                rebalance = await self._group.reconcile()
                if rebalance is not None:
                    return rebalance
                if not self.ahead:
                    self.ahead.extend(self._fetcher.take(self._limit(max_records)))
                left_ms = deadline_ms - self._runtime.now_ms()
                if self.ahead or left_ms <= 0:
                    return None
                self._positions.look_up()
                await self._news(left_ms)
                self._check_open()

    def take_ahead(self, max_records: int | None = None) -> list[ConsumerRecord]:
        """Give the application what `read_ahead` has brought, in its own thread or task: from now on that is read."""
        return self.ahead.take(self._limit(max_records))

    def _limit(self, max_records: int | None) -> int:
        return max_records or self._config.max_poll_records

    async def _news(self, max_ms: float) -> None:
        waiter: asyncio.Future[None] = self._runtime.loop.create_future()
        self._waiters.add(waiter)
        timer = self._runtime.later(max_ms, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        for waiter in self._waiters:
            settle(waiter, None)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records for ever; `commit`, and commits by themselves, cover exactly those that were yielded."""
        ahead = self.ahead
        while True:
            # The next poll comes when all have been yielded, so that a rebalance within it takes no record away.
            while ahead:
                yield ahead.popleft()
            rebalance = await self.read_ahead(_FOREVER_MS)
            if rebalance is not None:
                await self._tell(rebalance)

    @property
    def ahead(self) -> RecordsAhead:
        """What `read_ahead` has brought and the application has not been given yet."""
        return self._fetcher.ahead

    async def _tell(self, rebalance: Rebalance) -> None:
        try:
            answer = rebalance.tell()
            if answer is not None:
                await answer
        finally:
            self.rebalance_ends(rebalance)

    def rebalance_ends(self, rebalance: Rebalance) -> None:
        """Let a change come into force that the application has been told of."""
        self._group.ends(rebalance)

    # Positions

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition that `poll` would return, or iterating yield."""
        while (state := self._state(partition)).position == UNKNOWN:
            self._positions.raise_error()
            self._positions.look_up()
            await self._news(self._config.default_api_timeout_ms)
        return self.ahead.first_offsets().get(partition, state.position)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far the group has come, in these partitions or in all that are assigned."""
        group_id = self._check_group("read committed offsets")
        wanted = validation.partitions(partitions) or self._fetcher.states
        return await fetch_offsets(self._runtime, group_id, wanted, self._retry_policy)

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Have the group keep these offsets, or the positions of all partitions.

        Raises CommitFailed where the group has given this member up: others have its partitions then.
        """
        self._check_group("commit")
        await self._commits.commit(self.positions() if offsets is None else offsets)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offsets behind what was returned or yielded, of all partitions that have one yet."""
        return self._positions.known()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member of the group, for `send_offsets` of a producer: one that its group has lost is refused."""
        self._check_group("send offsets")
        return self._group.metadata()

    def _check_group(self, wanted: str) -> str:
        self._check_open()
        if self._config.group_id is None:
            raise InvalidConfig(f"cannot {wanted}: the consumer was made without a group.id.")
        return self._config.group_id

    # Offsets of logs

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where partitions begin."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where the next record would come that this consumer can read."""
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: tuple[TopicPartition, ...], end: int) -> dict[TopicPartition, int]:
        self._check_open()
        wanted = dict.fromkeys(validation.partitions(partitions) or self._fetcher.states, end)
        listed = await list_offsets(self._runtime, wanted, self._fetcher.isolation, self._retry_policy)
        return {partition: found.offset for partition, found in listed.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition with this timestamp or a later one; None where there is none."""
        self._check_open()
        wanted = validation.timestamps_to_list(timestamps_ms)
        listed = await list_offsets(self._runtime, wanted, self._fetcher.isolation, self._retry_policy)
        return {
            partition: None if found.offset < 0 else OffsetAndTimestamp(found.offset, found.timestamp)
            for partition, found in listed.items()
        }

    # Incarnation

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed.")

    async def close(self) -> None:
        """Commit where that is automatic, leave the group, and read no more; repeating it does nothing."""
        try:
            rebalance = await self.close_begins()
            if rebalance is not None:
                await self._tell(rebalance)
        finally:
            await self.close_ends()

    async def close_begins(self) -> Rebalance | None:
        """Commit where that is automatic; return what the application has to be told before the end."""
        if self._is_closing:
            return None
        self._is_closing = True
        if self._config.enable_auto_commit:
            await self._commits.commit_quietly(self.positions())
        return self._group.last_rebalance()

    async def close_ends(self) -> None:
        """Leave the group, and read no more."""
        if self._is_closed:
            return
        self._is_closed = True
        self._fetcher.close()
        self._positions.close()
        self._commits.close()
        self._wake()
        await self._group.leave()

    async def _start(self) -> None:
        """Subscribe to the topics that the consumer was made for; as a member, wait for the group's first answer."""
        if self._topics:
            await self.subscribe(*self._topics)
            await self._group.first_answer(self._config.default_api_timeout_ms)

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
