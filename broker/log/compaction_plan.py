"""What a compaction covers, whether it is worth its cost (the dirty ratio), and which segments become one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.batch_locations import MAX_RELATIVE_OFFSET
from eagleray.broker.log.config import LogConfig
from eagleray.broker.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES

if TYPE_CHECKING:
    from eagleray.broker.log.partition_log import PartitionLog


class Cleanable(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a log that a compaction would cover."""

    segments: list[Segment]
    """All segments from the start of the log on whose records are decided, replicated and old enough."""

    first_dirty: int
    """The index of the first segment that no compaction has covered as a whole."""

    dirty_offset: int
    """Where the last compaction ended."""

    end_offset: int
    """Where the first segment that must not be compacted begins."""

    @property
    def dirty_ratio(self) -> float:
        """The share of the bytes that no compaction has covered."""
        total_bytes = _bytes_of(self.segments)
        return _bytes_of(self.segments[self.first_dirty :]) / total_bytes if total_bytes else 0.0

    def lag_ms(self, now_ms: int) -> int:
        """Return for how long the oldest dirty segment has been waiting."""
        begun_ms = [segment.first_timestamp_ms for segment in self.segments[self.first_dirty :]]
        return now_ms - min((timestamp_ms for timestamp_ms in begun_ms if timestamp_ms >= 0), default=now_ms)


def plan_compaction(log: PartitionLog, now_ms: int) -> Cleanable | None:
    """Return what to compact, if the log is compacted and enough of it is dirty, or has been for too long."""
    config = log.config
    cleanable = _find_cleanable(log, now_ms) if config.cleanup_compact else None
    if cleanable is None or cleanable.dirty_ratio == 0:
        return None
    is_late = cleanable.lag_ms(now_ms) > config.max_compaction_lag_ms
    return cleanable if is_late or cleanable.dirty_ratio >= config.min_cleanable_dirty_ratio else None


def _find_cleanable(log: PartitionLog, now_ms: int) -> Cleanable | None:
    dirty_offset = max(log.cleaned_up_to, log.log_start_offset)
    # What is not stable may still be aborted, and must not supersede anything.
    first_unstable = log.last_stable_offset
    youngest_ms = now_ms - log.config.min_compaction_lag_ms
    has_lag = log.config.min_compaction_lag_ms > 0
    segments: list[Segment] = []
    first_dirty, end_offset = 0, 0
    for segment, following in pairwise(log.segments):
        is_dirty = following.base_offset > dirty_offset
        is_too_young = is_dirty and has_lag and _newest_ms(segment) > youngest_ms
        if following.base_offset > first_unstable or is_too_young:
            break
        segments.append(segment)
        first_dirty += not is_dirty
        end_offset = following.base_offset
    if first_dirty == len(segments):
        return None
    return Cleanable(segments=segments, first_dirty=first_dirty, dirty_offset=dirty_offset, end_offset=end_offset)


def group_segments(segments: Sequence[Segment], end_offset: int, config: LogConfig) -> list[list[Segment]]:
    """Divide neighbouring segments into groups that each fit into one segment, even if all of it is kept.

    Without this, compaction would leave ever more and ever smaller segments. `end_offset` is where the last one ends.
    """
    groups: list[list[Segment]] = []
    size_bytes = index_bytes = 0
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, segment_end in zip(segments, ends, strict=True):
        size_bytes += segment.size_bytes
        index_bytes += _index_bytes_of(segment)
        is_in_range = bool(groups) and (
            segment.size_bytes == 0 or segment_end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if is_in_range and size_bytes <= config.segment_bytes and index_bytes <= config.segment_index_bytes:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes, index_bytes = segment.size_bytes, _index_bytes_of(segment)
    return groups


def _newest_ms(segment: Segment) -> int:
    return segment.largest_timestamp_ms if segment.largest_timestamp_ms >= 0 else segment.created_ms


def _bytes_of(segments: Sequence[Segment]) -> int:
    return sum(segment.size_bytes for segment in segments)


def _index_bytes_of(segment: Segment) -> int:
    return max(len(segment.offset_index) * OFFSET_ENTRY_BYTES, len(segment.time_index) * TIME_ENTRY_BYTES)
