"""How tasks share ranges: examples; tests/property/pipelines has what holds for all."""

import pytest

from eagleray.pipelines.source.offsets import OffsetRange
from eagleray.pipelines.source.splitting import gather, split


def ranges(*edges: tuple[int, int]) -> list[OffsetRange]:
    return [OffsetRange("orders", partition, start, end) for partition, (start, end) in enumerate(edges)]


def pieces(result: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in result]


def test_ranges_stay_whole_and_in_order_and_empty_ones_are_dropped():
    assert pieces(split(ranges((0, 5), (3, 3), (9, 7), (2, 4)))) == [(0, 0, 5), (3, 2, 4)]


def test_enough_partitions_are_not_cut():
    assert pieces(split(ranges((0, 5), (0, 100)), min_partitions=2)) == [(0, 0, 5), (1, 0, 100)]


@pytest.mark.parametrize(
    ("edges", "minimum", "expected"),
    [
        ([(5, 15)], 3, [(0, 5, 8), (0, 8, 11), (0, 11, 15)]),
        # The large one is cut and the small one is not.
        ([(0, 1), (0, 100)], 3, [(0, 0, 1), (1, 0, 50), (1, 50, 100)]),
        ([(0, 50), (0, 100)], 3, [(0, 0, 50), (1, 0, 50), (1, 50, 100)]),
        # There are not as many offsets as tasks wanted.
        ([(0, 1), (0, 2)], 10, [(0, 0, 1), (1, 0, 1), (1, 1, 2)]),
        ([(0, 0)], 10, []),
        ([], 10, []),
    ],
)
def test_large_ranges_are_cut_for_enough_tasks(edges, minimum: int, expected):
    assert pieces(split(ranges(*edges), min_partitions=minimum)) == expected


def test_no_task_gets_too_much():
    result = split(ranges((0, 4), (0, 10)), max_records_per_partition=4)
    assert pieces(result) == [(0, 0, 4), (1, 0, 3), (1, 3, 6), (1, 6, 10)]


def test_the_maximum_is_applied_before_the_minimum():
    result = split(ranges((0, 10), (0, 2)), min_partitions=5, max_records_per_partition=5)
    assert pieces(result) == [(0, 0, 2), (0, 2, 5), (0, 5, 7), (0, 7, 10), (1, 0, 2)]


def test_range_that_the_maximum_has_cut_counts_as_cut():
    # Pieces of the first are 3 or 4 large already, so the second has the largest.
    result = split(ranges((0, 10), (0, 4)), min_partitions=5, max_records_per_partition=4)
    assert pieces(result) == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 2), (1, 2, 4)]


def test_small_ranges_are_put_together_in_order():
    groups = gather(ranges((0, 3), (0, 4), (0, 100), (0, 1), (0, 2)), 6)
    assert [pieces(list(group)) for group in groups] == [
        [(0, 0, 3), (1, 0, 4)],
        [(2, 0, 100)],
        [(3, 0, 1), (4, 0, 2)],
    ]


def test_with_nothing_to_be_enough_each_range_stays_alone():
    assert gather(ranges((0, 3), (0, 4)), 0) == [(each,) for each in ranges((0, 3), (0, 4))]
    assert gather([], 6) == []
