"""Retention: which segments a log may delete."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray.broker.log.partition_log import PartitionLog
    from eagleray.broker.log.segment import Segment


def count_expired(log: PartitionLog, now_ms: int, *, by_age: bool = True) -> int:
    """Return how many of the oldest segments have to go, by log start offset, size or age.

    Only whole segments below the last stable offset go: whether the records of an open transaction will count is not
    known yet, however old they are. An operator may delete them nevertheless, which moves the start of the log. The
    active segment never goes for the start offset, and not while it is empty. Not `by_age`, none is too old.
    """
    excess_bytes = _excess_bytes(log)
    count = 0
    last_stable_offset = log.last_stable_offset
    for segment, end_offset in _segments_with_ends(log):
        is_active = segment is log.active_segment
        if end_offset > last_stable_offset or (is_active and not segment.size_bytes):
            break
        is_below_start = end_offset <= log.log_start_offset and not is_active
        is_too_old = by_age and _is_too_old(log, segment, now_ms)
        if not (is_below_start or segment.size_bytes <= excess_bytes or is_too_old):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count


def follow_clock(log: PartitionLog, by_ms: int) -> None:
    """Have what a log has seen itself be as old as it was, now that the time of day was set."""
    for producer in log.producers:
        producer.last_heard_ms += by_ms
    log.producers.limit.forget_notes()
    log.active_segment.created_ms += by_ms


def _segments_with_ends(log: PartitionLog) -> Iterator[tuple[Segment, int]]:
    for segment, following in pairwise(log.segments):
        yield segment, following.base_offset
    yield log.active_segment, log.log_end_offset


def _excess_bytes(log: PartitionLog) -> int:
    config = log.config
    if not config.cleanup_delete or config.retention_bytes < 0:
        return -1
    return log.size_bytes - config.retention_bytes


def _is_too_old(log: PartitionLog, segment: Segment, now_ms: int) -> bool:
    config = log.config
    if not config.cleanup_delete or config.retention_ms < 0:
        return False
    # Records without timestamps are as old as the segment, because they must not vanish as soon as they are written.
    has_timestamp = segment.largest_timestamp_ms >= 0
    newest_ms = segment.largest_timestamp_ms if has_timestamp else segment.created_ms
    return now_ms - newest_ms > config.retention_ms
