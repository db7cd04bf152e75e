"""A partition's log: what is appended, what a reader may see, and what a crash leaves of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from eagleray.broker.filesystem import FileSystem, FlushFailed
from eagleray.broker.log import retention
from eagleray.broker.log.appending import Appended, AppendRun, NewMarker
from eagleray.broker.log.availability import Availability
from eagleray.broker.log.compaction import Compaction
from eagleray.broker.log.compaction_plan import plan_compaction
from eagleray.broker.log.config import Flush, LogConfig
from eagleray.broker.log.errors import CompactionFailed, LogDamaged, LogOffline, LogWriteFailed, OffsetOutOfRange
from eagleray.broker.log.metadata import LogMetadata
from eagleray.broker.log.offset_map import DEFAULT_MAX_KEYS, OffsetMap
from eagleray.broker.log.opening import OpenedFiles, open_files
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.producer_state import Origin, Rejection
from eagleray.broker.log.readable_log import BASE_OFFSET, ReadableLog
from eagleray.broker.log.recovery import Recovery
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.swapping import swap_in
from eagleray.broker.log.sweeping import remove_behind
from eagleray.broker.log.tail import Tail
from eagleray.protocol.errors import ErrorCode, ProtocolError
from eagleray.protocol.records import RecordBatch

_NEVER: Final = 2**63


class PartitionLog(ReadableLog):
    """The batches of one partition, with the producers and transactions that wrote them.

    Owns: one directory, alone. Persists: every batch before `append` returns (against the death of the process; against
    the loss of power once `flush` has returned). On failure: an append that raises LogWriteFailed left nothing
    behind and may be tried again; LogOffline means that the disk can no longer be trusted to hold what this object
    believes, and the log has to be opened anew. After a restart: exactly the whole valid batches are there, and
    producers, transactions and indexes are what these batches give; of the batches before the last snapshot only the
    last one of each producer is remembered, as in Kafka.

    It knows no clock and no thread: the time comes with each call, and one call runs to its end before the next.
    """

    def __init__(self, file_system: FileSystem, directory: str, config: LogConfig, files: OpenedFiles) -> None:
        self._file_system = file_system
        self._directory = directory
        self._metadata = LogMetadata(file_system, directory, files.checkpoint)
        self._availability = Availability(file_system, directory, self._close_files)
        self._has_new_names = False
        self.noticed_at_batches = _NEVER
        """As soon as so many batches are not covered by a bookmark, `on_grown` is called after an append."""
        self.on_grown: Callable[[], None] = _ignore
        self.tail = Tail()
        self.log_start_offset = self.high_watermark = 0
        self.cleaned_up_to = files.checkpoint.cleaned_up_to
        self._take(files)
        self.high_watermark = min(max(files.checkpoint.high_watermark, self.log_start_offset), self.log_end_offset)
        self.producers.unstable.replicated_up_to(self.high_watermark)
        self.reconfigure(config)

    @classmethod
    def open(cls, file_system: FileSystem, directory: str, config: LogConfig, *, now_ms: int) -> PartitionLog:
        """Open the log in `directory`, creating it where there is none and recovering it where it was not closed."""
        try:
            files = open_files(file_system, directory, config, now_ms=now_ms)
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

    @property
    def recovery_point(self) -> int:
        """Everything below is on stable storage."""
        return self._metadata.checkpoint.recovery_point

    def reconfigure(self, config: LogConfig) -> None:
        """Take settings; a log that is to flush no longer says so on its disk before. On failure: LogOffline."""
        self.config = config
        if self._metadata.checkpoint.flushes_first and config.flush is not Flush.COMMIT:
            with self._availability.or_offline("taking other settings"):
                self._write_checkpoint()

    # Appending

    def append(
        self,
        batches: Sequence[RecordBatch],
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
    ) -> list[Appended | Rejection]:
        """Append batches, of one producer or of many, with one write; answer each in its place.

        The batches were split and checked, CRCs included, by whoever took them from the wire.
        """
        if leader_epoch < self.epochs.latest_epoch:
            return [self._fenced(leader_epoch)] * len(batches)
        return self._run(lambda run: run.add_all(batches, origin), leader_epoch, now_ms)

    def append_records(
        self, records: Sequence[tuple[bytes, bytes | None]], *, leader_epoch: int, now_ms: int
    ) -> Appended | Rejection:
        """Append the broker's own records, keys and values, as one batch of no producer with one write."""
        if leader_epoch < self.epochs.latest_epoch:
            return self._fenced(leader_epoch)
        (result,) = self._run(lambda run: [run.add_records(records)], leader_epoch, now_ms)
        return result

    def append_markers(
        self, markers: Sequence[NewMarker], *, leader_epoch: int, now_ms: int
    ) -> list[Appended | Rejection]:
        """Append commit and abort markers with one write; answer each in its place."""
        if leader_epoch < self.epochs.latest_epoch:
            return [self._fenced(leader_epoch)] * len(markers)
        return self._run(lambda run: [run.add_marker(marker) for marker in markers], leader_epoch, now_ms)

    def append_replicated(self, batches: Sequence[RecordBatch], *, now_ms: int) -> list[Appended | Rejection]:
        """Append batches that a leader has placed, offsets and epochs unchanged."""
        latest_epoch = self.epochs.latest_epoch
        return self._run(lambda run: [run.add_replicated(batch) for batch in batches], latest_epoch, now_ms)

    def _fenced(self, leader_epoch: int) -> Rejection:
        return Rejection(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{self._directory}: an append with leader epoch {leader_epoch} came after one with "
            f"{self.epochs.latest_epoch}: a newer leader has taken over, find it and send there",
        )

    def _run(
        self, add_all: Callable[[AppendRun], list[Appended | Rejection]], leader_epoch: int, now_ms: int
    ) -> list[Appended | Rejection]:
        self._availability.require()
        segment = self.active_segment
        size_bytes, end_offset = segment.size_bytes, self.log_end_offset
        try:
            if not self._metadata.is_marked_open:
                self._write_checkpoint()
            run = AppendRun(self, leader_epoch, now_ms)
            results = add_all(run)
            run.write()
            if self.epochs.is_dirty:
                self._metadata.write_epochs(self.epochs)
        except OSError as error:
            self._take_back(segment, size_bytes, end_offset, now_ms)
            raise LogWriteFailed(f"{self._directory}: nothing was appended: {error}") from error
        except ProtocolError:
            # A replicated marker that cannot be read. What was staged up to it must not outlive the append.
            self._take_back(segment, size_bytes, end_offset, now_ms)
            raise
        if self.active_segment.unmarked_batches >= self.noticed_at_batches:
            self.on_grown()
        return results

    def _take_back(self, segment: Segment, size_bytes: int, end_offset: int, now_ms: int) -> None:
        """Undo an append that did not complete, of which whole batches, or even whole segments, may be written."""
        self.log_end_offset = end_offset
        with self._availability.or_offline("undoing a failed append"):
            self._metadata.remove_bookmark()
            remove_behind(self._file_system, self._directory, segment.base_offset)
            segment.truncate(size_bytes)
            self._rewind(now_ms)

    def _rewind(self, now_ms: int) -> None:
        """Take the state from the files again."""
        with self._availability.or_offline("taking the state from the files again"):
            for segment in self.segments:
                segment.close()
            self._availability.is_online = False
            files = open_files(self._file_system, self._directory, self.config, now_ms=now_ms)
        self._take(files)
        self.producers.unstable.replicated_up_to(self.high_watermark)
        self._availability.is_online = True

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Close the active segment and begin the next one at `base_offset`.

        The order matters: once the new segment's file exists, the indexes of the old one, the snapshot between them and
        the leader epochs up to here are complete, so that recovery only has to look at the last segment.
        """
        if self.config.flush is Flush.COMMIT:
            self.flush()
        self.active_segment.write_indexes()
        self._metadata.write_epochs(self.epochs)
        self._metadata.write_snapshot(base_offset, self.producers)
        self._metadata.remove_bookmark()
        self._has_new_names = True
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
        """Drop everything at or behind an offset, a follower's tail. LogDamaged where what should stay is gone too."""
        self._availability.require()
        to_offset = max(to_offset, self.log_start_offset)
        if to_offset >= self.log_end_offset:
            return
        with self._availability.or_offline("truncating"):
            self._truncate(to_offset)
            self._rewind(now_ms)
        if self.recovery.cut_bytes:
            # The last segment was a closed one, and its disk has damaged it. Whoever opens the log again sees that by
            # where it should end.
            self.log_end_offset = to_offset
            self._availability.end()
            raise LogDamaged(f"{self._directory}: what was to stay before offset {to_offset} is damaged")
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def _truncate(self, to_offset: int) -> None:
        """Take segments and batches away from the end on, so that a crash in between leaves a log without gaps."""
        self.log_end_offset = to_offset
        self.high_watermark = min(self.high_watermark, to_offset)
        self.cleaned_up_to = min(self.cleaned_up_to, to_offset)
        last = self.segments[max(bisect_left(self.segments, to_offset, key=BASE_OFFSET) - 1, 0)]
        self._metadata.remove_bookmark()
        self._write_checkpoint(recovery_point=min(self.recovery_point, last.base_offset))
        while self.active_segment is not last:
            self.segments.pop().remove()
            self._file_system.flush_directory(self._directory)
        location = last.locate(to_offset)
        if location is not None:
            last.truncate(location.position)

    def restart_at(self, offset: int, *, now_ms: int, producers: bytes = b"") -> None:
        """Drop everything and go on, empty, at an offset: for a follower that shares nothing with its leader's log.

        `producers` is what the leader's `producers_before` says of that offset, so that a repeat of what was deleted
        since is known for one here too. A crash leaves a beginning of the old log, or an empty one; it ends at the
        offset, or at the old end where that comes first, so that no offset is given away twice.
        """
        self._availability.require()
        self.truncate(max(offset, self.log_start_offset), now_ms=now_ms)
        with self._availability.or_offline("beginning anew"):
            self._metadata.remove_bookmark()
            # It is the first to be written, so that a log that begins at the offset always has it.
            self._metadata.write_snapshot(offset, decode_snapshot(producers) or ())
            self.high_watermark = self.log_start_offset = offset
            self.cleaned_up_to = min(self.cleaned_up_to, offset)
            # The segment that goes may begin below what is new and above it; neither may be trusted by mistake.
            oldest = min(self.recovery_point, self.segments[0].base_offset, offset)
            self._write_checkpoint(recovery_point=oldest)
            # No record counts any more that these could speak of, so a crash from here on loses nothing by it.
            self.epochs.clear()
            self._metadata.write_epochs(self.epochs)
            self._metadata.remove_snapshots_but((offset,))
            while self.segments:
                self.segments.pop().remove()
            self._file_system.flush_directory(self._directory)
            self._rewind(now_ms)

    # Housekeeping

    def apply_retention(self, now_ms: int) -> int:
        """Remove whole segments that are too old or too many, and forget idle producers; return bytes freed."""
        self._availability.require()
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = retention.count_expired(self, now_ms)
        if count == len(self.segments):
            with self._availability.or_offline("beginning a new segment"):
                self.roll(self.log_end_offset, now_ms)
        if count == 0:
            return 0
        size_bytes = self.size_bytes
        self._move_start(max(self.segments[count].base_offset, self.log_start_offset))
        return size_bytes - self.size_bytes

    def compaction(self, now_ms: int, *, max_keys: int = DEFAULT_MAX_KEYS) -> Compaction | None:
        """Begin a compaction, to be done step by step, if the log is to be compacted and enough of it is dirty."""
        self._availability.require()
        cleanable = plan_compaction(self, now_ms)
        if cleanable is None:
            return None
        newest = OffsetMap(max_keys)
        return Compaction(self, self._file_system, self._directory, cleanable, now_ms=now_ms, newest=newest)

    def replace_segments(self, replaced: Sequence[Segment], *, now_ms: int) -> Segment:
        """Swap in what a compaction made of neighbouring segments, and return it; on failure either stands, whole."""
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
            segment.close()
        return compacted

    def finish_compaction(self, up_to_offset: int) -> None:
        """Remember that a compaction has been over everything below an offset."""
        self.cleaned_up_to = up_to_offset
        self._write_checkpoint()

    def flush(self) -> None:
        """Return once everything appended is on stable storage.

        A flush that fails leaves it unknown what the disk holds, and a second one could succeed without having written
        anything, so the log goes offline.
        """
        self._availability.require()
        with self._availability.or_offline("flushing"):
            for segment in self.segments[self._segment_number(self.recovery_point) :]:
                segment.flush()
            if self._has_new_names:
                self._file_system.flush_directory(self._directory)
                self._has_new_names = False
        self._metadata.note_flushed(self.log_end_offset)

    def write_checkpoint(self) -> None:
        """Keep the offsets that the segments do not tell; called now and then, and after each flush that matters."""
        self._availability.require()
        try:
            self._write_checkpoint()
        except OSError as error:
            raise LogWriteFailed(f"{self._directory}: the checkpoint was not written: {error}") from error

    def write_bookmark(self) -> None:
        """Note up to where everything is known, for whoever opens the log after the death of this process.

        Called now and then: the next opening in this boot looks only at what was appended since.
        """
        self._availability.require()
        # Where it cannot be written, it is not tried again before as much has been appended as makes it worth trying.
        self.active_segment.unmarked_batches = 0
        try:
            self._metadata.write_epochs(self.epochs)
            self._metadata.write_bookmark(self)
        except OSError as error:
            raise LogWriteFailed(f"{self._directory}: the bookmark was not written: {error}") from error

    def close(self) -> None:
        """Flush, complete the indexes and take a snapshot, so that the next opening has nothing to recover."""
        if not self._availability.is_online:
            return
        self.flush()
        with self._availability.or_offline("closing"):
            self.active_segment.write_indexes()
            self._metadata.write_snapshot(self.log_end_offset, self.producers)
            self._remove_snapshots_but(self.log_end_offset)
            self._metadata.write_bookmark(self)
            self._write_checkpoint(closed_cleanly=True)
        self._availability.end()

    def _move_start(self, offset: int) -> None:
        """Raise the start of the log, on disk first, then remove the segments that lie below it."""
        with self._availability.or_offline("deleting"):
            try:
                self._write_checkpoint(log_start_offset=offset)
            except FlushFailed:
                raise
            except OSError as error:
                raise LogWriteFailed(f"{self._directory}: nothing was deleted: {error}") from error
            self.log_start_offset = offset
            while len(self.segments) > 1 and self.segments[1].base_offset <= offset:
                self.segments.pop(0).remove()
            self.epochs.truncate_before(offset)
            self._metadata.write_epochs(self.epochs)
            self._remove_snapshots_but()

    def _remove_snapshots_but(self, *offsets: int) -> None:
        """Keep the snapshots at the segments' beginnings, which recovery starts from, and those at `offsets`."""
        self._metadata.remove_snapshots_but([*map(BASE_OFFSET, self.segments), *offsets])

    def _write_checkpoint(self, *, closed_cleanly: bool = False, **changes: int) -> None:
        flushes = self.config.flush is Flush.COMMIT
        offsets = {
            "flushes_first": flushes and self._metadata.has_flushed_first(self.log_end_offset),
            "log_start_offset": self.log_start_offset,
            "high_watermark": self.high_watermark,
            "cleaned_up_to": self.cleaned_up_to,
        }
        self._metadata.write_checkpoint(closed_cleanly=closed_cleanly, **(offsets | changes))

    def _close_files(self) -> None:
        for segment in self.segments:
            with suppress(OSError):
                segment.close()


def _ignore() -> None:
    """Do nothing: no listener was given."""
