"""The log of a partition: appends, truncation, retention, compaction and recovery (Kafka's UnifiedLog)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Concatenate, Final, ParamSpec, TypeAlias

from eagleray.broker.filesystem import FileSystem, is_full
from eagleray.broker.log import retention
from eagleray.broker.log.appending import Appended, AppendRun, fenced
from eagleray.broker.log.availability import Availability
from eagleray.broker.log.compaction import Compaction
from eagleray.broker.log.compaction_plan import plan_compaction
from eagleray.broker.log.config import Flush, LogConfig
from eagleray.broker.log.deleting import move_start
from eagleray.broker.log.durable_log import DurableLog
from eagleray.broker.log.errors import CompactionFailed, LogOffline, LogWriteFailed, OffsetOutOfRange
from eagleray.broker.log.metadata import LogMetadata
from eagleray.broker.log.offset_map import DEFAULT_MAX_KEYS, OffsetMap
from eagleray.broker.log.opening import OpenedFiles, open_files
from eagleray.broker.log.producer_state import Origin, Rejection
from eagleray.broker.log.recovery import Recovery
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.settling import ALONE, UNTORN, Surroundings
from eagleray.broker.log.swapping import swap_in
from eagleray.broker.log.sweeping import remove_behind
from eagleray.broker.log.tail import Tail
from eagleray.broker.log.truncating import begin_anew, truncate_files
from eagleray.broker.log.undoing import AppendUndo
from eagleray.broker.messages import Marker
from eagleray.protocol.records import DEFAULT_MAX_DECOMPRESSED_BYTES, RecordBatch

_NEVER: Final = 2**63
_ALL: Final = 2**63

_Added = ParamSpec("_Added")
_Results: TypeAlias = list[Appended | Rejection]


class PartitionLog(DurableLog):
    """The batches of one partition, with the producers and transactions that wrote them.

    Owns: one directory, alone.
    Persists: every batch before `append` returns (against the death of the process; against the loss of power once
    `flush` has returned).
    On failure: an append that raises LogWriteFailed left nothing behind and may be tried again; LogOffline means that
    the disk may not hold what this object believes, and the log has to be opened anew.
    After a restart: exactly the whole valid batches are there, and producers, transactions and indexes are what these
    batches give; of the batches before the last snapshot only the last one of each producer is remembered, as in Kafka.

    It knows no clock and no thread: the time comes with each call, and one call runs to its end before the next.
    """

    def __init__(self, file_system: FileSystem, directory: str, config: LogConfig, files: OpenedFiles) -> None:
        self._file_system = file_system
        self._directory = directory
        self._metadata = LogMetadata(file_system, directory, files.checkpoint)
        self._availability = Availability(file_system, directory, self._close_files)
        self._new_names = self._rewinds = 0
        self.is_flush_due = False
        self.on_unflushed: Callable[[], None] = lambda: None
        """Called after the first append behind a flush in the background."""
        self.on_refused: Callable[[OSError], None] = lambda _: None
        """Called when the disk has refused an append."""
        self.doubt_ms = 0
        """By how much the time that is given may be wrong, so that producers' timestamps are not measured by it."""
        self.noticed_at_batches = _NEVER
        """As soon as so many batches are not covered by a bookmark, `on_grown` is called after an append."""
        self.on_grown: Callable[[], None] = lambda: None
        self.tail = Tail()
        self.log_start_offset = self.high_watermark = 0
        self.cleaned_up_to = files.checkpoint.cleaned_up_to
        self._take(files)
        self.high_watermark = min(max(files.checkpoint.high_watermark, self.log_start_offset), self.log_end_offset)
        self.producers.unstable.replicated_up_to(self.high_watermark)
        self.reconfigure(config)

    @classmethod
    def open(
        cls,
        file_system: FileSystem,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int,
        surroundings: Surroundings = ALONE,
    ) -> PartitionLog:
        """Open the log in `directory`, creating it where there is none and recovering it where it was not closed.

        LogDamaged where the disk has changed what was good, and nothing has been changed; LogOffline where the disk
        failed.
        """
        try:
            files = open_files(file_system, directory, config, now_ms=now_ms, surroundings=surroundings)
        except OSError as error:
            raise LogOffline(f"{directory}: the log could not be opened: {error}") from error
        return cls(file_system, directory, config, files)

    def _take(self, files: OpenedFiles) -> None:
        self.tail.clear()
        self.segments = files.segments
        self.producers = files.producers
        self.epochs = files.epochs
        self.recovery: Recovery = files.recovery
        self.log_end_offset = files.recovery.log_end_offset
        self.log_start_offset = max(
            self.log_start_offset, files.checkpoint.log_start_offset, self.segments[0].base_offset
        )
        self.cleaned_up_to = min(self.cleaned_up_to, self.log_end_offset)

    def expect_gaps(self) -> None:
        """Write down that offsets may be missing from now on. Raises OSError."""
        if not self.may_have_gaps:
            self._metadata.write_checkpoint(self, may_have_gaps=True)

    def reconfigure(self, config: LogConfig) -> None:
        """Take new settings; a log that is to stop flushing first says so on its disk. On failure: LogOffline."""
        self.config = config
        self.producers.limit.most = config.max_producer_ids
        self.max_batch_bytes = min(config.max_message_bytes, config.segment_bytes)
        # What may come uncompressed may come compressed, and no more than readers unpack.
        self.max_records_bytes = min(
            max(config.max_decompressed_bytes, config.max_message_bytes), DEFAULT_MAX_DECOMPRESSED_BYTES
        )
        self.roll_ms = config.roll_ms
        if self._metadata.checkpoint.flushes_first and config.flush is not Flush.COMMIT:
            with self._availability.or_offline("taking other settings"):
                self._metadata.write_checkpoint(self)

    # Appending

    def append(
        self, batches: Sequence[RecordBatch], *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> list[Appended | Rejection]:
        """Append batches, of one producer or of many, with one write; answer each in its place.

        The caller that took the batches from the wire has split and checked them, CRCs included.
        """
        return self._run(len(batches), leader_epoch, now_ms, AppendRun.add_all, batches, origin)

    def append_records(
        self, records: Sequence[tuple[bytes, bytes | None]], *, leader_epoch: int, now_ms: int
    ) -> Appended | Rejection:
        """Append the broker's own records, keys and values, as one batch without a producer, with one write."""
        (result,) = self._run(1, leader_epoch, now_ms, AppendRun.add_records, records)
        return result

    def append_markers(
        self, markers: Sequence[Marker], *, leader_epoch: int, now_ms: int
    ) -> list[Appended | Rejection]:
        """Append commit and abort markers with one write; answer each in its place."""
        return self._run(len(markers), leader_epoch, now_ms, AppendRun.add_markers, markers)

    def append_replicated(self, batches: Sequence[RecordBatch], *, now_ms: int) -> list[Appended | Rejection]:
        """Append batches that a leader has placed, offsets and epochs unchanged."""
        return self._run(len(batches), self.epochs.latest_epoch, now_ms, AppendRun.add_replicated, batches)

    def _run(
        self,
        answers: int,
        leader_epoch: int,
        now_ms: int,
        add: Callable[Concatenate[AppendRun, _Added], _Results],
        *added: _Added.args,
        **named: _Added.kwargs,
    ) -> _Results:
        if leader_epoch < self.epochs.latest_epoch:
            return [fenced(self._directory, leader_epoch, self.epochs.latest_epoch)] * answers
        self._availability.require()
        run = AppendRun(self, leader_epoch, now_ms)
        try:
            if not self._metadata.is_marked_open:
                self._metadata.write_checkpoint(self)
            results = add(run, *added, **named)
            run.write()
            if self.epochs.is_dirty:
                self._metadata.write_epochs(self.epochs)
        except OSError as error:
            self._take_back(run.undo)
            self.on_refused(error)
            raise LogWriteFailed(f"{self._directory}: nothing was appended: {error}") from error
        except Exception:
            # A replicated marker that cannot be read, or a mistake of ours. What was staged must not outlive it.
            self._take_back(run.undo)
            raise
        if self.segments[-1].unmarked_batches >= self.noticed_at_batches:
            self.on_grown()
        if not self.is_flush_due:
            self.is_flush_due = True
            self.on_unflushed()
        return results

    def _take_back(self, undo: AppendUndo) -> None:
        """Undo an append that failed, of which whole batches, or even whole segments, may be written."""
        with self._availability.or_offline("undoing a failed append"):
            if undo.has_rolled:
                self._metadata.remove_bookmark()
                remove_behind(self._file_system, self._directory, undo.segment.base_offset)
                self._metadata.remove_snapshots_behind(undo.end_offset)
            undo.take_back(self)
        if self.recovery_point > undo.end_offset:
            # A segment that was begun on the way has been flushed, with what is gone now.
            self._metadata.note_flushed(undo.end_offset)

    def _rewind(self, now_ms: int) -> None:
        self._rewinds += 1
        with self._availability.or_offline("taking the state from the files again"):
            for segment in self.segments:
                segment.close()
            self._availability.is_online = False
            files = open_files(self._file_system, self._directory, self.config, now_ms=now_ms, surroundings=UNTORN)
        self._take(files)
        self.producers.limit.most = self.config.max_producer_ids
        self.producers.unstable.replicated_up_to(self.high_watermark)
        self._availability.is_online = True

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Close the active segment and start the next one at `base_offset`.

        The order matters: once the new segment's file exists, the indexes of the old one, the snapshot between them and
        the leader epochs up to here are complete, so that recovery only has to look at the last segment.
        """
        if self.config.flush is Flush.COMMIT:
            self.flush()
        self.active_segment.write_indexes()
        self._metadata.write_epochs(self.epochs)
        self._metadata.write_snapshot(base_offset, self.producers)
        self._metadata.remove_bookmark()
        self._new_names += 1
        segment = Segment(
            self._file_system,
            self._directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=now_ms,
        )
        self.segments.append(segment)
        return segment

    # Moving the offsets

    def advance_high_watermark(self, offset: int) -> None:
        """Note that everything below `offset` is replicated; the high watermark never falls by this."""
        if offset > self.high_watermark:
            reached = self.high_watermark = min(offset, self.log_end_offset)
            self.producers.unstable.replicated_up_to(reached)

    def delete_records(self, before_offset: int) -> int:
        """Delete everything below an offset; return the new start, which is on disk when this returns."""
        self._availability.require()
        if not 0 <= before_offset <= self.high_watermark:
            raise OffsetOutOfRange(before_offset, self.log_start_offset, self.high_watermark)
        if before_offset > self.log_start_offset:
            self._move_start(before_offset)
        return self.log_start_offset

    def truncate(self, to_offset: int, *, now_ms: int) -> None:
        """Truncate a follower's log to an offset. LogDamaged where what should stay is gone too."""
        self._availability.require()
        to_offset = max(to_offset, self.log_start_offset)
        if to_offset >= self.log_end_offset:
            return
        with self._availability.or_offline("truncating"):
            truncate_files(self, self._metadata, self._file_system, self._directory, to_offset)
            self._rewind(now_ms)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def restart_at(self, offset: int, *, now_ms: int, producers: bytes = b"") -> None:
        """Drop everything and go on, empty, at an offset: for a follower that shares nothing with its leader's log.

        `producers` is the leader's `producers_before` of that offset, so that a duplicate of a deleted batch is
        recognised here too. A crash leaves the beginning of the old log, or an empty one; it ends at the offset, or at
        the old end where that comes first, so that no offset is assigned twice.
        """
        self._availability.require()
        self.truncate(max(offset, self.log_start_offset), now_ms=now_ms)
        with self._availability.or_offline("beginning anew"):
            begin_anew(self, self._metadata, self._file_system, self._directory, offset=offset, producers=producers)
            self._rewind(now_ms)

    # Housekeeping

    def apply_retention(self, now_ms: int, *, by_age: bool = True, most_segments: int = _ALL) -> int:
        """Remove whole segments that are too old or too many, and expire idle producers; return the bytes freed.

        Of more than `most_segments` the oldest go; the caller comes again for the others. Not `by_age`, where the clock
        is in doubt, none is too old.
        """
        self._availability.require()
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = min(retention.count_expired(self, now_ms, by_age=by_age), most_segments)
        if count == len(self.segments) and not self._try_to_roll(now_ms):
            # The others make room for another segment; this one goes next time.
            count -= 1
        if count == 0:
            return 0
        size_bytes = self.size_bytes
        self._move_start(max(self.segments[count].base_offset, self.log_start_offset))
        return size_bytes - self.size_bytes

    def _try_to_roll(self, now_ms: int) -> bool:
        """Begin another segment at the end of the log, if the disk has room for it."""
        undo = AppendUndo.of(self)
        undo.begin_roll(self.log_end_offset)
        try:
            self.roll(self.log_end_offset, now_ms)
        except OSError as error:
            self._take_back(undo)
            if not is_full(error):
                raise LogWriteFailed(f"{self._directory}: no segment was begun: {error}") from error
            return False
        return True

    def compaction(self, now_ms: int, *, max_keys: int = DEFAULT_MAX_KEYS) -> Compaction | None:
        """Start a compaction, to be done step by step, if the log is compacted and enough of it is dirty."""
        self._availability.require()
        cleanable = plan_compaction(self, now_ms)
        if cleanable is None:
            return None
        with self._availability.writing("the compaction was not begun"):
            self.expect_gaps()
        return Compaction(
            self, self._file_system, self._directory, cleanable, now_ms=now_ms, newest=OffsetMap(max_keys)
        )

    def replace_segments(self, replaced: Sequence[Segment], *, now_ms: int) -> Segment:
        """Swap in the compacted form of neighbouring segments, and return it; on failure either stands, whole."""
        self._availability.require()
        first = self.segments.index(replaced[0])
        following = first + len(replaced)
        try:
            compacted = swap_in(
                self._file_system,
                self._directory,
                replaced,
                end_offset=self.segments[following].base_offset,
                index_interval_bytes=self.config.index_interval_bytes,
            )
        except OSError as error:
            self._rewind(now_ms)
            raise CompactionFailed(f"{self._directory}: a compacted segment was not swapped in: {error}") from error
        self.segments[first:following] = [compacted]
        for segment in replaced:
            segment.discard()
        return compacted

    def finish_compaction(self, up_to_offset: int) -> None:
        """Remember that a compaction has covered everything below an offset."""
        self.cleaned_up_to = up_to_offset
        self._metadata.write_checkpoint(self)

    def close(self) -> None:
        """Flush, complete the indexes and write a snapshot, so that the next opening has nothing to recover."""
        if not self._availability.is_online:
            return
        self.flush()
        with self._availability.or_offline("closing"):
            self.active_segment.write_indexes()
            self._metadata.write_snapshot(self.log_end_offset, self.producers)
            self._metadata.remove_snapshots_but(self.segments, self.log_end_offset)
            self._metadata.write_bookmark(self)
            self._metadata.write_checkpoint(self, closed_cleanly=True)
        self._availability.end()

    def _move_start(self, offset: int) -> None:
        with self._availability.or_offline("deleting"):
            move_start(self, self._metadata, self._file_system, self._directory, offset)

    def _close_files(self) -> None:
        for segment in self.segments:
            with suppress(OSError):
                segment.close()
