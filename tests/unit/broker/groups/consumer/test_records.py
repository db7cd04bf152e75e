"""What is in the log, what replaying it gives, and what becomes of what others have left there."""

import pytest

from eagleray.broker.groups.consumer.records import decode_key, decode_value, encode_record
from eagleray.protocol.codec import MalformedMessage, encode_versioned
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    TopicPartitions,
)
from eagleray.protocol.messages.consumer_offsets import OffsetCommitKey
from tests.support.consumer_groups import GROUP, Consumer, GroupWorld, parts, settle, topic_id


def kinds(records) -> list[str]:
    return [type(decode_key(key)).__name__ + ("" if value is not None else " gone") for key, value in records]


def test_the_records_of_a_first_member():
    world = GroupWorld()
    world.join("a", subscribed_topic_regex="pay.*")
    assert kinds(world.log) == [
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupMetadataKey",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupCurrentMemberAssignmentKey",
    ]
    assert [key[:2] for key, _ in world.log] == [b"\0\x05", b"\0\x10", b"\0\x03", b"\0\x07", b"\0\x06", b"\0\x08"]


def test_the_records_of_a_member_that_leaves():
    world = GroupWorld()
    world.join("a")
    del world.log[:]
    world.send(member_id="a", member_epoch=-1)
    assert kinds(world.log) == [
        "ConsumerGroupCurrentMemberAssignmentKey gone",
        "ConsumerGroupTargetAssignmentMemberKey gone",
        "ConsumerGroupMemberMetadataKey gone",
        "ConsumerGroupMetadataKey",
    ]


def test_a_replay_gives_the_same_state():
    world = GroupWorld({"orders": 4, "payments": 2})
    first, second = Consumer(world, "a", instance_id="one"), Consumer(world, "b", subscribed_topic_regex="p.*")
    settle(first, second)
    first.leave(-2)
    Consumer(world, "c", instance_id="one").beat()
    live = world.state
    world.restart()
    assert world.state == live


def test_only_the_last_record_of_each_key_counts():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first, second)
    first.leave()
    settle(second)
    live = world.state
    latest = {}
    for key, value in world.log:
        latest.pop(key, None)
        latest[key] = value
    world.log = [(key, value) for key, value in latest.items() if value is not None]
    world.restart()
    assert world.state == live


def test_a_deleted_group_leaves_nothing():
    world = GroupWorld()
    consumer = Consumer(world, "a", subscribed_topic_regex="pay.*")
    settle(consumer)
    refused = world.groups.groups[GROUP].delete()
    assert (refused.error_code, refused.records) == (ErrorCode.NON_EMPTY_GROUP, ())
    consumer.leave()
    decision = world.groups.groups[GROUP].delete()
    assert GROUP in world.groups.groups
    world.settle(decision)
    assert world.groups.groups == {}
    world.restart()
    assert world.groups.groups == {}
    assert {key for key, _ in world.log} == {key for key, value in dict(world.log).items() if value is None}


def test_tombstones_of_what_is_not_there_are_nothing():
    world = GroupWorld()
    keys = (
        ConsumerGroupMetadataKey(GROUP),
        ConsumerGroupPartitionMetadataKey(GROUP),
        ConsumerGroupMemberMetadataKey(GROUP, "x"),
        ConsumerGroupTargetAssignmentMetadataKey(GROUP),
        ConsumerGroupTargetAssignmentMemberKey(GROUP, "x"),
        ConsumerGroupCurrentMemberAssignmentKey(GROUP, "x"),
        ConsumerGroupRegularExpressionKey(GROUP, "x"),
    )
    tombstones = [encode_record(key, None) for key in keys]
    world.groups.apply(tombstones, world.now_ms)
    assert world.groups.groups == {}
    world.join("a")
    world.groups.apply(tombstones[1:3] + tombstones[4:], world.now_ms)
    assert set(world.state.members) == {"a"}


def test_the_tombstone_of_a_member_takes_all_that_it_held():
    world = GroupWorld()
    world.join("a", instance_id="one")
    world.groups.apply([encode_record(ConsumerGroupMemberMetadataKey(GROUP, "a"), None)], world.now_ms)
    assert (world.state.members, world.state.static_members, world.state.holders) == ({}, {}, {})


def test_the_topics_that_older_versions_kept_are_passed_over():
    world = GroupWorld()
    world.join("a")
    before = world.state.copy()
    record = encode_record(ConsumerGroupPartitionMetadataKey(GROUP), ConsumerGroupPartitionMetadataValue())
    world.groups.apply([record], world.now_ms)
    assert world.state == before


def test_records_about_something_else_are_passed_over():
    world = GroupWorld()
    offset_key = encode_versioned(OffsetCommitKey(GROUP, "orders", 0), 0)
    world.groups.apply([(offset_key, b"whatever"), (b"\0\x63", None)], world.now_ms)
    assert world.groups.groups == {}


def test_damage_is_seen():
    key, value = encode_record(ConsumerGroupMemberMetadataKey(GROUP, "a"), ConsumerGroupMemberMetadataValue())
    with pytest.raises(MalformedMessage):
        decode_key(key[:-1])
    with pytest.raises(MalformedMessage):
        decode_value(decode_key(key), value[:-1])


def test_epochs_have_to_be_as_many_as_partitions():
    world = GroupWorld()
    world.join("a")
    topic = TopicPartitions(topic_id=topic_id("orders"), partitions=(0, 1), assignment_epochs=(1,))
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1, assigned_partitions=(topic,))
    record = encode_record(ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a"), value)
    with pytest.raises(MalformedMessage, match="2 partitions have 1 epochs"):
        world.groups.apply([record], world.now_ms)


def test_records_without_epochs_count_from_the_epoch_that_the_member_had():
    world = GroupWorld()
    topic = TopicPartitions(topic_id=topic_id("orders"), partitions=(0, 1))
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=7, assigned_partitions=(topic,))
    record = encode_record(ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a"), value)
    world.groups.apply([record], world.now_ms)
    assert world.member("a").held_since == dict.fromkeys(parts("orders", 0, 1), 7)


def test_a_member_of_the_classic_protocol_has_generations():
    world = GroupWorld()
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None, rack_id=None, subscribed_topic_regex=None, classic_member_metadata=ClassicMemberMetadata()
    )
    world.groups.apply([encode_record(ConsumerGroupMemberMetadataKey(GROUP, "a"), value)], world.now_ms)
    group = world.groups.groups[GROUP]
    assert group.check_commit(7, "a", None, is_transactional=False) is ErrorCode.ILLEGAL_GENERATION
    assert world.groups.describe(GROUP).members[0].member_type == 0
    world.join("a")
    assert group.check_commit(7, "a", None, is_transactional=False) is ErrorCode.STALE_MEMBER_EPOCH
    assert world.groups.describe(GROUP).members[0].member_type == 1


def test_a_partition_whose_records_overlap_belongs_to_the_later():
    world = GroupWorld({"orders": 1})
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first, second)
    first.leave()
    settle(second)
    # The tombstones of the first are replayed last, as no log has them, and still take nothing from the second.
    gone = [record for record in world.log if record[1] is None]
    world.groups.apply(gone, world.now_ms)
    assert world.state.holders == dict.fromkeys(parts("orders", 0), "b")
