"""Batches on their way to a partition, and what `send` returns for a record in one of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from typing import Protocol

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.client.errors import EaglerayError
from eagleray.client.types import RecordMetadata
from eagleray.protocol.records import BatchBuilder, CompressionType

UNASSIGNED = -1
LAST_SEQUENCE = 2**31 - 1


_log = logging.getLogger(__name__)


class Records(Protocol):
    """Records that become a batch once it is known who sends them, and as which of its sequence."""

    def __len__(self) -> int:
        """How many there are."""

    def build(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool,
        compression: CompressionType,
    ) -> bytes:
        """Return the bytes of the batch."""


class PreparedRecords(Records, Protocol):
    """Records that somebody else has gathered and laid out, to go to one partition in one batch."""

    @property
    def size_bytes(self) -> int:
        """What they take in the buffer."""


class ProducerBatch:
    """Records of one partition that travel together, from the first `send` to their acknowledgement or failure."""

    __slots__ = (
        "append_time_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "charged_bytes",
        "deadline_ms",
        "encoded",
        "error",
        "is_done",
        "is_in_flight",
        "queue",
        "ready_at_ms",
        "records",
        "sent_ms",
        "was_first",
    )

    def __init__(self, queue: PartitionQueue, records: Records, now_ms: int, linger_ms: int, timeout_ms: int) -> None:
        self.queue = queue
        self.records = records
        self.ready_at_ms = now_ms + linger_ms
        """When it may be sent: after lingering, and after the pause behind a failure."""

        self.deadline_ms = now_ms + timeout_ms
        self.charged_bytes = 0
        self.encoded: bytes | None = None
        self.base_sequence = UNASSIGNED
        self.attempts = 0
        self.sent_ms = 0
        self.was_first = False
        """Whether nothing before it was unresolved when it was last sent: its sequence cannot have come too early."""

        self.is_in_flight = False
        self.is_done = False
        self.base_offset = UNASSIGNED
        self.append_time_ms = UNASSIGNED
        self.error: EaglerayError | None = None
        self.callbacks: list[Callable[[], None]] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back when it is acknowledged or has failed; for a batch that is neither yet."""
        if self.callbacks is None:
            self.callbacks = [callback]
        else:
            self.callbacks.append(callback)

    def finish(self, error: EaglerayError | None) -> None:
        """Say how it ended, to everybody who asked."""
        self.is_done = True
        self.error = error
        callbacks, self.callbacks = self.callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                callback()


class PartitionQueue:
    """A producer's batches for one partition that are not acknowledged, in order, those in flight included."""

    __slots__ = (
        "batches",
        "builder",
        "identity",
        "in_flight",
        "is_known",
        "is_ready",
        "needs_new_epoch",
        "next_sequence",
        "partition",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: list[ProducerBatch] = []
        self.in_flight = 0
        self.builder: BatchBuilder | None = None
        """What the last batch gathers records with, as long as it takes more."""

        self.is_ready = False
        """Whether it is in line to be looked at, at the end of this turn."""

        self.identity: ProducerIdentity | None = None
        self.is_known = False
        """Whether the partition has acknowledged a batch of this identity. One that has not takes whatever sequence
        comes first, so that no second batch may be sent along: it could overtake the first."""

        self.next_sequence = 0
        self.needs_new_epoch = False
        """Whether a batch was given up that had a sequence: those behind it need other sequences, in a new epoch."""

    def start_sequences(self, identity: ProducerIdentity) -> None:
        """Begin at zero under another identity."""
        self.identity = identity
        self.is_known = False
        self.next_sequence = 0
        self.needs_new_epoch = False

    def take_sequence(self, count: int) -> int:
        """Return the sequence of the first of so many records; behind the last one they begin again at zero."""
        sequence = self.next_sequence
        self.next_sequence = (sequence + count) & LAST_SEQUENCE
        return sequence

    def is_first_sent(self, batch: ProducerBatch) -> bool:
        """Whether no batch before this one has a sequence and is unresolved."""
        for other in self.batches:
            if other is batch:
                return True
            if other.base_sequence != UNASSIGNED:
                return False
        return True


class Delivery:
    """The record's way to the log: `await` it for a `RecordMetadata`, or leave it alone.

    A failure is raised where it is awaited; in a transaction `commit` raises it as well, so that awaiting each record
    is never necessary for correctness.
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the record is acknowledged or has failed."""
        return self._batch.is_done

    def exception(self) -> EaglerayError | None:
        """Why the record failed; None while it has not."""
        return self._batch.error

    def result(self) -> RecordMetadata:
        """Return where the record is, or raise why it is not; to be asked when it is `done`."""
        batch = self._batch
        if batch.error is not None:
            raise batch.error
        if not batch.is_done:
            raise asyncio.InvalidStateError("the record is still on its way")
        offset = batch.base_offset if batch.base_offset < 0 else batch.base_offset + self._index
        timestamp = self._timestamp if batch.append_time_ms < 0 else batch.append_time_ms
        partition = batch.queue.partition
        return RecordMetadata(partition.topic, partition.partition, offset, timestamp)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call back when the record is acknowledged or has failed, at once where that is so already.

        What the callback raises is logged and goes no further: it runs in the middle of everybody's answers.
        """
        if self._batch.is_done:
            self._call(callback)
        else:
            self._batch.when_done(lambda: self._call(callback))

    def _call(self, callback: Callable[[Delivery], None]) -> None:
        try:
            callback(self)
        except Exception:  # noqa: BLE001 - whatever an application's code raises
            _log.exception("a callback for a delivery to %s has failed", self._batch.queue.partition)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.is_done:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._batch.when_done(lambda: None if done.done() else done.set_result(None))
            yield from done
        return self.result()
