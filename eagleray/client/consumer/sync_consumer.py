"""The blocking consumer: the asyncio one, on a loop in the background."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import ParamSpec, Self, TypeVar

from eagleray.broker.identities import TopicPartition
from eagleray.client import validation
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.consumer.rebalances import OnPartitions, Rebalance
from eagleray.client.errors import ClientClosed, ForkedClient, InvalidConfig
from eagleray.client.loop_thread import LoopThread
from eagleray.client.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp

_LONG_POLL_MS = 60_000

Fields = ParamSpec("Fields")
Result = TypeVar("Result")


class Consumer:
    """Reads partitions, for threads.

        with cluster.consumer("orders", group="audit", isolation="read_committed") as consumer:
            for record in consumer:
                print(record.offset, record.value)
                consumer.commit()

    What `AsyncConsumer` says holds here too. Callbacks of a subscription run in the thread that polls, so that they may
    use the consumer. Not for several threads at once.
    """

    def __init__(self, thread: LoopThread, consumer: AsyncConsumer) -> None:
        self._thread = thread
        self._consumer = consumer
        self._is_closed = False

    def _call(self, act: Callable[Fields, Result], *fields: Fields.args, **named: Fields.kwargs) -> Result:
        async def on_loop() -> Result:
            return act(*fields, **named)

        return self._thread.run(on_loop())

    def subscribe(
        self,
        *topics: str,
        pattern: str | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Read these topics, and those that a regular expression describes; `AsyncConsumer.subscribe` says how."""
        for callback in (on_assigned, on_revoked, on_lost):
            if inspect.iscoroutinefunction(callback):
                raise InvalidConfig("the callbacks of a blocking consumer cannot be coroutine functions.")
        subscribe = self._consumer.subscribe
        self._thread.run(
            subscribe(*topics, pattern=pattern, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost)
        )

    def unsubscribe(self) -> None:
        """Leave the group, and read nothing until the next `subscribe` or `assign`."""
        rebalance = self._call(self._consumer.unsubscribe_begins)
        try:
            if rebalance is not None:
                self._tell(rebalance)
        finally:
            self._thread.run(self._consumer.unsubscribe_ends())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, whatever members of the group do."""
        self._call(self._consumer.assign, validation.partitions(partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return self._consumer.assignment()

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are some, an empty list where there are none in time."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        while (rebalance := self._thread.run(self._consumer.read_ahead(timeout_ms, max_records))) is not None:
            self._tell(rebalance)
            timeout_ms = max((deadline_s - time.monotonic()) * 1000, 0)
        return self._consumer.take_ahead(max_records)

    def _tell(self, rebalance: Rebalance) -> None:
        try:
            rebalance.tell()
        finally:
            # Noted in this thread: an interrupt may keep the loop from hearing of it before the next poll.
            rebalance.was_told()
            self._call(self._consumer.rebalance_ends, rebalance)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records for ever."""
        ahead = self._consumer.ahead
        while True:
            while ahead:
                yield ahead.popleft()
            rebalance = self._thread.run(self._consumer.read_ahead(_LONG_POLL_MS))
            if rebalance is not None:
                self._tell(rebalance)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset; the next record of the partition is that one, or the first behind it."""
        self._call(self._consumer.seek, partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of partitions, or of all."""
        self._call(self._consumer.seek_to_beginning, *partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of partitions, or of all."""
        self._call(self._consumer.seek_to_end, *partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these partitions until `resume`."""
        self._call(self._consumer.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions where they were."""
        self._call(self._consumer.resume, *partitions)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition."""
        return self._thread.run(self._consumer.position(partition))

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far the group has come."""
        return self._thread.run(self._consumer.committed(*partitions))

    def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Have the group keep these offsets, or those behind what was returned."""
        self._thread.run(self._consumer.commit(offsets))

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offsets behind what was returned or yielded, of all partitions that have one yet."""
        return self._consumer.positions()

    def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where partitions begin."""
        return self._thread.run(self._consumer.beginning_offsets(*partitions))

    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where the next record would come that this consumer can read."""
        return self._thread.run(self._consumer.end_offsets(*partitions))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition with this timestamp or a later one; None where there is none."""
        return self._thread.run(self._consumer.offsets_for_times(timestamps_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member of the group, for `send_offsets` of a producer."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        """Commit where that is automatic, leave the group, and read no more; repeating it does nothing."""
        if not self._is_closed:
            self._is_closed = True
            # Where the loop is gone there is nothing left to close.
            with suppress(ClientClosed, ForkedClient):
                self._close()

    def _close(self) -> None:
        try:
            rebalance = self._thread.run(self._consumer.close_begins())
            if rebalance is not None:
                self._tell(rebalance)
        finally:
            self._thread.run(self._consumer.close_ends())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_closed:
            warnings.warn("a Consumer was dropped without close()", ResourceWarning, 2)
            # Its group need not wait for the end of its session to give its partitions to others.
            with suppress(RuntimeError):
                loop, consumer = self._thread.loop, self._consumer
                loop.call_soon_threadsafe(lambda: loop.create_task(consumer.close_ends()))
