"""Opening a partition's directory: clean up, decide how much has to be verified, and what to do where that ends too
early.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import msgspec

from eagleray.broker.filesystem import FileSystem, FlushFailed
from eagleray.broker.log.batch_locations import is_gap
from eagleray.broker.log.bookmark import Bookmark, remove_bookmark
from eagleray.broker.log.checkpoint import (
    Checkpoint,
    ReadCheckpoint,
    note_failed_flush,
)
from eagleray.broker.log.config import Flush, LogConfig
from eagleray.broker.log.epoch_file import read_epochs, write_epochs
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.known_checkpoint import read_known_checkpoint
from eagleray.broker.log.leader_epochs import EpochStart, LeaderEpochs
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.recovery import (
    Expected,
    Recovery,
    load_producers,
    remove_snapshots,
    replay_producers,
    scan_segment,
    snapshot_offsets,
)
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.settling import ALONE, Settling, Stop, Surroundings
from eagleray.broker.log.swapping import complete_swaps
from eagleray.broker.log.sweeping import deleted_below, log_offsets, sweep, sweep_indexes, write_again


class OpenedFiles(msgspec.Struct, kw_only=True):
    """Everything that a log is made of, as its files give it."""

    checkpoint: Checkpoint
    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    recovery: Recovery


class _CutFirst(Exception):
    """A person has accepted a loss, the files are cut, and the opening has to begin anew."""


def open_files(
    file_system: FileSystem, directory: str, config: LogConfig, *, now_ms: int, surroundings: Surroundings = ALONE
) -> OpenedFiles:
    """Bring a directory to the state of a log, verifying and cutting what a crash may have left half done.

    The names of the files found are on stable storage when this returns, so that a later crash cannot undo it. Where
    something is not as the log wrote it, and is no torn end, LogDamaged is raised, and no batch has been touched.
    """
    file_system.make_directories(directory)
    sweep(file_system, directory)
    complete_swaps(file_system, directory)
    sweep_indexes(file_system, directory)
    read = read_known_checkpoint(file_system, directory, surroundings)
    checkpoint = read.checkpoint
    if checkpoint.failed_flush_boot_id and checkpoint.failed_flush_boot_id == file_system.boot_id():
        write_again(file_system, directory, checkpoint.recovery_point)
    opening = _Opening(file_system, directory, config, read, surroundings, now_ms=now_ms)
    try:
        opening.recover()
        opening.begin_anew_below_start()
        opening.keep()
    except _CutFirst:
        opening.close()
        again = open_files(file_system, directory, config, now_ms=now_ms, surroundings=surroundings)
        again.recovery = opening.report_of_cut(again.recovery)
        return again
    except (OSError, LogDamaged) as error:
        opening.close()
        if isinstance(error, FlushFailed):
            note_failed_flush(file_system, directory)
        raise
    return OpenedFiles(
        checkpoint=opening.checkpoint,
        segments=opening.segments,
        producers=opening.producers,
        epochs=opening.epochs,
        recovery=opening.report,
    )


class _Opening:
    """One opening under way."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        config: LogConfig,
        read: ReadCheckpoint,
        surroundings: Surroundings,
        *,
        now_ms: int,
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._index_interval_bytes = config.index_interval_bytes
        self._latest_epoch = surroundings.latest_epoch
        self._settling = Settling(
            file_system,
            directory,
            read.checkpoint,
            surroundings=surroundings,
            flushes_first=config.flush is Flush.COMMIT,
        )
        self.checkpoint = read.checkpoint
        self._is_certain = read.is_newest
        self._boot_id = file_system.boot_id()
        self._now_ms = now_ms
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self.report = Recovery()

    def recover(self) -> None:
        base_offsets = log_offsets(self._file_system, self._directory) or [self.checkpoint.log_start_offset]
        for base_offset in base_offsets:
            self.segments.append(self._open(base_offset))
        self._finish_deletion()
        first = self._first_doubtful()
        stop = self._missing_beginning() or self._trust_before(first)
        if stop is not None:
            self._settle(stop, is_trusted=True)
            raise _CutFirst
        if first == len(self.segments):
            self.report.log_end_offset = self.checkpoint.recovery_point
            self._load_producers(self.report.log_end_offset)
            if not self._settling.is_same_boot:
                # It was not flushed: damaged, it would pass for damage by the disk in this boot.
                remove_bookmark(self._file_system, self._directory)
        elif not self._resume():
            self._load_producers(self.segments[first].base_offset)
            stop = self._scan_from(first)
            if stop is not None:
                self._settle(stop, is_trusted=False)
            elif self._settling.may_have_lost_end:
                self.report.uncertain_from = self.report.log_end_offset
            remove_bookmark(self._file_system, self._directory)
            self._write_scanned_indexes(first)
            # The last process may have died while it truncated the file, which removes the bookmark first. What was
            # seen to be cut must not come back with the next loss of power.
            self.segments[-1].flush()
        self._forget_behind_end()

    def begin_anew_below_start(self) -> None:
        """After a loss of power the log may end below its start offset; it then goes on there, empty."""
        start_offset = self.checkpoint.log_start_offset
        if self.report.log_end_offset < start_offset:
            remove_bookmark(self._file_system, self._directory)
            remove_snapshots(self._file_system, self._directory, kept=())
            while self.segments:
                self.segments.pop().remove()
            self.segments.append(self._open(start_offset))
            self.producers = ProducerState()
            self.report.log_end_offset = start_offset
        # A disk that was full may have had no room to write down where the log starts.
        self.epochs.truncate_before(max(start_offset, self.segments[0].base_offset))

    def keep(self) -> None:
        """Persist what was found, before anything is done that relies on it."""
        write_epochs(self._file_system, self._directory, self.epochs)
        if not self.checkpoint.closed_cleanly:
            self._file_system.flush_directory(self._directory)

    def close(self) -> None:
        for segment in self.segments:
            with suppress(OSError):
                segment.close()

    def _open(self, base_offset: int) -> Segment:
        return Segment(
            self._file_system,
            self._directory,
            base_offset,
            index_interval_bytes=self._index_interval_bytes,
            created_ms=self._now_ms,
        )

    def _finish_deletion(self) -> None:
        """Remove what lies below the start of the log: it may be damaged by now, and nothing depends on it."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.checkpoint.log_start_offset:
            self.segments.pop(0).remove()

    def _first_doubtful(self) -> int:
        if not self._is_certain:
            return 0
        checkpoint = self.checkpoint
        if checkpoint.closed_cleanly and self._ends_at(checkpoint.recovery_point):
            return len(self.segments)
        if checkpoint.closed_cleanly or self._settling.is_same_boot:
            # The process died but the machine did not: only the last write can be torn.
            return len(self.segments) - 1
        later = [
            number for number, segment in enumerate(self.segments) if segment.base_offset > checkpoint.recovery_point
        ]
        return max(min(later, default=len(self.segments)) - 1, 0)

    def _ends_at(self, offset: int) -> bool:
        segment = self.segments[-1]
        try:
            return segment.load_indexes() and segment.end_offset() == offset
        except LogDamaged:
            return False

    def _trust_before(self, first: int) -> Stop | None:
        for number in range(first):
            if not self.segments[number].load_indexes():
                stop = self._index_anew(number)
                if stop is not None:
                    return stop
        stop = self._missing_end(first + 1)
        if stop is not None:
            return stop
        if not self._read_epochs():
            self.epochs = LeaderEpochs([EpochStart(*each) for each in self.checkpoint.epochs])
            next_offset = self.segments[0].base_offset
            for segment in self.segments[:first]:
                for _, header in segment.headers():
                    self.epochs.assign(header.partition_leader_epoch, next_offset)
                    next_offset = header.next_offset
            self.epochs.is_dirty = True
        return None

    def _missing_beginning(self) -> Stop | None:
        """Detect that the first segments are gone, which were not deleted: the checkpoint says so, or a file in their
        place.

        Only a log that was beginning anew, and knows of nothing behind its start, may have begun further on.
        """
        start_offset, base_offset = self.checkpoint.log_start_offset, self.segments[0].base_offset
        if not self._is_certain or base_offset <= start_offset:
            return None
        start_offset = max(start_offset, deleted_below(self._file_system, self._directory))
        if base_offset <= start_offset or self._settling.known_end() <= start_offset:
            return None
        why = f"the log begins at {start_offset}, and nothing of it is left before {base_offset}"
        return Stop(0, 0, start_offset, why)

    def _missing_end(self, count: int) -> Stop | None:
        """Detect what a disk has lost of what it had: the checksums of the rest are right, but the end of a segment is
        missing, or all of it.
        """
        for number, (segment, following) in enumerate(pairwise(self.segments[:count])):
            end_offset = segment.end_offset()
            why = f"it ends at {end_offset} and the next one begins at {following.base_offset}"
            if end_offset > following.base_offset:
                # None of it is in its place.
                return Stop(number, 0, segment.base_offset, why)
            if is_gap(end_offset, following.base_offset):
                return Stop(number, segment.size_bytes, end_offset, why)
        return None

    def _index_anew(self, number: int) -> Stop | None:
        segment = self.segments[number]
        self._load_producers(segment.base_offset)
        expected = self._expected(segment.base_offset)
        valid_bytes = scan_segment(segment, self.producers, LeaderEpochs(), expected, self.report, now_ms=self._now_ms)
        if valid_bytes != segment.size_bytes:
            # Nothing was being written here. Cutting would take what was safely stored, and all that follows it.
            return Stop(number, valid_bytes, expected.next_offset, f"the batch at byte {valid_bytes} is damaged")
        segment.remove_index_files()
        segment.write_indexes()
        return None

    def _expected(self, next_offset: int, epoch: int = -1) -> Expected:
        return Expected(next_offset, self.checkpoint.may_have_gaps, epoch, self._latest_epoch)

    def _read_epochs(self) -> bool:
        epochs = read_epochs(self._file_system, self._directory)
        if epochs is None:
            return False
        self.epochs = epochs
        return True

    def _load_producers(self, offset: int) -> None:
        self.producers, snapshot_offset = load_producers(self._file_system, self._directory, offset, self._now_ms)
        if snapshot_offset < offset:
            self.report.replayed_bytes += replay_producers(
                self.segments, self.producers, snapshot_offset, offset, self._now_ms
            )

    def _resume(self) -> bool:
        segment, bookmark = self.segments[-1], self._believable_bookmark()
        if bookmark is None or not bookmark.fits(segment) or self.epochs.latest_epoch < bookmark.latest_epoch:
            return False
        if not segment.resume(bookmark.indexes, bookmark.position):
            return False
        producers, epochs = bookmark.producer_state(self._now_ms), self.epochs.copy()
        report = msgspec.structs.replace(self.report, known_bytes=bookmark.position)
        expected = self._expected(bookmark.offset, bookmark.latest_epoch)
        valid_bytes = scan_segment(
            segment, producers, epochs, expected, report, now_ms=self._now_ms, known_bytes=bookmark.position
        )
        if valid_bytes != segment.size_bytes or expected.next_offset < self._settling.known_end():
            # Something has to be truncated, or is gone, and a bookmark alone does not justify that.
            return False
        self.producers, self.epochs, self.report = producers, epochs, report
        high_watermark = max(self.checkpoint.high_watermark, bookmark.high_watermark)
        self.checkpoint = msgspec.structs.replace(self.checkpoint, high_watermark=high_watermark)
        return True

    def _believable_bookmark(self) -> Bookmark | None:
        """Return the bookmark if this boot has all that it covers: it was written in it, and no flush failed since."""
        checkpoint = self.checkpoint
        if (
            checkpoint.closed_cleanly
            or not self._settling.is_same_boot
            or checkpoint.failed_flush_boot_id == self._boot_id
        ):
            return None
        return self._settling.bookmark()

    def _scan_from(self, first: int) -> Stop | None:
        """Scan to the end, or to where something is wrong; no file has changed when this returns."""
        expected = self._expected(self.segments[first].base_offset)
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if is_gap(expected.next_offset, segment.base_offset):
                end_offset, before = expected.next_offset, self.segments[number - 1]
                why = f"it ends at {end_offset} and the next one begins at {segment.base_offset}"
                return Stop(number - 1, before.size_bytes, end_offset, why)
            expected.next_offset = max(expected.next_offset, segment.base_offset)
            valid_bytes = scan_segment(segment, self.producers, self.epochs, expected, self.report, now_ms=self._now_ms)
            if valid_bytes < segment.size_bytes:
                why = f"the batch at byte {valid_bytes} is not valid"
                return Stop(number, valid_bytes, expected.next_offset, why)
        end_offset, known_end = expected.next_offset, self._settling.known_end()
        if end_offset >= known_end or known_end <= self.checkpoint.log_start_offset:
            return None
        why = f"it ends at {end_offset}, and the log went on to {known_end}"
        return Stop(len(self.segments) - 1, self.segments[-1].size_bytes, end_offset, why)

    def _settle(self, stop: Stop, *, is_trusted: bool) -> None:
        self._settling.settle(stop, self.segments, self.report, is_trusted=is_trusted)
        self.checkpoint = self._settling.checkpoint

    def report_of_cut(self, again: Recovery) -> Recovery:
        """Add what was cut here to what the opening after it found."""
        mine = self.report
        return msgspec.structs.replace(
            again,
            verdict=mine.verdict,
            is_loss_accepted=mine.is_loss_accepted,
            kept_files=mine.kept_files,
            cut_bytes=mine.cut_bytes,
            cut_segments=mine.cut_segments,
            known_end_offset=mine.known_end_offset,
        )

    def _write_scanned_indexes(self, first: int) -> None:
        """Replace the index files of what was scanned; those of the last segment are written when it is closed."""
        for segment in self.segments[first:]:
            segment.remove_index_files()
        for segment in self.segments[first:-1]:
            segment.write_indexes()

    def _forget_behind_end(self) -> None:
        """Remove snapshots and epochs behind the end: they speak of batches that were lost."""
        end_offset = self.report.log_end_offset
        self.epochs.truncate_from(end_offset)
        offsets = snapshot_offsets(self._file_system, self._directory)
        remove_snapshots(
            self._file_system, self._directory, kept=[offset for offset in offsets if offset <= end_offset]
        )
