"""How far a compaction may go, whether it is worth it, and which segments become one."""

import pytest

from eagleray.broker.log.compaction_plan import Cleanable, group_segments, plan_compaction
from eagleray.broker.log.config import LogConfig
from tests.support.keyed_log import FIRST_TRANSACTIONAL, KeyedLog, compacting
from tests.support.simulated_disk import SimulatedDisk

TRANSACTIONAL = FIRST_TRANSACTIONAL


def make(*, segments: int = 0, **settings: object) -> KeyedLog:
    """Make a log with so many closed segments of one batch each."""
    keyed = KeyedLog(SimulatedDisk(), compacting(**settings))
    for _ in range(segments):
        keyed.put((b"key", bytes(100)))
        keyed.roll()
    keyed.replicate()
    return keyed


def plan(keyed: KeyedLog) -> Cleanable | None:
    return plan_compaction(keyed.log, keyed.now_ms)


def bounds(keyed: KeyedLog) -> tuple[int, int] | None:
    cleanable = plan(keyed)
    return None if cleanable is None else (cleanable.dirty_offset, cleanable.end_offset)


class TestRange:
    def test_everything_but_the_active_segment(self) -> None:
        keyed = make(segments=3)
        keyed.put((b"key", b"in the active segment"))
        keyed.replicate()
        cleanable = plan(keyed)
        assert cleanable is not None
        assert (cleanable.dirty_offset, cleanable.end_offset, cleanable.first_dirty) == (0, 3, 0)
        assert cleanable.segments == keyed.log.segments[:3]

    def test_nothing_of_a_log_that_is_not_to_be_compacted(self) -> None:
        assert plan(make(segments=3, cleanup_compact=False, cleanup_delete=True)) is None

    def test_nothing_of_an_empty_log(self) -> None:
        assert plan(make()) is None

    def test_nothing_that_is_not_replicated(self) -> None:
        keyed = make(segments=2)
        keyed.put((b"key", b"value"))
        keyed.roll()
        assert bounds(keyed) == (0, 2)

    def test_nothing_from_the_segment_of_an_open_transaction_on(self) -> None:
        keyed = make(segments=2)
        keyed.put((b"key", b"value"))
        keyed.put((b"key", b"value"), producer_id=TRANSACTIONAL)
        keyed.roll()
        keyed.put((b"key", b"value"))
        keyed.roll()
        keyed.replicate()
        assert bounds(keyed) == (0, 2)
        keyed.end(TRANSACTIONAL, commit=True)
        assert bounds(keyed) == (0, 2)
        keyed.replicate()
        assert bounds(keyed) == (0, 5)

    def test_nothing_younger_than_the_smallest_lag(self) -> None:
        keyed = make(segments=2, min_compaction_lag_ms=1000)
        keyed.now_ms += 500
        keyed.put((b"key", b"value"))
        keyed.roll()
        keyed.replicate()
        assert bounds(keyed) is None
        keyed.now_ms += 500
        assert bounds(keyed) == (0, 2)
        keyed.now_ms += 500
        assert bounds(keyed) == (0, 3)

    def test_it_begins_where_the_last_one_ended(self) -> None:
        keyed = make(segments=3)
        assert keyed.compact()
        assert bounds(keyed) is None
        keyed.put((b"key", b"value"))
        keyed.roll()
        keyed.replicate()
        cleanable = plan(keyed)
        assert cleanable is not None
        assert (cleanable.dirty_offset, cleanable.end_offset) == (3, 4)
        assert cleanable.segments[cleanable.first_dirty].base_offset == 3

    def test_it_begins_at_the_start_of_the_log_if_that_has_been_raised_since(self) -> None:
        keyed = make(segments=4)
        keyed.log.delete_records(2)
        assert bounds(keyed) == (2, 4)

    def test_a_truncated_log_is_dirty_again_from_there(self) -> None:
        keyed = make(segments=4)
        keyed.compact()
        assert keyed.log.cleaned_up_to == 4
        keyed.log.truncate(0, now_ms=keyed.now_ms)
        assert keyed.log.cleaned_up_to == 0

    def test_how_far_it_went_is_kept(self) -> None:
        keyed = make(segments=4)
        keyed.compact()
        keyed.log.close()
        keyed.open()
        assert keyed.log.cleaned_up_to == 4
        assert plan(keyed) is None


class TestWorth:
    def half_dirty(self, **settings: object) -> KeyedLog:
        keyed = make(segments=1, **settings)
        keyed.compact()
        keyed.put((b"other", bytes(98)))
        keyed.roll()
        keyed.replicate()
        return keyed

    @pytest.mark.parametrize(("ratio", "is_worthwhile"), [(0.4, True), (0.6, False), (0.0, True), (1.0, False)])
    def test_enough_has_to_be_dirty(self, ratio: float, is_worthwhile: bool) -> None:
        keyed = self.half_dirty()
        keyed.log.config = compacting(min_cleanable_dirty_ratio=ratio)
        assert (plan(keyed) is not None) == is_worthwhile

    def test_or_something_has_to_be_dirty_for_too_long(self) -> None:
        keyed = self.half_dirty()
        keyed.log.config = compacting(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
        assert plan(keyed) is None
        keyed.now_ms += 1001
        assert plan(keyed) is not None


class TestGroups:
    def groups(self, keyed: KeyedLog, config: LogConfig) -> list[list[int]]:
        segments = keyed.log.segments[:-1]
        grouped = group_segments(segments, keyed.log.active_segment.base_offset, config)
        return [[segment.base_offset for segment in group] for group in grouped]

    def test_neighbours_are_joined_while_they_fit(self) -> None:
        keyed = make(segments=5)
        size_bytes = keyed.log.segments[0].size_bytes
        assert 5 * size_bytes <= 1024
        assert self.groups(keyed, keyed.config) == [[0, 1, 2, 3, 4]]
        keyed = make(segments=9)
        assert self.groups(keyed, keyed.config) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]

    def test_a_segment_that_is_too_large_already_stays_alone(self) -> None:
        keyed = make(segments=1, segment_bytes=4096)
        keyed.put((b"key", bytes(2000)))
        keyed.roll()
        keyed.put((b"key", b"value"))
        keyed.roll()
        assert self.groups(keyed, compacting(segment_bytes=1024)) == [[0], [1], [2]]

    def test_indexes_have_to_fit_as_well(self) -> None:
        keyed = make(segments=4)
        # Each segment has one entry of 12 bytes in its time index.
        assert self.groups(keyed, compacting(segment_index_bytes=24)) == [[0, 1], [2, 3]]

    def test_offsets_have_to_fit_into_four_bytes(self) -> None:
        keyed = make(segments=2)
        segments = keyed.log.segments[:-1]
        assert len(group_segments(segments, 2**31, keyed.config)) == 1
        assert len(group_segments(segments, 2**31 + 1, keyed.config)) == 2
