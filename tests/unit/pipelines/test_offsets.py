"""Offsets as Spark's checkpoint has them."""

import json
import pickle

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.source.offsets import (
    Bounds,
    CheckpointError,
    OffsetRange,
    bounds_up_to,
    from_checkpoint,
    to_checkpoint,
)


def test_a_checkpoint_has_topics_and_partitions_in_order():
    offsets = {TopicPartition("b", 0): 3, TopicPartition("a", 10): 2, TopicPartition("a", 2): 1}
    assert json.dumps(to_checkpoint(offsets)) == '{"a": {"2": 1, "10": 2}, "b": {"0": 3}}'


def test_a_checkpoint_is_read_back():
    assert from_checkpoint({"a": {"2": 1}}) == {TopicPartition("a", 2): 1}
    assert from_checkpoint({}) == {}


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"a": {"x": 1}},
        {"a": {"-1": 1}},
        {"a": {"0": -1}},
        {"a": {"0": "1"}},
        {"a": {"0": None}},
        {"a": 5},
        {"offset": 5},
        [1],
        None,
        object(),
    ],
)
def test_offsets_that_no_checkpoint_of_ours_has_are_refused(checkpoint: object):
    with pytest.raises(CheckpointError, match=r"checkpoint's offset is .*Expected is .*checkpointLocation"):
        from_checkpoint(checkpoint)


def test_a_range_knows_its_partition_and_size_and_travels():
    offset_range = OffsetRange("orders", 1, 5, 12)

    assert offset_range.topic_partition == TopicPartition("orders", 1)
    assert offset_range.size == 7
    assert pickle.loads(pickle.dumps(offset_range)) == offset_range


@pytest.mark.parametrize(
    ("now", "target", "until"),
    [
        (Bounds(0, 50), 20, Bounds(0, 20)),
        (Bounds(0, 10), 20, Bounds(0, 10)),
        # Retention has gone beyond the target: there is nothing left to read.
        (Bounds(30, 50), 20, Bounds(30, 30)),
    ],
)
def test_a_target_bounds_what_can_be_read(now: Bounds, target: int, until: Bounds):
    partition = TopicPartition("orders", 0)
    assert bounds_up_to({partition: now}, {partition: target}) == {partition: until}


def test_partitions_that_came_after_the_target_or_are_gone_are_not_read():
    came, gone = TopicPartition("orders", 1), TopicPartition("orders", 2)
    assert bounds_up_to({came: Bounds(0, 5)}, {gone: 5}) == {}
