"""DeleteTopics and CreatePartitions on the wire."""

import pytest

from eagleray.broker.controller.events import DeleteTopics, GrowTopic
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from eagleray.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.cluster_in_memory import LEADER_B
from tests.support.lanes_in_memory import Fate

# DeleteTopics


@pytest.mark.parametrize("version", range(1, 6))
async def test_topics_are_deleted_by_name(version, world):
    request = DeleteTopicsRequest(topic_names=("orders", "nothing"), timeout_ms=1000)
    response = await world.request(request, version=version)
    outcomes = [(result.name, result.error_code) for result in response.responses]
    assert outcomes == [("orders", ErrorCode.NONE), ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert "orders" not in world.image.topics


async def test_topics_are_deleted_by_id_or_name(world):
    orders, invoices = (world.image.topic_id(name) for name in ("orders", "invoices"))
    wanted = (DeleteTopicState(None, orders), DeleteTopicState("invoices"))
    response = await world.request(DeleteTopicsRequest(wanted))
    outcomes = [(result.name, result.topic_id, result.error_code) for result in response.responses]
    assert outcomes == [("orders", orders, ErrorCode.NONE), ("invoices", invoices, ErrorCode.NONE)]
    assert all(topic.is_internal for topic in world.image.topics.values())


async def test_topic_that_cannot_be_deleted_is_refused_beside_one_that_can(world):
    orders = world.image.topic_id("orders")
    wanted = (
        DeleteTopicState(None, b"\x09" * 16),
        DeleteTopicState(None),
        DeleteTopicState("orders", orders),
        DeleteTopicState("__consumer_offsets"),
        DeleteTopicState("invoices"),
    )
    response = await world.request(DeleteTopicsRequest(wanted))
    assert [ErrorCode(result.error_code) for result in response.responses] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    assert response.responses[0].topic_id == b"\x09" * 16
    assert "orders" in world.image.topics


async def test_a_topic_named_by_name_and_by_id_is_refused_once(world):
    wanted = (DeleteTopicState("orders"), DeleteTopicState(None, world.image.topic_id("orders")))
    response = await world.request(DeleteTopicsRequest(wanted))
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST]
    assert "orders" in world.image.topics


async def test_a_deletion_without_an_answer_is_a_timeout(world):
    world.network.plan(DeleteTopics, Fate.REQUEST_LOST)
    response = await world.request(DeleteTopicsRequest((DeleteTopicState("orders"),)))
    assert response.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


# CreatePartitions


def count(world, name):
    return len(world.image.topics[name].partitions)


@pytest.mark.parametrize("version", range(4))
async def test_topics_grow(version, world):
    topics = (CreatePartitionsTopic("orders", 5, None), CreatePartitionsTopic("invoices", 2, None))
    response = await world.request(CreatePartitionsRequest(topics), version=version)
    outcomes = [(result.name, result.error_code) for result in response.results]
    assert outcomes == [("orders", ErrorCode.NONE), ("invoices", ErrorCode.INVALID_PARTITIONS)]
    assert response.results[0].error_message is None
    assert response.results[1].error_message
    assert (count(world, "orders"), count(world, "invoices")) == (5, 2)


async def test_new_partitions_go_where_the_client_wants_them(world):
    assignments = (CreatePartitionsAssignment((LEADER_B,)),) * 2
    topics = (CreatePartitionsTopic("orders", 5, assignments), CreatePartitionsTopic("invoices", 5, assignments))
    response = await world.request(CreatePartitionsRequest(topics))
    codes = [result.error_code for result in response.results]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert [world.image.leader_of(TopicPartition("orders", number)) for number in (3, 4)] == [LEADER_B] * 2


async def test_growth_that_is_only_validated_changes_nothing(world):
    topics = (CreatePartitionsTopic("orders", 5, None), CreatePartitionsTopic("nothing", 5, None))
    response = await world.request(CreatePartitionsRequest(topics, validate_only=True))
    codes = [result.error_code for result in response.results]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert count(world, "orders") == 3


async def test_a_topic_that_is_to_grow_twice_does_not(world):
    topics = tuple(CreatePartitionsTopic("orders", number, None) for number in (5, 6))
    response = await world.request(CreatePartitionsRequest(topics))
    assert [result.error_code for result in response.results] == [ErrorCode.INVALID_REQUEST]
    assert count(world, "orders") == 3


async def test_growth_without_an_answer_is_a_timeout(world):
    world.network.plan(GrowTopic, Fate.REPLY_LOST)
    request = CreatePartitionsRequest((CreatePartitionsTopic("orders", 5, None),), timeout_ms=1000)
    response = await world.request(request)
    assert response.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT
