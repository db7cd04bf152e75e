"""Offsets as Spark's checkpoint has them."""

import json
import pickle

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.offsets import CheckpointError, OffsetRange, from_checkpoint, to_checkpoint


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
def test_what_no_checkpoint_of_ours_has(checkpoint: object):
    with pytest.raises(CheckpointError, match=r"checkpoint's offset is .*Expected is .*checkpointLocation"):
        from_checkpoint(checkpoint)


def test_a_range_knows_its_partition_and_size_and_travels():
    offset_range = OffsetRange("orders", 1, 5, 12)

    assert offset_range.topic_partition == TopicPartition("orders", 1)
    assert offset_range.size == 7
    assert pickle.loads(pickle.dumps(offset_range)) == offset_range
