"""A partition log as a plain list of batches, in which everything is found by looking at all of it."""

from bisect import bisect_left
from dataclasses import dataclass, field

from eagleray.broker.log import Isolation, TimestampedOffset
from eagleray.protocol.records import Record, RecordBatch


@dataclass(frozen=True)
class Written:
    """A batch that is in the log."""

    data: bytes
    batch: RecordBatch
    records: list[Record]

    @property
    def base_offset(self) -> int:
        return self.batch.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.batch.header.last_offset

    @property
    def producer_id(self) -> int:
        return self.batch.header.producer_id

    @property
    def commits(self) -> bool | None:
        """Whether a marker commits; None for what is no marker."""
        marker = self.batch.end_transaction_marker() if self.batch.header.is_control else None
        return None if marker is None else marker.commit


@dataclass
class Transaction:
    """A transaction as its batches tell it."""

    producer_id: int
    first_offset: int
    marker_offset: int | None = None
    commits: bool | None = None

    @property
    def bounds(self) -> tuple[int, int, int | None]:
        return self.producer_id, self.first_offset, self.marker_offset


@dataclass
class LogModel:
    """What a log should be, and what its readers should see of it."""

    written: list[Written] = field(default_factory=list)
    start_offset: int = 0
    high_watermark: int = 0
    end_offset: int = 0
    settled_up_to: int = 0
    """Transactions decided below count as replicated, because a snapshot of producers tells only of open ones."""

    # What happens

    def append(self, batch: RecordBatch) -> None:
        self.written.append(Written(bytes(batch.view), batch, batch.records()))
        self.end_offset = batch.header.next_offset

    def cut(self, to_offset: int) -> None:
        """Leave the whole batches below an offset."""
        self.written = [written for written in self.written if written.last_offset < to_offset]
        self.end_offset = self.written[-1].last_offset + 1 if self.written else 0
        if self.end_offset < self.start_offset:
            # Nothing is left that was not deleted already, and so nothing of the producers either.
            self.end_offset, self.written = self.start_offset, []
        self.high_watermark = min(self.high_watermark, self.end_offset)

    # What it means

    def transactions(self) -> list[Transaction]:
        """Tell the transactions from the batches, in the order of their first offsets."""
        found: list[Transaction] = []
        opened: dict[int, Transaction] = {}
        for written in self.written:
            if not written.batch.header.is_transactional:
                continue
            if written.commits is None:
                if written.producer_id not in opened:
                    opened[written.producer_id] = Transaction(written.producer_id, written.base_offset)
                    found.append(opened[written.producer_id])
            elif written.producer_id in opened:
                ended = opened.pop(written.producer_id)
                ended.marker_offset, ended.commits = written.base_offset, written.commits
        return found

    @property
    def last_stable_offset(self) -> int:
        unstable = [
            transaction.first_offset
            for transaction in self.transactions()
            if transaction.marker_offset is None
            or transaction.marker_offset >= max(self.high_watermark, self.settled_up_to)
        ]
        return max(min([self.high_watermark, *unstable]), self.start_offset)

    def readable_end(self, isolation: Isolation) -> int:
        return self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def batches_from(self, offset: int, end_offset: int) -> list[Written]:
        """Return the batches from the one that holds an offset on, up to before another."""
        if offset >= end_offset:
            return []
        first = bisect_left(self.written, offset, key=lambda written: written.last_offset)
        return [written for written in self.written[first:] if written.last_offset < end_offset]

    def aborted(self, start_offset: int, end_offset: int) -> list[Transaction]:
        """Return the aborted transactions that began before an offset and were not over before another."""
        return [
            transaction
            for transaction in self.transactions()
            if transaction.commits is False
            and transaction.marker_offset is not None
            and transaction.first_offset < end_offset
            and transaction.marker_offset >= start_offset
        ]

    def committed(self, start_offset: int, end_offset: int) -> list[Record]:
        """Return the records that a committed reader sees in a range, all of which is decided."""
        aborted = {
            written.base_offset
            for transaction in self.aborted(0, end_offset)
            for written in self.written
            if written.producer_id == transaction.producer_id
            and transaction.first_offset <= written.base_offset <= (transaction.marker_offset or 0)
        }
        return [
            record
            for written in self.written
            if not written.batch.header.is_control and written.base_offset not in aborted
            for record in written.records
            if start_offset <= record.offset < end_offset
        ]

    def first_at_or_after(self, timestamp_ms: int, isolation: Isolation) -> TimestampedOffset | None:
        """Return the first record that a reader sees with a timestamp or a later one."""
        end_offset = self.readable_end(isolation)
        for written in self.written:
            for record in written.records:
                if record.timestamp >= timestamp_ms and self.start_offset <= record.offset < end_offset:
                    return TimestampedOffset(record.timestamp, record.offset)
        return None

    def next_sequences(self) -> dict[int, int]:
        """Return the sequence that each producer goes on with."""
        return {
            written.producer_id: written.batch.header.last_sequence + 1
            for written in self.written
            if not written.batch.header.is_control
        }

    def boundary(self, offset: int, part: float) -> int:
        """Choose the end of a batch between an offset and the end of the log."""
        ends = [offset, *(written.last_offset + 1 for written in self.written if written.last_offset >= offset)]
        return ends[round(part * (len(ends) - 1))]
