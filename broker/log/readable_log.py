"""The reading side of a log: its offsets (start, last stable, high watermark, end), reads, and searches by time or
epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import reading
from eagleray.broker.log.availability import Availability
from eagleray.broker.log.errors import LogDamaged, OffsetOutOfRange
from eagleray.broker.log.leader_epochs import EpochEnd, LeaderEpochs
from eagleray.broker.log.producer_snapshot import encode_snapshot
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.reading import Isolation, LogSlice, TimestampedOffset
from eagleray.broker.log.recovery import load_producers, replay_producers
from eagleray.broker.log.segment import Segment
from eagleray.protocol.records import RecordBatch, scan_batches

if TYPE_CHECKING:
    from eagleray.broker.log.metadata import LogMetadata

BASE_OFFSET = attrgetter("base_offset")
_READ_BYTES: Final = 1024 * 1024


class ReadableLog:
    """The reading side of a partition's log: its offsets, and what is in it.

    Owns nothing and changes nothing. `PartitionLog` adds everything that does; it sets the attributes below and keeps
    `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
    """

    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    _metadata: LogMetadata
    _availability: Availability
    _file_system: FileSystem
    _directory: str

    @property
    def is_online(self) -> bool:
        """Whether the log serves; once it does not, it has to be opened anew."""
        return self._availability.is_online

    @property
    def may_have_gaps(self) -> bool:
        """Whether offsets may be missing between batches; otherwise a gap is damage."""
        return self._metadata.checkpoint.may_have_gaps

    @property
    def active_segment(self) -> Segment:
        """The segment that is being appended to."""
        return self.segments[-1]

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches on disk."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """The LSO: the first offset that a read_committed reader does not see yet, between start and high watermark."""
        first_unstable = self.producers.unstable.first_unstable_offset
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        # Records can be deleted in the middle of an open transaction.
        return max(first_unstable, self.log_start_offset)

    def read(self, offset: int, *, max_bytes: int, isolation: Isolation) -> LogSlice:
        """Return batches from the one that holds `offset` on, as far as `isolation` lets a reader see."""
        end_offset = self.readable_end(isolation)
        records, aborted = b"", []
        with self._availability.reading():
            self._require_in_range(offset)
            if offset < end_offset:
                first = self._segment_number(offset)
                records, upper_offset = reading.read_records(self.segments, first, offset, end_offset, max_bytes)
                if isolation is Isolation.READ_COMMITTED and records:
                    aborted = reading.collect_aborted(self.segments, first, offset, upper_offset)
        return LogSlice(
            records=records,
            high_watermark=self.high_watermark,
            last_stable_offset=self.last_stable_offset,
            log_start_offset=self.log_start_offset,
            aborted_transactions=aborted,
        )

    def producers_before(self, offset: int) -> bytes:
        """Return a snapshot of the producers as they were before an offset, for a follower that starts there."""
        with self._availability.reading():
            producers, snapshot_offset = load_producers(self._file_system, self._directory, offset, now_ms=0)
            replay_producers(self.segments, producers, snapshot_offset, offset, now_ms=0)
        return encode_snapshot(producers)

    def read_for_replica(self, offset: int, *, max_bytes: int) -> bytes:
        """Return batches from `offset` up to the end of the log, for a follower, which may see everything."""
        with self._availability.reading():
            self._require_in_range(offset)
            first = self._segment_number(offset)
            return reading.read_records(self.segments, first, offset, self.log_end_offset, max_bytes)[0]

    def batches(self, *, read_bytes: int = _READ_BYTES) -> Iterator[RecordBatch]:
        """Yield every batch of the log, replicated or not; LogDamaged where one is not what was written."""
        offset = self.log_start_offset
        # Compaction can leave nothing before the end.
        while offset < self.log_end_offset and (data := self.read_for_replica(offset, max_bytes=read_bytes)):
            scan = scan_batches(data)
            if not scan.batches:
                raise LogDamaged(f"the batch at offset {offset} or behind it is damaged: {scan.stopped_by}")
            yield from scan.batches
            offset = scan.batches[-1].header.next_offset

    def readable_end(self, isolation: Isolation) -> int:
        """The first offset that a reader does not see."""
        return self.last_stable_offset if isolation is Isolation.READ_COMMITTED else self.high_watermark

    def offset_for_timestamp(self, timestamp_ms: int, isolation: Isolation) -> TimestampedOffset | None:
        """Return the first readable record with this timestamp or a later one."""
        with self._availability.reading():
            end_offset = self.readable_end(isolation)
            return reading.find_by_timestamp(self.segments, timestamp_ms, self.log_start_offset, end_offset)

    def offset_of_largest_timestamp(self, isolation: Isolation) -> TimestampedOffset | None:
        """Return the first record that carries the largest timestamp of the log."""
        with self._availability.reading():
            end_offset = self.readable_end(isolation)
            return reading.find_largest_timestamp(self.segments, self.log_start_offset, end_offset)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return where a leader epoch ends in this log."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    def _require_in_range(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)

    def _segment_number(self, offset: int) -> int:
        return max(bisect_right(self.segments, offset, key=BASE_OFFSET) - 1, 0)
