"""From positions in options to offsets of partitions."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.options import OptionError
from eagleray.pipelines.options.positions import (
    EARLIEST,
    LATEST,
    Earliest,
    GlobalTimestamp,
    Latest,
    PartitionTimestamps,
    SpecificOffsets,
)
from eagleray.pipelines.source.data_loss import DataLossError
from eagleray.pipelines.source.offsets import Bounds, OffsetRange
from eagleray.pipelines.source.resolution import ranges_between, resolve_end, resolve_start, timestamps_to_look_up

FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)
BOUNDS = {FIRST: Bounds(10, 50), SECOND: Bounds(0, 7)}
RESOLVERS = [resolve_start, resolve_end]


def test_positions_name_the_offsets_to_look_up():
    assert timestamps_to_look_up(GlobalTimestamp(99), BOUNDS) == {FIRST: 99, SECOND: 99}
    assert timestamps_to_look_up(PartitionTimestamps({FIRST: 1, SECOND: 2}), BOUNDS) == {FIRST: 1, SECOND: 2}
    for position in (Earliest(), Latest(), SpecificOffsets({FIRST: 1, SECOND: 2})):
        assert timestamps_to_look_up(position, BOUNDS) == {}


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_earliest_and_latest(resolve):
    assert resolve(Earliest(), BOUNDS, {}).offsets == {FIRST: 10, SECOND: 0}
    assert resolve(Latest(), BOUNDS, {}).offsets == {FIRST: 50, SECOND: 7}


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_specific_offsets(resolve):
    assert resolve(SpecificOffsets({FIRST: 23, SECOND: LATEST}), BOUNDS, {}).offsets == {FIRST: 23, SECOND: 7}
    assert resolve(SpecificOffsets({FIRST: EARLIEST, SECOND: 0}), BOUNDS, {}).offsets == {FIRST: 10, SECOND: 0}
    # Both edges of the log can be begun and ended at.
    assert resolve(SpecificOffsets({FIRST: 50, SECOND: 7}), BOUNDS, {}).warnings == ()


@pytest.mark.parametrize(("resolve", "name"), [(resolve_start, "startingOffsets"), (resolve_end, "endingOffsets")])
@pytest.mark.parametrize(("offset", "clamped"), [(9, 10), (51, 50)])
def test_offsets_outside_of_the_log_are_lost(resolve, name: str, offset: int, clamped: int):
    position = SpecificOffsets({FIRST: offset, SECOND: 3})

    with pytest.raises(
        DataLossError, match=rf"{name} has {offset} for orders-0, whose log has 10 to 50.*failOnDataLoss"
    ):
        resolve(position, BOUNDS, {})
    resolved = resolve(position, BOUNDS, {}, fail_on_data_loss=False)
    assert resolved.offsets == {FIRST: clamped, SECOND: 3}
    assert len(resolved.warnings) == 1
    assert f"{name} has {offset} for orders-0" in resolved.warnings[0]


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_times(resolve):
    assert resolve(GlobalTimestamp(5), BOUNDS, {FIRST: 20, SECOND: 3}).offsets == {FIRST: 20, SECOND: 3}
    position = PartitionTimestamps({FIRST: 1, SECOND: 2})
    assert resolve(position, BOUNDS, {FIRST: 20, SECOND: 3}).offsets == {FIRST: 20, SECOND: 3}


@pytest.mark.parametrize("resolve", RESOLVERS)
def test_the_log_may_move_between_the_question_and_the_answer(resolve):
    resolved = resolve(GlobalTimestamp(5), BOUNDS, {FIRST: 4, SECOND: 9})

    assert resolved.offsets == {FIRST: 10, SECOND: 7}
    assert resolved.warnings == ()


@pytest.mark.parametrize(
    ("position", "name", "timestamp"),
    [
        (GlobalTimestamp(5), "startingTimestamp", 5),
        (PartitionTimestamps({FIRST: 1, SECOND: 2}), "startingOffsetsByTimestamp", 2),
    ],
)
def test_a_start_later_than_every_record(position, name: str, timestamp: int):
    answers = {FIRST: 20, SECOND: None}

    with pytest.raises(
        OptionError, match=rf"^{name} is {timestamp}, but orders-1 has no record.*startingOffsetsByTimestampStrategy"
    ):
        resolve_start(position, BOUNDS, answers)
    assert resolve_start(position, BOUNDS, answers, on_no_match="latest").offsets == {FIRST: 20, SECOND: 7}


def test_an_end_later_than_every_record_is_the_latest():
    assert resolve_end(GlobalTimestamp(5), BOUNDS, {FIRST: None, SECOND: 3}).offsets == {FIRST: 50, SECOND: 3}


@pytest.mark.parametrize(
    ("resolve", "position", "said"),
    [
        (resolve_start, SpecificOffsets({FIRST: 20}), "^startingOffsets .*: missing are orders-1. Use -1"),
        (
            resolve_end,
            SpecificOffsets({FIRST: 20, SECOND: 1, TopicPartition("a", 3): 1}),
            "^endingOffsets .*: not read are a-3. Use -1",
        ),
        (
            resolve_start,
            PartitionTimestamps({FIRST: 20, TopicPartition("a", 3): 1}),
            "^startingOffsetsByTimestamp .*: missing are orders-1 and not read are a-3. Use startingTimestamp",
        ),
        (resolve_end, PartitionTimestamps({SECOND: 20}), "^endingOffsetsByTimestamp .*orders-0. Use endingTimestamp"),
    ],
)
def test_options_name_all_partitions_and_no_others(resolve, position, said: str):
    with pytest.raises(OptionError, match=said):
        resolve(position, BOUNDS, {})


def test_ranges_are_in_order():
    assert ranges_between({SECOND: 2, FIRST: 1}, {SECOND: 2, FIRST: 5}) == [
        OffsetRange("orders", 0, 1, 5),
        OffsetRange("orders", 1, 2, 2),
    ]


def test_no_range_ends_before_it_begins():
    with pytest.raises(OptionError, match="read orders-0 from offset 6 to 5, which is before it"):
        ranges_between({FIRST: 6}, {FIRST: 5})
