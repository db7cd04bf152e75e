"""Batches on their way to a partition, and what `send` returns for a record in one of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Protocol, final

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.client.errors import RecordRefused
from eagleray.client.runtime import settle
from eagleray.client.types import RecordMetadata
from eagleray.protocol.records import BatchBuilder, CompressionType

UNASSIGNED = -1
LAST_SEQUENCE = 2**31 - 1
_NO_RECORDS = BatchBuilder()


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
    """Records that the application has gathered and laid out, to go to one partition in one batch."""

    @property
    def size_bytes(self) -> int:
        """What they take in the buffer."""


class Owner(Protocol):
    """Whose records they are, as far as those who wait for one have to know."""

    lock: threading.Lock

    def check_wait(self) -> bool:
        """Return whether this thread may wait: the loop's own would wait for itself. Raise where no end can come."""


class Ending:
    """Something that ends well or badly, once, on the loop; any thread may ask to be called back then."""

    __slots__ = ("callbacks", "error", "is_done", "is_looked_at", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.is_done = False
        self.is_looked_at = False
        """Whether the application has asked how it ends; a failure that it has not asked for is logged."""

        self.error: Exception | None = None
        self.callbacks: list[Callable[[], None]] | None = None

    @property
    def destination(self) -> str:
        """Where the records are to go."""
        raise NotImplementedError

    def current(self) -> Ending:
        """Return what the end depends on now; to be called under the lock."""
        return self

    def when_done(self, callback: Callable[[], None], *, is_look: bool = True) -> None:
        """Call back at the end, on the loop's thread; at once where the end has come.

        `flush` is told that there is an end, and does not look which.
        """
        with self.owner.lock:
            ending = self.current()
            if not ending.is_done:
                ending.is_looked_at = ending.is_looked_at or is_look
                ending.callbacks = ending.callbacks or []
                ending.callbacks.append(callback)
                return
        callback()

    def finish(self, error: Exception | None) -> None:
        """Say how it ended, to all who asked."""
        with self.owner.lock:
            self.is_done = True
            self.error = error
            callbacks, self.callbacks = self.callbacks, None
        for callback in callbacks or ():
            callback()


def records_for(count: int, destination: object) -> str:
    """Say how many records are to go where: 1 record for orders-0."""
    return f"{count} {'record' if count == 1 else 'records'} for {destination}"


class ProducerBatch(Ending):
    """Records of one partition that travel together, from the first `send` to their acknowledgement or failure."""

    __slots__ = (
        "append_time_ms",
        "attempts",
        "base_offset",
        "base_sequence",
        "charged_bytes",
        "deadline_ms",
        "encoded",
        "is_full",
        "is_in_flight",
        "queue",
        "ready_at_ms",
        "records",
        "sent_ms",
        "was_first",
    )

    def __init__(self, owner: Owner, queue: PartitionQueue, records: Records) -> None:
        super().__init__(owner)
        self.queue = queue
        self.records = records
        self.is_full = False
        """Whether it takes no more records, and so need not linger."""

        self.ready_at_ms = 0
        """When it may be sent: after lingering, and after the pause behind a failure."""

        self.deadline_ms = 0
        self.charged_bytes = 0
        self.encoded: bytes | None = None
        self.base_sequence = UNASSIGNED
        self.attempts = 0
        self.sent_ms = 0
        self.was_first = False
        """Whether nothing before it was unresolved when it was last sent: its sequence cannot have come too early."""

        self.is_in_flight = False
        self.base_offset = UNASSIGNED
        self.append_time_ms = UNASSIGNED

    def __len__(self) -> int:
        return len(self.records)

    def __str__(self) -> str:
        return records_for(len(self), self.destination)

    @property
    def destination(self) -> str:
        """Where the records are to go."""
        return str(self.queue.partition)

    def finish(self, error: Exception | None) -> None:
        """Say how it ended; an application that keeps the delivery of a record does not keep the records."""
        self.records, self.encoded = _NO_RECORDS, None
        super().finish(error)

    def taken(self, now_ms: int, linger_ms: int, timeout_ms: int) -> None:
        """Note when the loop has taken it over: from then on it lingers, and its time runs out."""
        self.ready_at_ms = now_ms + linger_ms
        self.deadline_ms = now_ms + timeout_ms


class PartitionQueue(msgspec.Struct, eq=False):
    """A producer's batches for one partition that are not acknowledged, in order, those in flight included.

    Owned by the loop, all but `open` and `builder`.
    """

    partition: TopicPartition
    batches: list[ProducerBatch] = []
    in_flight: int = 0
    open: ProducerBatch | None = None
    """The batch that takes more records, and `builder` what gathers them; both only under the producer's lock."""

    builder: BatchBuilder | None = None
    is_ready: bool = False
    """Whether it is in line to be looked at, at the end of this turn."""

    identity: ProducerIdentity | None = None
    is_known: bool = False
    """Whether the partition has acknowledged a batch of this identity. One that has not takes whatever sequence
    comes first, so that no second batch may be sent along: it could overtake the first."""

    next_sequence: int = 0
    needs_new_epoch: bool = False
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

    def close(self, batch: ProducerBatch) -> None:
        """Let a batch take no more records, where it is the one that does; to be called under the lock."""
        if self.open is batch:
            self.open = self.builder = None

    def is_first_sent(self, batch: ProducerBatch) -> bool:
        """Whether no batch before this one has a sequence and is unresolved."""
        for other in self.batches:
            if other is batch:
                return True
            if other.base_sequence != UNASSIGNED:
                return False
        return True


@final
class Delivery(msgspec.Struct, gc=False, eq=False):
    """The record's way to the log: wait for its `RecordMetadata`, or leave it alone.

        metadata = await delivery                # on a loop
        metadata = delivery.result(timeout=10)   # in a thread

    A failure is raised where it is waited for; in a transaction `commit` raises it as well, so that waiting for each
    record is never necessary for correctness.
    """

    ending: Ending
    index: int
    timestamp: int

    def done(self) -> bool:
        """Whether the record is acknowledged or has failed."""
        return self.ending.is_done

    def exception(self, timeout: float | None = None) -> Exception | None:
        """Wait for the record's end, and return why it failed, or None; the loop's own thread never waits for it."""
        if not self.ending.is_done and self.ending.owner.check_wait():
            self._wait(timeout)
        return self._error()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record's end, and return where it is, or raise why it is not.

        Raises TimeoutError after `timeout` seconds, and InvalidStateError on the loop's own thread where the record
        is still on its way: there it has to be awaited.
        """
        if not self.ending.is_done and self.ending.owner.check_wait():
            self._wait(timeout)
        batch = self.ending
        error = self._error()
        if error is not None:
            raise error
        if not batch.is_done:
            raise asyncio.InvalidStateError("the record is still on its way")
        assert isinstance(batch, ProducerBatch)
        offset = batch.base_offset if batch.base_offset < 0 else batch.base_offset + self.index
        timestamp = self.timestamp if batch.append_time_ms < 0 else batch.append_time_ms
        partition = batch.queue.partition
        return RecordMetadata(partition.topic, partition.partition, offset, timestamp)

    def _error(self) -> Exception | None:
        """Return what went wrong with this record, where the broker has said which records of the batch it was."""
        error = self.ending.error
        return error.of_record(self.index, self.ending.destination) if isinstance(error, RecordRefused) else error

    def _wait(self, timeout: float | None) -> None:
        ended = threading.Event()
        self.ending.when_done(ended.set)
        if not ended.wait(timeout):
            raise TimeoutError(f"the record is still on its way after {timeout} seconds.")

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call back on the loop's thread when the record is acknowledged or has failed; at once where that is so.

        What the callback raises is logged and goes no further: it runs in the middle of other answers.
        """
        self.ending.when_done(lambda: self._call(callback))

    def _call(self, callback: Callable[[Delivery], None]) -> None:
        try:
            callback(self)
        except Exception:  # noqa: BLE001 - whatever an application's code raises
            _log.exception("a callback for a delivery to %s has failed", self.ending.destination)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self.ending.is_done:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()
            is_same_loop = not self.ending.owner.check_wait()
            go_on = partial(settle, done, None)
            # The record of a blocking producer ends on the thread of another loop.
            self.ending.when_done(go_on if is_same_loop else partial(_wake, loop, go_on))
            yield from done
        return self.result()


def _wake(loop: asyncio.AbstractEventLoop, go_on: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # that loop was closed meanwhile, and with it the task that waited
        loop.call_soon_threadsafe(go_on)
