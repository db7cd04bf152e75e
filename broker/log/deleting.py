"""Deleting the beginning of a log, which has to work on a disk that is full, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagleray.broker.filesystem import FileSystem, FlushFailed, is_full
from eagleray.broker.log.errors import LogWriteFailed
from eagleray.broker.log.sweeping import forget_deleted

if TYPE_CHECKING:
    from eagleray.broker.log.metadata import LogMetadata
    from eagleray.broker.log.partition_log import PartitionLog


def move_start(log: PartitionLog, metadata: LogMetadata, file_system: FileSystem, directory: str, offset: int) -> None:
    """Delete everything below an offset; the new start is on disk when this returns.

    LogWriteFailed where it cannot be written down; by then the oldest segments may be gone, and the log start offset
    says so. After any other OSError the log has to be opened anew.
    """
    try:
        _note_start(log, metadata, directory, offset)
        forget_deleted(file_system, directory)
        log.log_start_offset = offset
        while _ends_before(log, offset):
            log.segments.pop(0).remove()
    finally:
        log.epochs.truncate_before(log.log_start_offset)
    try:
        metadata.write_epochs(log.epochs)
    except OSError as error:
        # An opening leaves out those before the start, and the next append writes them.
        if not is_full(error):
            raise
    metadata.remove_snapshots_but(log.segments)


def _ends_before(log: PartitionLog, offset: int) -> bool:
    """Whether nothing in the oldest segment lies behind an offset, and others follow it."""
    return len(log.segments) > 1 and log.segments[1].base_offset <= offset


def _note_start(log: PartitionLog, metadata: LogMetadata, directory: str, offset: int) -> None:
    """Write down where the log is to start; where the disk has no room for that, remove old segments first.

    They go one after the other, each for good before the next, so that no loss of power leaves a gap. Until there is a
    checkpoint, an empty file in the place of each says that it was deleted and not lost.
    """
    while True:
        try:
            metadata.write_checkpoint(log, log_start_offset=offset)
        except FlushFailed:
            raise
        except OSError as error:
            if not is_full(error) or not _ends_before(log, offset):
                where = f"the start of the log stays at {log.log_start_offset}"
                raise LogWriteFailed(f"{directory}: {where}: {error}") from error
        else:
            return
        log.segments[0].remove_noting(log.segments[1].base_offset)
        del log.segments[0]
        log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
