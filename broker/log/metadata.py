"""The small files beside a log's segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from eagleray.broker.filesystem import FileSystem, write_atomically
from eagleray.broker.log import names
from eagleray.broker.log.bookmark import Bookmark, remove_bookmark, write_bookmark
from eagleray.broker.log.checkpoint import Checkpoint, write_checkpoint
from eagleray.broker.log.epoch_file import write_epochs
from eagleray.broker.log.leader_epochs import LeaderEpochs
from eagleray.broker.log.producer_snapshot import encode_snapshot
from eagleray.broker.log.producer_state import ProducerEntry
from eagleray.broker.log.recovery import remove_snapshots

if TYPE_CHECKING:
    from eagleray.broker.log.readable_log import ReadableLog


class LogMetadata:
    """Checkpoint, leader epochs, producer snapshots and bookmark of one log.

    Owns: those files. Persists: each as a whole, on stable storage but for the bookmark, before its method returns. On
    failure: OSError, and the file is as it was, but for FlushFailed, after which it may be either.
    """

    __slots__ = ("_directory", "_file_system", "checkpoint", "is_marked_open")

    def __init__(self, file_system: FileSystem, directory: str, checkpoint: Checkpoint) -> None:
        self._file_system = file_system
        self._directory = directory
        self.checkpoint = checkpoint
        # The next opening must know that this log was open in this boot, from the first change on.
        self.is_marked_open = False

    def write_checkpoint(self, *, closed_cleanly: bool = False, **changes: Any) -> None:  # noqa: ANN401 - fields of Checkpoint
        """Write the checkpoint with these changes; the log counts as open unless it says otherwise."""
        changed = msgspec.structs.replace(
            self.checkpoint,
            boot_id=self._file_system.boot_id(),
            closed_cleanly=closed_cleanly,
            # Opening the log has written again what a failed flush had left in doubt.
            failed_flush_boot_id="",
            **changes,
        )
        write_checkpoint(self._file_system, self._directory, changed)
        self.checkpoint = changed
        self.is_marked_open = not closed_cleanly

    def note_flushed(self, up_to_offset: int) -> None:
        """Remember for the next checkpoint that everything below an offset is on stable storage."""
        self.checkpoint = msgspec.structs.replace(self.checkpoint, recovery_point=up_to_offset)

    def has_flushed_first(self, end_offset: int) -> bool:
        """Whether everything that was ever acknowledged is flushed: it was so from the beginning, or is by now."""
        return self.checkpoint.flushes_first or self.checkpoint.recovery_point >= end_offset

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        """Write the leader epochs, if they have changed."""
        write_epochs(self._file_system, self._directory, epochs)

    def write_snapshot(self, offset: int, producers: Iterable[ProducerEntry]) -> None:
        """Write the state of the producers as it is before the batch at `offset`."""
        path = names.segment_file(self._directory, offset, names.SNAPSHOT_SUFFIX)
        write_atomically(self._file_system, path, encode_snapshot(producers))

    def write_bookmark(self, log: ReadableLog) -> None:
        """Mark the end of a log's last segment, so that an opening in this boot begins to look there."""
        bookmark = Bookmark.of(log, self._file_system.boot_id())
        if bookmark is None:
            self.remove_bookmark()
        else:
            write_bookmark(self._file_system, self._directory, bookmark)

    def remove_bookmark(self) -> None:
        """Have the next opening look at the whole segment, which is about to be another."""
        remove_bookmark(self._file_system, self._directory)

    def remove_snapshots_but(self, offsets: Sequence[int]) -> None:
        """Remove the snapshots that nothing will start from."""
        remove_snapshots(self._file_system, self._directory, kept=offsets)
