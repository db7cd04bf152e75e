"""Removing the end of a log, or all of it, so that a crash in between leaves a log without gaps."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from eagleray.broker.filesystem import FileSystem
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.readable_log import BASE_OFFSET
from eagleray.broker.log.sweeping import forget_deleted

if TYPE_CHECKING:
    from eagleray.broker.log.metadata import LogMetadata
    from eagleray.broker.log.partition_log import PartitionLog


def truncate_files(
    log: PartitionLog, metadata: LogMetadata, file_system: FileSystem, directory: str, to_offset: int
) -> None:
    """Remove segments and batches from the end on, so that a crash in between leaves a log without gaps."""
    log.log_end_offset = to_offset
    log.high_watermark = min(log.high_watermark, to_offset)
    log.cleaned_up_to = min(log.cleaned_up_to, to_offset)
    last = log.segments[max(bisect_left(log.segments, to_offset, key=BASE_OFFSET) - 1, 0)]
    metadata.remove_bookmark()
    # The offset may lie inside of a batch, which goes as a whole; what is noted must not lie behind the new end.
    certain = max(last.base_offset, log.log_start_offset)
    metadata.write_checkpoint(
        log,
        recovery_point=min(log.recovery_point, last.base_offset),
        high_watermark=min(log.high_watermark, certain),
    )
    while log.active_segment is not last:
        log.segments.pop().remove()
        file_system.flush_directory(directory)
    location = last.locate(to_offset)
    if location is not None:
        last.truncate(location.position)


def begin_anew(
    log: PartitionLog,
    metadata: LogMetadata,
    file_system: FileSystem,
    directory: str,
    *,
    offset: int,
    producers: bytes,
) -> None:
    """Remove what is left of a log that was truncated to an offset, so that it goes on there, empty.

    `producers` is a snapshot of the producers before that offset.
    """
    metadata.remove_bookmark()
    # It is written first, so that a log that starts at the offset always has it.
    metadata.write_snapshot(offset, decode_snapshot(producers) or ())
    log.high_watermark = log.log_start_offset = offset
    log.cleaned_up_to = min(log.cleaned_up_to, offset)
    # The segment that is removed may begin below the new start or above it; neither may be trusted by mistake.
    oldest = min(log.recovery_point, log.segments[0].base_offset, offset)
    metadata.write_checkpoint(log, recovery_point=oldest)
    # No record that these describe counts any more, so a crash from here on loses nothing.
    log.epochs.clear()
    metadata.write_epochs(log.epochs)
    metadata.remove_snapshots_but((), offset)
    while log.segments:
        log.segments.pop().remove()
    file_system.flush_directory(directory)
    # They would pass a loss of what comes now for a deletion.
    forget_deleted(file_system, directory)
