"""The asyncio consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Self

from eagleray.broker.identities import TopicPartition
from eagleray.client.calls import Patience
from eagleray.client.config import ConsumerConfig
from eagleray.client.errors import (
    ClientClosed,
    EaglerayError,
    InvalidConfig,
    NoOffset,
    RefusedError,
    TopicNotFound,
)
from eagleray.client.fetched import UNKNOWN, PartitionState
from eagleray.client.fetcher import EARLIEST, LATEST, Fetcher
from eagleray.client.lookups import commit_offsets, fetch_offsets, list_offsets
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp

logger = logging.getLogger(__name__)

_FOREVER_MS = 1000 * 60 * 60 * 24


class AsyncConsumer:
    """Reads the partitions that it is given, from where its group is or from where it is told.

        async with cluster.consumer("orders", group="audit", isolation="read_committed") as consumer:
            async for record in consumer:
                print(record.offset, record.value)
                await consumer.commit()

    Owns: its positions, in memory; `commit` has the group keep them. Records are fetched ahead, one fetch for each
    leader at a time, while the application works. At read_committed it never returns a record of a transaction that is
    open or aborted. On failure: what a retry mends is retried; what not is raised by `poll`, once what came before is
    taken.
    """

    def __init__(
        self, runtime: ClientRuntime, config: ConsumerConfig | None = None, topics: Iterable[str] = ()
    ) -> None:
        """Make a consumer; it subscribes to the topics when it is entered, or with the first `poll`."""
        self._topics = tuple(topics)
        self._runtime = runtime
        self._config = config or ConsumerConfig()
        self._fetcher = Fetcher(runtime, self._config, self._wake)
        self._waiters: set[asyncio.Future[None]] = set()
        self._lookup: asyncio.Task[None] | None = None
        self._lookup_error: EaglerayError | None = None
        self._auto_commit: asyncio.Task[None] | None = None
        self._next_commit_ms = runtime.now_ms() + self._config.auto_commit_interval_ms
        self._is_closed = False
        self._patience = Patience(
            total_ms=self._config.default_api_timeout_ms,
            request_ms=self._config.request_timeout_ms,
            backoff_ms=self._config.retry_backoff_ms,
            backoff_max_ms=self._config.retry_backoff_max_ms,
        )

    # What to read

    async def subscribe(self, *topics: str) -> None:
        """Read all partitions of these topics; waits for topics that are not known yet."""
        self._topics = ()
        view, limit_ms = self._runtime.view, self._config.default_api_timeout_ms
        found = [await view.find_topic(topic, limit_ms) for topic in topics]
        self.assign(partition for partitions in found for partition in partitions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others."""
        self._check_open()
        self._fetcher.assign(tuple(partitions))
        self._look_up()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return set(self._fetcher.states)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset; the next record of the partition is that one, or the first behind it."""
        if offset < 0:
            raise RefusedError(f"offset {offset} is below zero.")
        self._state(partition).seek(offset)
        self._fetcher.pump()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of partitions, or of all."""
        self._seek_to(partitions, EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of partitions, or of all: with read_committed, the last that is decided."""
        self._seek_to(partitions, LATEST)

    def _seek_to(self, partitions: tuple[TopicPartition, ...], end: int) -> None:
        for partition in partitions or tuple(self._fetcher.states):
            self._state(partition).seek(UNKNOWN, end)
        self._look_up()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these partitions until `resume`."""
        for partition in partitions:
            self._state(partition).is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions where they were."""
        for partition in partitions:
            self._state(partition).is_paused = False
        self._fetcher.pump()
        self._wake()

    def _state(self, partition: TopicPartition) -> PartitionState:
        self._check_open()
        state = self._fetcher.states.get(partition)
        if state is None:
            raise TopicNotFound(f"{partition} is not assigned to this consumer.")
        return state

    # Reading

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are some, an empty list where there are none in time.

        At most max.poll.records, in order within each partition.
        """
        self._check_open()
        if self._topics:
            await self._start()
        self._commit_if_due()
        deadline_ms = self._runtime.now_ms() + timeout_ms
        limit = max_records or self._config.max_poll_records
        while True:
            self._raise_lookup_error()
            records = self._fetcher.take(limit)
            left_ms = deadline_ms - self._runtime.now_ms()
            if records or left_ms <= 0:
                return records
            self._look_up()
            await self._news(left_ms)
            self._check_open()

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
            if not waiter.done():
                waiter.set_result(None)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Yield records for ever, one at a time, so that `commit` covers exactly those that were yielded."""
        while True:
            for record in await self.poll(_FOREVER_MS, 1):
                yield record

    # Positions

    def _look_up(self) -> None:
        """Find out where to begin in partitions without a position, in the background."""
        is_missing = any(state.position == UNKNOWN for state in self._fetcher.states.values())
        if not is_missing:
            self._fetcher.pump()
        elif self._lookup is None and self._lookup_error is None:
            self._lookup = self._runtime.loop.create_task(self._look_up_all())

    async def _look_up_all(self) -> None:
        try:
            while states := [state for state in self._fetcher.states.values() if state.position == UNKNOWN]:
                await self._look_up_these(states)
        except EaglerayError as error:
            self._lookup_error = error
        finally:
            self._lookup = None
        self._fetcher.pump()
        self._wake()

    async def _look_up_these(self, states: list[PartitionState]) -> None:
        versions = {state: state.version for state in states}
        found: dict[TopicPartition, int] = {}
        wanted = [state.partition for state in states if state.reset_to is None]
        if wanted and self._config.group_id is not None:
            committed = await fetch_offsets(self._runtime, self._config.group_id, wanted, self._patience)
            found = {partition: offset.offset for partition, offset in committed.items()}
        ends = {state.partition: self._end_for(state) for state in states if state.partition not in found}
        listed = await list_offsets(self._runtime, ends, self._fetcher.isolation, self._patience)
        found |= {partition: offset.offset for partition, offset in listed.items()}
        for state, version in versions.items():
            if state.version == version:
                state.seek(found[state.partition])

    def _end_for(self, state: PartitionState) -> int:
        if state.reset_to is not None:
            return state.reset_to
        policy = self._config.auto_offset_reset
        if policy == "none":
            raise NoOffset(f"there is no offset of group {self._config.group_id!r} for {state.partition}.")
        return EARLIEST if policy == "earliest" else LATEST

    def _raise_lookup_error(self) -> None:
        if self._lookup_error is not None:
            error, self._lookup_error = self._lookup_error, None
            raise error

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that `poll` would return of a partition."""
        state = self._state(partition)
        while state.position == UNKNOWN:
            self._raise_lookup_error()
            self._look_up()
            await self._news(self._config.default_api_timeout_ms)
        return state.position

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far the group has come, in these partitions or in all that are assigned."""
        group = self._group("read committed offsets")
        return await fetch_offsets(self._runtime, group.group_id, partitions or self._fetcher.states, self._patience)

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Have the group keep these offsets, or the positions of all partitions."""
        group = self._group("commit")
        wanted = self.positions() if offsets is None else offsets
        if wanted:
            await commit_offsets(self._runtime, group, wanted, self._patience)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offsets behind what `poll` has returned, of all partitions that have one yet."""
        states = self._fetcher.states.values()
        return {state.partition: state.position for state in states if state.position != UNKNOWN}

    def _commit_if_due(self) -> None:
        now_ms = self._runtime.now_ms()
        if self._config.enable_auto_commit and now_ms >= self._next_commit_ms and self._auto_commit is None:
            self._next_commit_ms = now_ms + self._config.auto_commit_interval_ms
            self._auto_commit = self._runtime.loop.create_task(self._commit_quietly(self.positions()))

    async def _commit_quietly(self, positions: dict[TopicPartition, int]) -> None:
        try:
            await self.commit(positions)
        except EaglerayError as error:
            logger.warning("offsets were not committed and will be with the next ones: %s", error)
        finally:
            self._auto_commit = None

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who consumes, for `send_offsets` of a producer."""
        return self._group("send offsets")

    def _group(self, wanted: str) -> ConsumerGroupMetadata:
        self._check_open()
        if self._config.group_id is None:
            raise InvalidConfig(f"cannot {wanted}: the consumer was made without a group.id.")
        return ConsumerGroupMetadata(self._config.group_id)

    # Offsets of logs

    async def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where partitions begin."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where the next record would come that this consumer can read."""
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: tuple[TopicPartition, ...], end: int) -> dict[TopicPartition, int]:
        self._check_open()
        wanted = dict.fromkeys(partitions or self._fetcher.states, end)
        listed = await list_offsets(self._runtime, wanted, self._fetcher.isolation, self._patience)
        return {partition: found.offset for partition, found in listed.items()}

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition that is as young as this; None where there is none."""
        self._check_open()
        listed = await list_offsets(self._runtime, timestamps_ms, self._fetcher.isolation, self._patience)
        return {
            partition: None if found.offset < 0 else OffsetAndTimestamp(found.offset, found.timestamp)
            for partition, found in listed.items()
        }

    # Life

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer was closed.")

    async def close(self) -> None:
        """Commit where that is automatic, and read no more; repeating it does nothing."""
        if self._is_closed:
            return
        if self._config.enable_auto_commit:
            await self._commit_quietly(self.positions())
        self._is_closed = True
        self._fetcher.close()
        for task in (self._lookup, self._auto_commit):
            if task is not None:
                task.cancel()
        self._wake()

    async def _start(self) -> None:
        """Subscribe to the topics that the consumer was made for."""
        if self._topics:
            await self.subscribe(*self._topics)

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()
