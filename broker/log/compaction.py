"""Log compaction (`cleanup.policy=compact`): only the newest record of each key stays.

It goes over the log twice. The first pass reads the dirty part, which no compaction has covered yet, and notes the
newest offset of each key. The second pass writes every segment again, from the start of the log up to the end of that
part, with what `CompactionFilter` keeps, and swaps it in. The segments are swapped in the order of the log, so that a
value is gone before its tombstone, and a transaction's records before its marker.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log import reading, recovery
from eagleray.broker.log.compacted_segment import CompactedSegment
from eagleray.broker.log.compaction_filter import CompactionFilter
from eagleray.broker.log.compaction_plan import Cleanable, group_segments
from eagleray.broker.log.compaction_transactions import CompactionTransactions
from eagleray.broker.log.errors import CompactionFailed, LogDamaged
from eagleray.broker.log.offset_map import OffsetMap
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import RecordBatch

if TYPE_CHECKING:
    from eagleray.broker.log.partition_log import PartitionLog

STEP_BYTES = 1024 * 1024

# Decoding a record takes about as long as copying so many bytes.
_RECORD_COST_BYTES = 512
_READ_BYTES = 128 * 1024

_NOTHING_LEFT = object()


class CompactionReport(msgspec.Struct, kw_only=True):
    """What a compaction has done so far."""

    mapped_keys: int = 0
    read_bytes: int = 0
    """Bytes of the batches that were decided about."""

    written_bytes: int = 0
    """Bytes of what stays of them."""

    cleaned_up_to: int | None = None
    """Where the compaction ended; None unless it came to its end."""


class Compaction:
    """One compaction of a log, done in steps between which the log goes on serving; one at a time for each log.

    Owns: segments under `.cleaned` names until they are swapped in.
    Persists: each swap as a whole, and at the end how far the log is clean.
    On failure: CompactionFailed or LogDamaged, and the log is as it was except for the segments that were swapped in
    already; a later compaction does the rest. If the segments under it were deleted, truncated, closed or opened anew
    between two steps, it stops.
    After a crash: opening the log finishes a swap that was decided and removes everything else.
    """

    def __init__(
        self,
        log: PartitionLog,
        file_system: FileSystem,
        directory: str,
        cleanable: Cleanable,
        *,
        now_ms: int,
        newest: OffsetMap,
    ) -> None:
        self._log = log
        self._file_system = file_system
        self._directory = directory
        self._cleanable = cleanable
        self._segments = list(cleanable.segments)
        self._now_ms = now_ms
        self._newest = newest
        self._work = self._run()
        self._step_bytes_left = 0
        self.report = CompactionReport()

    def step(self, step_bytes: int | None = None) -> bool:
        """Do a bounded piece of work, by default a megabyte or as many small records as take as long.

        Return whether there is more.
        """
        if not self._is_undisturbed():
            self.stop()
            return False
        self._step_bytes_left = STEP_BYTES if step_bytes is None else step_bytes
        try:
            return next(self._work, _NOTHING_LEFT) is not _NOTHING_LEFT
        except OSError as error:
            raise CompactionFailed(f"{self._directory}: the compaction was given up: {error}") from error

    def stop(self) -> None:
        """Give up, and remove what is half written."""
        self._work.close()

    def _is_undisturbed(self) -> bool:
        return self._log.is_online and self._log.segments[: len(self._segments)] == self._segments

    def _run(self) -> Generator[None]:
        # A record on stable storage must not be superseded by one that a loss of power could take, nor by one whose
        # transaction is undecided. Mostly the background has flushed all of this part by now.
        if self._log.recovery_point < self._cleanable.end_offset:
            self._log.flush()
        yield
        end_offset = yield from self._map_newest()
        self.report.mapped_keys = len(self._newest)
        filter_ = CompactionFilter(
            self._newest,
            end_offset,
            self._log.producers,
            now_ms=self._now_ms,
            delete_retention_ms=self._log.config.delete_retention_ms,
        )
        segments = [segment for segment in self._segments if segment.base_offset < end_offset]
        for group in group_segments(segments, self._end_of(len(segments) - 1), self._log.config):
            yield from self._compact(group, filter_)
        self._log.finish_compaction(end_offset)
        self.report.cleaned_up_to = end_offset

    # The first pass

    def _map_newest(self) -> Generator[None, None, int]:
        """Note the newest offset of each key; return the offset up to which the map had room for all of them.

        That is the end of a segment, so that no segment is rewritten twice, unless the first one alone has more keys
        than the map has room for.
        """
        transactions = CompactionTransactions()
        first = self._cleanable.first_dirty
        for number in range(first, len(self._segments)):
            segment = self._segments[number]
            transactions.expect_aborted(self._aborted_in(number))
            for batch in self._batches(segment, from_offset=self._cleanable.dirty_offset if number == first else 0):
                if batch is None:
                    yield
                elif self._newest.is_full:
                    return batch.header.base_offset if number == first else segment.base_offset
                elif not batch.header.is_control and not transactions.meet_batch(batch.header):
                    self._map_batch(batch)
        return self._cleanable.end_offset

    def _map_batch(self, batch: RecordBatch) -> None:
        try:
            records = batch.records()
        except ProtocolError:
            # It will pass the filter unchanged, and supersedes nothing.
            return
        for record in records:
            if record.key is not None:
                self._newest.put(record.key, record.offset)

    # The second pass

    def _compact(self, group: list[Segment], filter_: CompactionFilter) -> Generator[None]:
        compacted = CompactedSegment(
            self._file_system,
            self._directory,
            group[0].base_offset,
            index_interval_bytes=self._log.config.index_interval_bytes,
            created_ms=group[0].created_ms,
        )
        try:
            is_changed = yield from self._rewrite(group, compacted, filter_)
            if is_changed or len(group) > 1:
                compacted.finish()
                # The next step looks first whether the log still has these segments.
                yield
                compacted.close()
                self._swap_in(group)
        finally:
            if compacted.is_open:
                self._discard(compacted)

    def _rewrite(
        self, group: list[Segment], compacted: CompactedSegment, filter_: CompactionFilter
    ) -> Generator[None, None, bool]:
        is_changed = False
        last = next((segment for segment in reversed(group) if segment.size_bytes), None)
        for segment in group:
            filter_.transactions.expect_aborted(self._aborted_in(self._segments.index(segment)))
            read_bytes = 0
            for batch in self._batches(segment):
                if batch is None:
                    compacted.write()
                    yield
                    continue
                read_bytes += batch.header.size_bytes
                # The last batch tells where the segment ends, which a swap that a crash interrupts has to know.
                is_last = segment is last and read_bytes == segment.size_bytes
                kept = filter_.keep(batch, must_stay=is_last)
                is_changed = is_changed or kept is not batch.view
                if kept is not None:
                    compacted.add(kept)
            self.report.read_bytes += read_bytes
        compacted.add_aborted(filter_.aborted)
        filter_.aborted.clear()
        self.report.written_bytes += compacted.size_bytes
        return is_changed

    def _swap_in(self, group: list[Segment]) -> None:
        first = self._segments.index(group[0])
        self._segments[first : first + len(group)] = [self._log.replace_segments(group, now_ms=self._now_ms)]

    def _discard(self, compacted: CompactedSegment) -> None:
        with suppress(OSError):
            # What cannot be removed now is swept up when the log is opened.
            if self._log.is_online:
                compacted.discard()
            else:
                # Another process may have opened the directory by now, and write files of the same names.
                compacted.close()

    # What both need

    def _batches(self, segment: Segment, *, from_offset: int = 0) -> Generator[RecordBatch | None]:
        """Yield the batches of a segment, and None wherever enough is done for one step."""
        position = _position_of(segment, from_offset)
        for batch_position, batch in recovery.valid_batches(segment, position, read_bytes=_READ_BYTES):
            yield batch
            size_bytes = batch.header.size_bytes
            position = batch_position + size_bytes
            self._step_bytes_left -= size_bytes + _RECORD_COST_BYTES * (1 + batch.header.record_count)
            if self._step_bytes_left <= 0:
                yield None
        if position != segment.size_bytes:
            raise LogDamaged(
                f"{self._directory}: the batch at byte {position} of segment {segment.base_offset} is damaged, and the "
                f"log is not compacted: restore the partition from a replica"
            )

    def _aborted_in(self, number: int) -> list[AbortedTransaction]:
        start_offset = self._segments[number].base_offset
        return reading.collect_aborted(self._log.segments, number, start_offset, self._end_of(number))

    def _end_of(self, number: int) -> int:
        return self._log.segments[number + 1].base_offset


def _position_of(segment: Segment, offset: int) -> int:
    if offset <= segment.base_offset:
        return 0
    location = segment.locate(offset)
    return segment.size_bytes if location is None else location.position
