"""DeleteTopics and CreatePartitions on the wire."""

import pytest

from eagleray.actors.wire.handlers import create_partitions, delete_topics
from eagleray.broker.controller.events import DeleteTopics, GrowTopic
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from eagleray.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.client_world import LEADER_B, Fate
from tests.support.wire_calls import in_wire_world

# DeleteTopics


@pytest.mark.parametrize("version", range(1, 6))
def test_topics_are_deleted_by_name(version):
    async def main(world):
        request = DeleteTopicsRequest(topic_names=("orders", "nothing"), timeout_ms=1000)
        response = await world.request(delete_topics, request, version=version)
        outcomes = [(result.name, result.error_code) for result in response.responses]
        assert outcomes == [("orders", ErrorCode.NONE), ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert "orders" not in world.image.topics

    in_wire_world(main)


def test_topics_are_deleted_by_id_or_name():
    async def main(world):
        orders, invoices = (world.image.topic_id(name) for name in ("orders", "invoices"))
        wanted = (DeleteTopicState(None, orders), DeleteTopicState("invoices"))
        response = await world.request(delete_topics, DeleteTopicsRequest(wanted))
        outcomes = [(result.name, result.topic_id, result.error_code) for result in response.responses]
        assert outcomes == [("orders", orders, ErrorCode.NONE), ("invoices", invoices, ErrorCode.NONE)]
        assert all(topic.is_internal for topic in world.image.topics.values())

    in_wire_world(main)


def test_what_cannot_be_deleted_is_refused_beside_what_can():
    async def main(world):
        orders = world.image.topic_id("orders")
        wanted = (
            DeleteTopicState(None, b"\x09" * 16),
            DeleteTopicState(None),
            DeleteTopicState("orders", orders),
            DeleteTopicState("__consumer_offsets"),
            DeleteTopicState("invoices"),
        )
        response = await world.request(delete_topics, DeleteTopicsRequest(wanted))
        assert [ErrorCode(result.error_code) for result in response.responses] == [
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
        ]
        assert response.responses[0].topic_id == b"\x09" * 16
        assert "orders" in world.image.topics

    in_wire_world(main)


def test_a_topic_named_by_name_and_by_id_is_refused_once():
    async def main(world):
        wanted = (DeleteTopicState("orders"), DeleteTopicState(None, world.image.topic_id("orders")))
        response = await world.request(delete_topics, DeleteTopicsRequest(wanted))
        assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST]
        assert "orders" in world.image.topics

    in_wire_world(main)


def test_a_deletion_without_an_answer_is_a_timeout():
    async def main(world):
        world.network.plan(DeleteTopics, Fate.REQUEST_LOST)
        response = await world.request(delete_topics, DeleteTopicsRequest((DeleteTopicState("orders"),)))
        assert response.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    in_wire_world(main)


# CreatePartitions


def count(world, name):
    return len(world.image.topics[name].partitions)


@pytest.mark.parametrize("version", range(4))
def test_topics_grow(version):
    async def main(world):
        topics = (CreatePartitionsTopic("orders", 5, None), CreatePartitionsTopic("invoices", 2, None))
        response = await world.request(create_partitions, CreatePartitionsRequest(topics), version=version)
        outcomes = [(result.name, result.error_code) for result in response.results]
        assert outcomes == [("orders", ErrorCode.NONE), ("invoices", ErrorCode.INVALID_PARTITIONS)]
        assert response.results[0].error_message is None
        assert response.results[1].error_message
        assert (count(world, "orders"), count(world, "invoices")) == (5, 2)

    in_wire_world(main)


def test_new_partitions_go_where_the_client_wants_them():
    async def main(world):
        assignments = (CreatePartitionsAssignment((LEADER_B,)),) * 2
        topics = (CreatePartitionsTopic("orders", 5, assignments), CreatePartitionsTopic("invoices", 5, assignments))
        response = await world.request(create_partitions, CreatePartitionsRequest(topics))
        codes = [result.error_code for result in response.results]
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert [world.image.leader_of(TopicPartition("orders", number)) for number in (3, 4)] == [LEADER_B] * 2

    in_wire_world(main)


def test_growth_that_is_only_validated_changes_nothing():
    async def main(world):
        topics = (CreatePartitionsTopic("orders", 5, None), CreatePartitionsTopic("nothing", 5, None))
        response = await world.request(create_partitions, CreatePartitionsRequest(topics, validate_only=True))
        codes = [result.error_code for result in response.results]
        assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert count(world, "orders") == 3

    in_wire_world(main)


def test_a_topic_that_is_to_grow_twice_does_not():
    async def main(world):
        topics = tuple(CreatePartitionsTopic("orders", number, None) for number in (5, 6))
        response = await world.request(create_partitions, CreatePartitionsRequest(topics))
        assert [result.error_code for result in response.results] == [ErrorCode.INVALID_REQUEST]
        assert count(world, "orders") == 3

    in_wire_world(main)


def test_growth_without_an_answer_is_a_timeout():
    async def main(world):
        world.network.plan(GrowTopic, Fate.REPLY_LOST)
        request = CreatePartitionsRequest((CreatePartitionsTopic("orders", 5, None),), timeout_ms=1000)
        response = await world.request(create_partitions, request)
        assert response.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT

    in_wire_world(main)
