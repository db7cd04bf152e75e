"""The small files beside a log's segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.log import names
from eagleray.broker.log.bookmark import Bookmark, remove_bookmark, write_bookmark
from eagleray.broker.log.checkpoint import Checkpoint, write_checkpoint
from eagleray.broker.log.config import Flush
from eagleray.broker.log.epoch_file import write_epochs
from eagleray.broker.log.leader_epochs import LeaderEpochs
from eagleray.broker.log.producer_entry import ProducerEntry
from eagleray.broker.log.producer_snapshot import encode_snapshot
from eagleray.broker.log.recovery import remove_snapshots, snapshot_offsets

if TYPE_CHECKING:
    from eagleray.broker.log.durable_log import DurableLog
    from eagleray.broker.log.segment import Segment


class LogMetadata:
    """Checkpoint, leader epochs, producer snapshots and bookmark of one log.

    Owns: those files. Persists: each as a whole, on stable storage except for the bookmark, before its method returns.
    On failure: OSError, and the file is as it was; after FlushFailed it may be either.
    """

    __slots__ = ("_directory", "_file_system", "checkpoint", "is_marked_open")

    def __init__(self, file_system: FileSystem, directory: str, checkpoint: Checkpoint) -> None:
        self._file_system = file_system
        self._directory = directory
        self.checkpoint = checkpoint
        # From the first change on, the next opening must know that this log was open in this boot.
        self.is_marked_open = False

    def write_checkpoint(self, log: DurableLog, *, closed_cleanly: bool = False, **changes: int | bool) -> None:
        """Write the checkpoint of a log with these changes; it counts as open unless it says otherwise."""
        offsets = {
            "log_start_offset": log.log_start_offset,
            "high_watermark": log.high_watermark,
            "cleaned_up_to": log.cleaned_up_to,
        }
        changed = msgspec.structs.replace(
            self.checkpoint,
            boot_id=self._file_system.boot_id(),
            closed_cleanly=closed_cleanly,
            flushes_first=log.config.flush is Flush.COMMIT and self._has_flushed_first(log.log_end_offset),
            # Opening the log has written again what a failed flush had left in doubt.
            failed_flush_boot_id="",
            epochs=tuple(
                (each.epoch, each.start_offset) for each in log.epochs if each.start_offset < log.log_end_offset
            ),
            **(offsets | changes),
        )
        self.checkpoint = write_checkpoint(self._file_system, self._directory, changed)
        self.is_marked_open = not closed_cleanly

    def note_flushed(self, up_to_offset: int) -> None:
        """Remember for the next checkpoint that everything below an offset is on stable storage."""
        self.checkpoint = msgspec.structs.replace(self.checkpoint, recovery_point=up_to_offset)

    def _has_flushed_first(self, end_offset: int) -> bool:
        # Everything that was ever acknowledged is flushed: it was so from the beginning, or is by now.
        return self.checkpoint.flushes_first or self.checkpoint.recovery_point >= end_offset

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the leader epochs, if they have changed."""
        write_epochs(self._file_system, self._directory, epochs)

    def write_snapshot(self, offset: int, producers: Iterable[ProducerEntry]) -> None:
        """Write the producer state as it is before the batch at `offset`."""
        path = names.segment_file(self._directory, offset, names.SNAPSHOT_SUFFIX)
        write_atomically(self._file_system, path, encode_snapshot(producers))

    def write_bookmark(self, log: DurableLog) -> None:
        """Mark the end of a log's last segment, so that an opening in this boot starts reading there."""
        bookmark = Bookmark.of(log, self._file_system.boot_id())
        if bookmark is None:
            self.remove_bookmark()
        else:
            write_bookmark(self._file_system, self._directory, bookmark)

    def remove_bookmark(self) -> None:
        """Make the next opening read the whole segment, which is about to change."""
        remove_bookmark(self._file_system, self._directory)

    def remove_snapshots_but(self, segments: Sequence[Segment], *offsets: int) -> None:
        """Keep the snapshots at the segments' beginnings, from which recovery starts, and those at `offsets`."""
        kept = [*(segment.base_offset for segment in segments), *offsets]
        remove_snapshots(self._file_system, self._directory, kept=kept)

    def remove_snapshots_behind(self, end_offset: int) -> None:
        """Remove the snapshots that speak of batches behind the end of the log."""
        offsets = snapshot_offsets(self._file_system, self._directory)
        kept = [offset for offset in offsets if offset <= end_offset]
        remove_snapshots(self._file_system, self._directory, kept=kept)
