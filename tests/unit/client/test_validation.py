"""What an admin checks before it asks: each function with what it takes, and with what it refuses and says."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.client import validation
from eagleray.client.errors import EaglerayError, InvalidArgument, RefusedError, TopicRefused
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from eagleray.protocol.errors import ErrorCode

ORDERS = TopicPartition("orders", 0)
MEMBER = ConsumerGroupMetadata("readers", 3, "member", "static")


def count(value):
    return validation.partition_count(value, has_default=True)


def older_than(value):
    return validation.integer("older_than_ms", value, -1)


TAKEN = [
    (count, 1, 1),
    (count, -1, -1),
    (count, 2**31 - 1, 2**31 - 1),
    (validation.replication_factor, 3, 3),
    (validation.new_topic, "a.b_c-D9", "a.b_c-D9"),
    (validation.topic, "Grüße", "Grüße"),
    (validation.group, "g" * 32767, "g" * 32767),
    (validation.configs, {"retention.ms": 1000}, {"retention.ms": "1000"}),
    (
        validation.configs,
        {"a": True, "b": False, "c": 0.5, "d": "x"},
        {"a": "true", "b": "false", "c": "0.5", "d": "x"},
    ),
    (validation.config_changes, {"retention.ms": None, "a": 1}, {"retention.ms": None, "a": "1"}),
    (validation.node_or_machine, 0, 0),
    (validation.node_or_machine, "192.0.2.11", "192.0.2.11"),
    (validation.node_or_machine, "", ""),
    (validation.offsets_to_delete, {ORDERS: -1}, {ORDERS: -1}),
    (validation.timestamps_to_list, {ORDERS: -3}, {ORDERS: -3}),
    (validation.offsets_to_commit, {ORDERS: OffsetAndMetadata(5, "x")}, {ORDERS: OffsetAndMetadata(5, "x")}),
    (validation.consumer_group, "readers", ConsumerGroupMetadata("readers")),
    (validation.consumer_group, MEMBER, MEMBER),
    (validation.reassignments, {ORDERS: [0, 100]}, {ORDERS: (0, 100)}),
    (validation.reassignments, {ORDERS: None}, {ORDERS: None}),
    (validation.transaction_states, ["Ongoing"], ("Ongoing",)),
    (validation.topics, ("a", "b"), ("a", "b")),
    (older_than, -1, -1),
]


@pytest.mark.parametrize(("check", "given", "taken"), TAKEN)
def test_argument_is_taken(check, given, taken):
    found = check(given)
    assert found == taken
    assert type(found) is type(taken)


REFUSED = [
    (count, "3", "partitions is '3'; expected a whole number from 1 to 2147483647"),
    (count, 3.0, "partitions is 3.0 (float); expected a whole number"),
    (count, True, "partitions is True"),
    (count, None, "partitions is None"),
    (validation.replication_factor, "1", "replication_factor is '1'"),
    (validation.new_topic, 5, "the topic is 5; expected its name, a str"),
    (validation.new_topic, b"orders", "the topic is b'orders'"),
    (validation.topic, "", "the topic is ''; expected a text of 1 to 32767 characters"),
    (validation.topic, "\udc80", "expected a text that can be written as UTF-8"),
    (validation.group, 5, "the group is 5; expected a text"),
    (validation.group, "ü" * 16384, "…; expected a text of at most 32767 bytes in UTF-8; it has 32768"),
    (validation.transactional_id, "ü" * 16384, "…; expected a text of at most 32767 bytes in UTF-8; it has 32768"),
    (validation.group, "g" * 32768, "…; expected a text of 1 to 32767 characters"),
    (validation.transactional_id, ["x"], "the transactional id is ['x'] (list)"),
    (validation.configs, {"retention.ms": [1]}, "retention.ms is [1] (list); expected a text, a number or a bool"),
    (validation.configs, {"retention.ms": None}, "retention.ms is None"),
    (validation.configs, {5: "x"}, "a key of configs is 5"),
    (validation.configs, "retention.ms=5", "configs is 'retention.ms=5'; expected settings by their names"),
    (validation.config_changes, [("a", "b")], "the changes is [('a', 'b')] (list)"),
    (validation.node_or_machine, -1, "node is -1; expected a whole number from 0"),
    (validation.node_or_machine, 2.5, "node is 2.5 (float); expected the id of a node"),
    (validation.node_or_machine, None, "node is None"),
    (validation.partition, "orders-0", "a partition is 'orders-0'; expected a TopicPartition"),
    (validation.partition, TopicPartition("orders", "0"), "the partition of TopicPartition(topic='orders'"),
    (validation.partition, TopicPartition(5, 0), "the topic of TopicPartition(topic=5"),
    (validation.partition, TopicPartition("orders", 2**31), "expected a whole number from 0 to 2147483647"),
    (validation.offsets_to_delete, {ORDERS: "5"}, "the offsets of orders-0 is '5'"),
    (validation.offsets_to_delete, {ORDERS: 2**63}, "expected a whole number from -1 to 9223372036854775807"),
    (validation.offsets_to_delete, {ORDERS: -2}, "is -2"),
    (validation.offsets_to_delete, [ORDERS], "expected a mapping from TopicPartition"),
    (validation.timestamps_to_list, {ORDERS: 1.5}, "the timestamps of orders-0 is 1.5"),
    (validation.offsets_to_commit, {ORDERS: "5"}, "the offset of orders-0 is '5'"),
    (validation.offsets_to_commit, {ORDERS: -1}, "the offset of orders-0 is -1"),
    (validation.offsets_to_commit, {ORDERS: OffsetAndMetadata(5, 6)}, "the metadata of orders-0 is 6"),
    (validation.offsets_to_commit, {ORDERS: OffsetAndMetadata("5")}, "the offset of orders-0 is '5'"),
    (validation.consumer_group, None, "the group is None; expected a text"),
    (validation.consumer_group, ConsumerGroupMetadata(""), "the group is ''"),
    (validation.consumer_group, ConsumerGroupMetadata("a", "3"), "the generation of the group is '3'"),
    (validation.consumer_group, ConsumerGroupMetadata("a", 3, None), "the member id is None; expected a text"),
    (validation.consumer_group, ConsumerGroupMetadata("a", 3, "b", 7), "the group instance id is 7"),
    (validation.reassignments, {ORDERS: 5}, "the target of orders-0 is 5; expected ids of nodes"),
    (validation.reassignments, {ORDERS: ["a"]}, "a node of orders-0 is 'a'"),
    (validation.transaction_states, ["ongoing"], "a state is 'ongoing'; expected one of Empty, Ongoing, PrepareCommit"),
    (validation.transaction_states, "Ongoing", "states is 'Ongoing'; expected a sequence"),
    (validation.producer_ids, ["1"], "a producer id is '1'"),
    (validation.topics, "orders", "topics is 'orders'; expected a sequence of names"),
    (older_than, "1", "older_than_ms is '1'"),
]


@pytest.mark.parametrize(("check", "given", "said"), REFUSED)
def test_argument_of_a_wrong_type_is_refused(check, given, said):
    with pytest.raises(InvalidArgument) as raised:
        check(given)
    assert said in str(raised.value)
    assert isinstance(raised.value, RefusedError)
    assert isinstance(raised.value, EaglerayError)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, ValueError)


IMPOSSIBLE = [
    (count, 0, ErrorCode.INVALID_PARTITIONS, "partitions is 0; expected 1 to 2147483647, or -1 for"),
    (count, 99999999999999999999, ErrorCode.INVALID_PARTITIONS, "partitions is 99999999999999999999"),
    (validation.partition_count, -1, ErrorCode.INVALID_PARTITIONS, "partitions is -1; expected 1 to 2147483647."),
    (validation.replication_factor, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "replication_factor is 0"),
    (validation.replication_factor, 2**15, ErrorCode.INVALID_REPLICATION_FACTOR, "expected 1 to 32767"),
    (validation.new_topic, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "the name of a topic is empty"),
    (validation.new_topic, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name 'a b' has other characters"),
    (validation.new_topic, "..", ErrorCode.INVALID_TOPIC_EXCEPTION, "no topic can be named '..'"),
    (validation.new_topic, "x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION, "expected at most 249"),
]


@pytest.mark.parametrize(("check", "given", "error_code", "said"), IMPOSSIBLE)
def test_impossible_topic_is_refused_as_the_cluster_would(check, given, error_code, said):
    with pytest.raises(TopicRefused) as raised:
        check(given)
    assert raised.value.error_code is error_code
    assert said in str(raised.value)
