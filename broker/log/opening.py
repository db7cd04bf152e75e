"""Opening a partition's directory: sweep up, then decide how much has to be verified."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import msgspec

from eagleray.broker.filesystem import FileSystem, FlushFailed
from eagleray.broker.log.bookmark import Bookmark, read_bookmark, remove_bookmark
from eagleray.broker.log.checkpoint import Checkpoint, note_failed_flush, read_checkpoint
from eagleray.broker.log.config import LogConfig
from eagleray.broker.log.epoch_file import read_epochs, write_epochs
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.leader_epochs import LeaderEpochs
from eagleray.broker.log.producer_state import ProducerState
from eagleray.broker.log.recovery import (
    Recovery,
    load_producers,
    remove_snapshots,
    replay_producers,
    scan_segment,
    snapshot_offsets,
)
from eagleray.broker.log.segment import Segment, is_gap
from eagleray.broker.log.swapping import complete_swaps
from eagleray.broker.log.sweeping import log_offsets, sweep, sweep_indexes, write_again


class OpenedFiles(msgspec.Struct, kw_only=True):
    """Everything that a log is made of, as its files give it."""

    checkpoint: Checkpoint
    segments: list[Segment]
    producers: ProducerState
    epochs: LeaderEpochs
    recovery: Recovery


def open_files(file_system: FileSystem, directory: str, config: LogConfig, *, now_ms: int) -> OpenedFiles:
    """Bring a directory to the state of a log, verifying and cutting what a crash may have left half done.

    What is found here is on stable storage as far as names go, so that a later crash cannot change it back.
    """
    file_system.make_directories(directory)
    sweep(file_system, directory)
    complete_swaps(file_system, directory)
    sweep_indexes(file_system, directory)
    checkpoint = read_checkpoint(file_system, directory)
    if checkpoint.failed_flush_boot_id and checkpoint.failed_flush_boot_id == file_system.boot_id():
        write_again(file_system, directory, checkpoint.recovery_point)
    opening = _Opening(file_system, directory, config, checkpoint, now_ms)
    try:
        opening.recover()
        opening.begin_anew_below_start()
        opening.keep()
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
    """One recovery under way."""

    def __init__(
        self, file_system: FileSystem, directory: str, config: LogConfig, checkpoint: Checkpoint, now_ms: int
    ) -> None:
        self._file_system = file_system
        self._directory = directory
        self._index_interval_bytes = config.index_interval_bytes
        self.checkpoint = checkpoint
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
        self._trust_before(first)
        if first == len(self.segments):
            self.report.log_end_offset = self.checkpoint.recovery_point
            self._load_producers(self.report.log_end_offset)
        elif not self._resume():
            remove_bookmark(self._file_system, self._directory)
            self._load_producers(self.segments[first].base_offset)
            self._scan_from(first)
            # The last process may have died while it cut the file, which takes the bookmark first. What is seen to be
            # cut must not come back with the next loss of power.
            self.segments[-1].flush()
        self._forget_behind_end()

    def begin_anew_below_start(self) -> None:
        """A loss of power can leave less than was deleted on request; the log then goes on at its start, empty."""
        start_offset = self.checkpoint.log_start_offset
        if self.report.log_end_offset < start_offset:
            remove_bookmark(self._file_system, self._directory)
            remove_snapshots(self._file_system, self._directory, kept=())
            while self.segments:
                self.segments.pop().remove()
            self.segments.append(self._open(start_offset))
            self.producers = ProducerState()
            self.report.log_end_offset = start_offset
        self.epochs.truncate_before(start_offset)

    def keep(self) -> None:
        """Write down what was found out, before anything is done that relies on it."""
        write_epochs(self._file_system, self._directory, self.epochs)
        if not self.checkpoint.closed_cleanly:
            self._file_system.flush_directory(self._directory)

    def close(self) -> None:
        for segment in self.segments:
            with suppress(OSError):
                segment.close()

    @property
    def _is_same_boot(self) -> bool:
        """Whether the machine has not been down since the log was last open, so that its page cache has every byte."""
        return bool(self._boot_id) and self.checkpoint.boot_id == self._boot_id

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
        """Return the number of the first segment that a crash may have left torn."""
        checkpoint = self.checkpoint
        if checkpoint.closed_cleanly and self._ends_at(checkpoint.recovery_point):
            return len(self.segments)
        if checkpoint.closed_cleanly or self._is_same_boot:
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

    def _trust_before(self, first: int) -> None:
        """Take the segments that no crash can have torn as they are, but for indexes that the disk has lost."""
        for number in range(first):
            if not self.segments[number].load_indexes():
                self._index_anew(number)
        if not self._is_same_boot:
            self._require_ends(self.segments[: first + 1])
        if not self._read_epochs():
            next_offset = self.segments[0].base_offset
            for segment in self.segments[:first]:
                for _, header in segment.headers():
                    self.epochs.assign(header.partition_leader_epoch, next_offset)
                    next_offset = header.next_offset
            self.epochs.is_dirty = True

    def _require_ends(self, segments: list[Segment]) -> None:
        """Miss what a disk said that it had flushed, and had not: what is left has right checksums, up to nothing."""
        for segment, following in pairwise(segments):
            end_offset = segment.end_offset()
            if is_gap(end_offset, following.base_offset):
                raise LogDamaged(
                    f"{self._directory}: segment {segment.base_offset} ends at {end_offset} and the next one begins at "
                    f"{following.base_offset}: restore the partition from a replica"
                )

    def _index_anew(self, number: int) -> None:
        segment = self.segments[number]
        self._load_producers(segment.base_offset)
        valid_bytes = scan_segment(segment, self.producers, LeaderEpochs(), segment.base_offset, self.report)
        if valid_bytes != segment.size_bytes:
            # Nothing was being written here. Cutting would take what was safely stored, and all that follows it.
            raise LogDamaged(
                f"{self._directory}: the batch at byte {valid_bytes} of segment {segment.base_offset} is damaged: "
                f"restore the partition from a replica"
            )
        segment.write_indexes()

    def _read_epochs(self) -> bool:
        """Take the leader epochs from their file; False where there is none that can be read."""
        epochs = read_epochs(self._file_system, self._directory)
        if epochs is None:
            return False
        self.epochs = epochs
        return True

    def _load_producers(self, offset: int) -> None:
        self.producers, snapshot_offset = load_producers(self._file_system, self._directory, offset)
        if snapshot_offset < offset:
            self.report.replayed_bytes += replay_producers(self.segments, self.producers, snapshot_offset, offset)

    def _resume(self) -> bool:
        """Go on from the bookmark, if there is one to go by; False: nothing has changed, and all has to be scanned."""
        segment, bookmark = self.segments[-1], self._believable_bookmark()
        if bookmark is None or not bookmark.fits(segment) or self.epochs.latest_epoch < bookmark.latest_epoch:
            return False
        if not segment.resume(bookmark.indexes, bookmark.position):
            return False
        producers, epochs = bookmark.producer_state(), self.epochs.copy()
        report = msgspec.structs.replace(self.report, known_bytes=bookmark.position)
        valid_bytes = scan_segment(segment, producers, epochs, bookmark.offset, report, known_bytes=bookmark.position)
        if valid_bytes != segment.size_bytes:
            # Something is to be cut off, and a bookmark alone is not enough to cut by.
            return False
        self.producers, self.epochs, self.report = producers, epochs, report
        high_watermark = max(self.checkpoint.high_watermark, bookmark.high_watermark)
        self.checkpoint = msgspec.structs.replace(self.checkpoint, high_watermark=high_watermark)
        return True

    def _believable_bookmark(self) -> Bookmark | None:
        """Return the bookmark if this boot has all that it speaks of: written in it, and by no failed flush lost."""
        checkpoint = self.checkpoint
        if checkpoint.closed_cleanly or not self._is_same_boot or checkpoint.failed_flush_boot_id == self._boot_id:
            return None
        bookmark = read_bookmark(self._file_system, self._directory)
        return bookmark if bookmark is not None and bookmark.boot_id == self._boot_id else None

    def _scan_from(self, first: int) -> None:
        """Verify the rest of the log, up to the first batch that is torn or missing."""
        next_offset = self.segments[first].base_offset
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if is_gap(next_offset, segment.base_offset):
                self._drop_from(number)
                return
            if number > first:
                self.segments[number - 1].write_indexes()
            valid_bytes = scan_segment(
                segment, self.producers, self.epochs, max(next_offset, segment.base_offset), self.report
            )
            next_offset = self.report.log_end_offset
            if valid_bytes < segment.size_bytes:
                self._drop_from(number + 1)
                self.report.cut_bytes += segment.size_bytes - valid_bytes
                segment.truncate(valid_bytes)
                return

    def _drop_from(self, number: int) -> None:
        """What follows a torn segment follows a gap, and a log has none."""
        while len(self.segments) > number:
            self.segments.pop().remove()
            self._file_system.flush_directory(self._directory)
            self.report.removed_segments += 1

    def _forget_behind_end(self) -> None:
        """A snapshot or an epoch behind the end speaks of batches that were lost and must not outlive them."""
        end_offset = self.report.log_end_offset
        self.epochs.truncate_from(end_offset)
        offsets = snapshot_offsets(self._file_system, self._directory)
        remove_snapshots(
            self._file_system, self._directory, kept=[offset for offset in offsets if offset <= end_offset]
        )
