"""Which segments a log may let go of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray.broker.log.partition_log import PartitionLog
    from eagleray.broker.log.segment import Segment


def count_expired(log: PartitionLog, now_ms: int) -> int:
    """Return how many of the oldest segments have to go, by start offset, size or age.

    Only whole segments below the high watermark go. The active one never goes for the start offset, and not while it
    is empty.
    """
    excess_bytes = _excess_bytes(log)
    count = 0
    for segment, end_offset in _segments_with_ends(log):
        is_active = segment is log.active_segment
        if end_offset > log.high_watermark or (is_active and not segment.size_bytes):
            break
        is_below_start = end_offset <= log.log_start_offset and not is_active
        if not (is_below_start or segment.size_bytes <= excess_bytes or _is_too_old(log, segment, now_ms)):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count


def _segments_with_ends(log: PartitionLog) -> Iterator[tuple[Segment, int]]:
    for segment, following in pairwise(log.segments):
        yield segment, following.base_offset
    yield log.active_segment, log.log_end_offset


def _excess_bytes(log: PartitionLog) -> int:
    """Return by how much the log is larger than it may be; negative where there is nothing to free."""
    config = log.config
    if not config.cleanup_delete or config.retention_bytes < 0:
        return -1
    return log.size_bytes - config.retention_bytes


def _is_too_old(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    config = log.config
    if not config.cleanup_delete or config.retention_ms < 0:
        return False
    # Records without timestamps are as old as the segment, for they must not vanish as soon as they are written.
    has_timestamp = segment.largest_timestamp_ms >= 0
    newest_ms = segment.largest_timestamp_ms if has_timestamp else segment.created_ms
    return now_ms - newest_ms > config.retention_ms
