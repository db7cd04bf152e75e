"""CreateTopics on the wire."""

import pytest

from eagleray.broker.controller.events import CreateTopics
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.support.cluster_in_memory import CONTROLLER, LEADER_A, LEADER_B, TWO_MACHINES, entered
from tests.support.kafka_requests import KafkaCluster
from tests.support.lanes_in_memory import Fate

pytestmark = pytest.mark.usefixtures("virtual_time")


def a_topic(name="new", partitions=-1, factor=-1, *, assignments=(), **configs):
    settings = tuple(CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items())
    placed = tuple(CreatableReplicaAssignment(number, brokers) for number, brokers in assignments)
    return CreatableTopic(name, partitions, factor, placed, settings)


async def create(*topics, version=-1, machines=None, **options):
    """Ask for topics; return the results by name, and the image that they have led to."""
    async with entered(KafkaCluster, machines=machines) as world:
        request = CreateTopicsRequest(tuple(topics), **options)
        response = await world.request(request, version=version)
        return {result.name: result for result in response.topics}, world.image


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_in_every_version(version):
    results, image = await create(a_topic("new", 3, 1, retention_ms="1000"), version=version)
    assert results["new"].error_code == ErrorCode.NONE
    assert results["new"].error_message is None
    assert len(image.topics["new"].partitions) == 3
    assert image.topics["new"].configs == {"retention.ms": "1000"}


async def test_the_answer_tells_the_id_the_numbers_and_every_setting():
    results, image = await create(a_topic("new", retention_ms="1000"))
    result = results["new"]
    assert result.topic_id == image.topics["new"].topic_id
    assert (result.num_partitions, result.replication_factor) == (1, 1)
    sources = {config.name: (config.value, config.config_source) for config in result.configs}
    assert sources["retention.ms"] == ("1000", 1)
    assert sources["cleanup.policy"] == ("delete", 5)


async def test_each_topic_is_created_or_refused_on_its_own():
    results, image = await create(
        a_topic("fine"),
        a_topic("orders"),
        a_topic("a/b"),
        a_topic("none", 0),
        a_topic("copies", 1, 3),
        a_topic("wrong", retention_ms="soon"),
        a_topic("null", retention_ms=None),
        a_topic("twice"),
        a_topic("twice"),
    )
    assert {name: ErrorCode(result.error_code) for name, result in results.items()} == {
        "fine": ErrorCode.NONE,
        "orders": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "none": ErrorCode.INVALID_PARTITIONS,
        "copies": ErrorCode.INVALID_REPLICATION_FACTOR,
        "wrong": ErrorCode.INVALID_CONFIG,
        "null": ErrorCode.INVALID_CONFIG,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert all(result.error_message for name, result in results.items() if name != "fine")
    assert "fine" in image.topics
    assert "twice" not in image.topics


async def test_partitions_are_put_where_the_client_wants_them():
    results, image = await create(a_topic(assignments=[(1, (LEADER_A,)), (0, (LEADER_B,))]))
    assert results["new"].num_partitions == 2
    assert image.leader_of(TopicPartition("new", 0)) == LEADER_B
    assert image.leader_of(TopicPartition("new", 1)) == LEADER_A


@pytest.mark.parametrize(
    "assignments",
    [[(1, (LEADER_A,))], [(0, (LEADER_A,)), (0, (LEADER_B,))], [(0, (LEADER_A, LEADER_B))], [(0, (99,))]],
)
async def test_assignments_that_cannot_be_are_refused(assignments):
    results, image = await create(a_topic(assignments=assignments))
    assert results["new"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "new" not in image.topics


async def test_a_topic_that_is_only_validated_is_not_created():
    results, image = await create(a_topic("new", 2), a_topic("orders"), validate_only=True)
    assert results["new"].error_code == ErrorCode.NONE
    assert results["new"].num_partitions == 2
    assert results["new"].topic_id == bytes(16)
    assert results["orders"].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "new" not in image.topics


@pytest.mark.parametrize("validate_only", [True, False])
async def test_replicas_are_on_machines_of_their_own(validate_only):
    topics = (
        a_topic("two", 3, 2),
        a_topic("chosen", assignments=[(0, (LEADER_B, LEADER_A))]),
        a_topic("uneven", assignments=[(0, (LEADER_B, LEADER_A)), (1, (LEADER_A,))]),
        a_topic("three", 1, 3),
        a_topic("default", 1),
    )
    results, image = await create(*topics, machines=TWO_MACHINES, validate_only=validate_only)
    factors = {name: result.replication_factor for name, result in results.items()}
    assert factors == {"two": 2, "chosen": 2, "uneven": -1, "three": -1, "default": 1}
    assert results["three"].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert results["uneven"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not validate_only:
        assert {frozenset(each.replicas) for each in image.topics["two"].partitions} == {
            frozenset((LEADER_A, LEADER_B))
        }
        assert image.topics["chosen"].partitions[0].replicas == (LEADER_B, LEADER_A)


async def test_settings_of_the_cluster_are_told_as_such():
    async with entered(KafkaCluster, settings={"retention.ms": "77"}) as world:
        response = await world.request(CreateTopicsRequest((a_topic(),)))
    sources = {config.name: (config.value, config.config_source) for config in response.topics[0].configs}
    assert sources["retention.ms"] == ("77", 4)


async def test_a_controller_that_does_not_answer_is_a_timeout(world):
    world.network.plan(CreateTopics, Fate.REPLY_LOST)
    response = await world.request(CreateTopicsRequest((a_topic(), a_topic("n", config=None))))
    assert [topic.error_code for topic in response.topics] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_CONFIG,
    ]
    assert "new" in world.image.topics


async def test_no_longer_is_waited_than_the_client_allows(world):
    world.kill(CONTROLLER)
    began = world.seconds
    response = await world.request(CreateTopicsRequest((a_topic(),), timeout_ms=20))
    assert response.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert world.seconds - began == pytest.approx(0.02)
    world.start(CONTROLLER)
