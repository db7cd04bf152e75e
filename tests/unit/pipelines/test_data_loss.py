"""What a stream does about partitions that come and go, and records that are gone."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.source.data_loss import DataLossError, begin_offsets, plan_ranges
from eagleray.pipelines.source.offsets import Bounds, OffsetRange

FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


def both_ways(function, *arguments, said: str):
    """Return what a query gets that goes on, after seeing that one which does not fails with the same words."""
    with pytest.raises(DataLossError, match=f"{said}.*failOnDataLoss to false.*checkpointLocation"):
        function(*arguments, fail_on_data_loss=True)
    result = function(*arguments, fail_on_data_loss=False)
    assert [said in warning for warning in result.warnings] == [True]
    assert "failOnDataLoss is false" in result.warnings[0]
    return result


# Beginning a batch


def test_a_batch_begins_where_the_last_one_ended():
    begin = begin_offsets({FIRST: 20}, {FIRST: Bounds(10, 50)}, fail_on_data_loss=True)
    assert begin.offsets == {FIRST: 20}
    assert begin.warnings == ()


@pytest.mark.parametrize("offset", [10, 50])
def test_both_edges_of_a_log_are_inside(offset: int):
    assert begin_offsets({FIRST: offset}, {FIRST: Bounds(10, 50)}, fail_on_data_loss=True).offsets == {FIRST: offset}


def test_a_new_partition_begins_at_its_first_offset():
    bounds = {FIRST: Bounds(10, 50), SECOND: Bounds(0, 7)}
    assert begin_offsets({FIRST: 20}, bounds, fail_on_data_loss=True).offsets == {FIRST: 20, SECOND: 0}


def test_a_new_partition_that_has_lost_records_already():
    bounds = {FIRST: Bounds(10, 50), SECOND: Bounds(3, 7)}
    begin = both_ways(begin_offsets, {FIRST: 20}, bounds, said="orders-1 is new to the query, but its log starts at 3")
    assert begin.offsets == {FIRST: 20, SECOND: 3}


def test_records_before_the_start_of_the_log_are_lost():
    said = "goes on at offset 9 of orders-0, but its log starts at 10"
    assert both_ways(begin_offsets, {FIRST: 9}, {FIRST: Bounds(10, 50)}, said=said).offsets == {FIRST: 10}


def test_a_log_that_has_become_shorter():
    said = "got to offset 51 of orders-0, but its log ends at 50"
    assert both_ways(begin_offsets, {FIRST: 51}, {FIRST: Bounds(10, 50)}, said=said).offsets == {FIRST: 50}


def test_a_partition_that_is_gone():
    said = "was reading orders-1, which no longer exist"
    begin = both_ways(begin_offsets, {FIRST: 20, SECOND: 1}, {FIRST: Bounds(10, 50)}, said=said)
    assert begin.offsets == {FIRST: 20}


def test_all_losses_are_told_at_once():
    bounds = {FIRST: Bounds(10, 50)}
    with pytest.raises(DataLossError, match=r"orders-1.*offset 9 of orders-0"):
        begin_offsets({FIRST: 9, SECOND: 1}, bounds, fail_on_data_loss=True)


# Planning a batch that is in the checkpoint


def test_ranges_of_a_batch_are_in_order():
    bounds = {SECOND: Bounds(0, 9), FIRST: Bounds(10, 50)}
    plan = plan_ranges({SECOND: 2, FIRST: 20}, {SECOND: 2, FIRST: 30}, bounds, fail_on_data_loss=True)
    assert plan.ranges == (OffsetRange("orders", 0, 20, 30), OffsetRange("orders", 1, 2, 2))
    assert plan.warnings == ()


def test_a_partition_that_is_new_in_the_batch_is_read_from_its_first_offset():
    plan = plan_ranges({}, {FIRST: 30}, {FIRST: Bounds(0, 50)}, fail_on_data_loss=True)
    assert plan.ranges == (OffsetRange("orders", 0, 0, 30),)


def test_partitions_that_came_after_the_batch_was_planned_wait_for_the_next():
    bounds = {FIRST: Bounds(0, 50), SECOND: Bounds(0, 9)}
    plan = plan_ranges({FIRST: 1}, {FIRST: 30}, bounds, fail_on_data_loss=True)
    assert plan.ranges == (OffsetRange("orders", 0, 1, 30),)


@pytest.mark.parametrize(
    ("start", "end", "bounds", "said", "ranges"),
    [
        (5, 30, Bounds(10, 50), "goes on at offset 5 of orders-0, but its log starts at 10", (10, 30)),
        (5, 30, Bounds(40, 50), "goes on at offset 5 of orders-0, but its log starts at 40", (30, 30)),
        (5, 30, Bounds(0, 20), "got to offset 30 of orders-0, but its log ends at 20", (5, 20)),
        (None, 30, Bounds(7, 50), "orders-0 is new to the query, but its log starts at 7", (7, 30)),
    ],
)
def test_records_that_are_gone_since_the_batch_was_planned(start, end, bounds, said: str, ranges: tuple[int, int]):
    starts = {} if start is None else {FIRST: start}
    plan = both_ways(plan_ranges, starts, {FIRST: end}, {FIRST: bounds}, said=said)
    assert plan.ranges == (OffsetRange("orders", 0, *ranges),)


def test_a_topic_that_was_made_anew():
    bounds = {FIRST: Bounds(0, 3)}
    with pytest.raises(DataLossError, match="offset 5 of orders-0, but its log ends at 3"):
        plan_ranges({FIRST: 5}, {FIRST: 30}, bounds, fail_on_data_loss=True)
    plan = plan_ranges({FIRST: 5}, {FIRST: 30}, bounds, fail_on_data_loss=False)
    assert plan.ranges == (OffsetRange("orders", 0, 3, 3),)


@pytest.mark.parametrize("end", [{FIRST: 30}, {FIRST: 30, SECOND: 3}])
def test_a_partition_that_was_deleted_before_or_after_the_batch_was_planned(end: dict[TopicPartition, int]):
    said = "was reading orders-1, which no longer exist"
    plan = both_ways(plan_ranges, {FIRST: 20, SECOND: 1}, end, {FIRST: Bounds(10, 50)}, said=said)
    assert plan.ranges == (OffsetRange("orders", 0, 20, 30),)
