"""What fetches have brought of one partition and the application has not yet taken."""

from __future__ import annotations

from bisect import bisect_left
from itertools import repeat

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import FetchedPartition
from eagleray.client.errors import CorruptRecords, EaglerayError
from eagleray.client.types import ConsumerRecord
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import RecordBatch, RecordColumns, committed_batches, scan_batches

UNKNOWN = -1


class FetchedBatches(msgspec.Struct):
    """The visible batches of one fetch, and the offset behind everything that the fetch has covered."""

    batches: list[RecordBatch]
    next_offset: int


def unpack(found: FetchedPartition, offset: int, isolation: Isolation) -> FetchedBatches:
    """Check the bytes of a fetch from `offset` on, and leave out what is not for the application.

    The last batch may be cut short by the limit on bytes; anything else that is wrong raises CorruptRecords.
    """
    scan = scan_batches(found.records)
    if scan.stopped_by is not None and scan.missing_bytes == 0:
        bad_offset = scan.batches[-1].header.last_offset + 1 if scan.batches else offset
        raise corrupt(found.partition, bad_offset, scan.stopped_by)
    whole = [batch for batch in scan.batches if batch.header.last_offset >= offset]
    next_offset = whole[-1].header.last_offset + 1 if whole else offset
    if isolation is Isolation.READ_COMMITTED:
        aborted = ((transaction.first_offset, transaction.producer_id) for transaction in found.aborted_transactions)
        visible = list(committed_batches(whole, aborted))
    else:
        visible = [batch for batch in whole if not batch.header.is_control]
    return FetchedBatches(visible, next_offset)


def corrupt(partition: TopicPartition, offset: int, reason: str) -> CorruptRecords:
    """Say where records are damaged."""
    return CorruptRecords(f"the batch at offset {offset} of {partition} cannot be read: {reason}.")


class PartitionState(msgspec.Struct, eq=False):
    """One assigned partition: where the application is, where fetching is, and what lies between."""

    partition: TopicPartition
    position: int = UNKNOWN
    """The offset of the next record for the application; UNKNOWN until it was looked up."""

    fetch_offset: int = UNKNOWN
    reset_to: int | None = None
    """Which end of the log to look up for a position; None for where the group is, or the reset policy."""

    version: int = 0
    """Counts seeks, so that what was fetched before one is not taken for what comes after."""

    is_fetching: bool = False
    is_paused: bool = False
    retry_at_ms: int = 0
    error: EaglerayError | None = None
    _fetched: list[FetchedBatches] = []
    _columns: RecordColumns | None = None
    _next: int = 0
    """The batch that is being taken, and the place in it."""

    @property
    def buffers(self) -> int:
        """How many fetches wait for the application."""
        return len(self._fetched)

    def seek(self, offset: int, reset_to: int | None = None) -> None:
        """Go somewhere else, and forget what was fetched."""
        self.version += 1
        self.position = self.fetch_offset = offset
        self.reset_to = reset_to
        self.error = None
        self.retry_at_ms = 0
        self._fetched = []
        self._columns = None

    def add(self, fetched: FetchedBatches) -> None:
        """Take what a fetch has brought; where nothing of it is for the application, move over it in its turn."""
        self.fetch_offset = fetched.next_offset
        self._fetched.append(fetched)
        self._move_on()

    def take(self, limit: int, into: list[ConsumerRecord]) -> None:
        """Give records to the application; its position is behind the last of them, then."""
        while limit > 0 and self._fetched:
            if self._columns is None:
                self._open_next_batch()
            limit -= self._hand_over(limit, into)
            self._move_on()

    def _hand_over(self, limit: int, into: list[ConsumerRecord]) -> int:
        columns, begin = self._columns, self._next
        assert columns is not None, "a batch is open"
        end = min(begin + limit, len(columns.offsets))
        if begin < end:
            part = slice(begin, end)
            into.extend(
                map(
                    ConsumerRecord,
                    repeat(self.partition.topic, end - begin),
                    repeat(self.partition.partition),
                    columns.offsets[part],
                    columns.timestamps[part],
                    columns.keys[part],
                    columns.values[part],
                    columns.headers[part],
                )
            )
            self.position = columns.offsets[end - 1] + 1
        self._next = end
        if end == len(columns.offsets):
            self._columns = None
        return end - begin

    def _open_next_batch(self) -> None:
        batches = self._fetched[0].batches
        try:
            self._columns = batches[0].columns()
        except ProtocolError as error:
            raise corrupt(self.partition, batches[0].header.base_offset, str(error)) from error
        del batches[0]
        # A fetch begins with the batch that holds the offset, so that records before it come along.
        self._next = bisect_left(self._columns.offsets, self.position)

    def _move_on(self) -> None:
        """Leave fetches behind that have nothing more, and go to where they end: over markers and aborted records."""
        while self._fetched and self._columns is None and not self._fetched[0].batches:
            self.position = max(self.position, self._fetched[0].next_offset)
            del self._fetched[0]
