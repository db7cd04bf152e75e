"""DescribeCluster and DescribeTopicPartitions on the wire."""

import msgspec
import pytest

from eagleray.broker.controller.events import PlanNodes
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_cluster import DescribeClusterRequest
from eagleray.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.support.cluster_in_memory import CONTROLLER, COORDINATOR, GROUPS, LAYOUT, LEADER_A, LEADER_B

# DescribeCluster


@pytest.mark.parametrize("version", range(3))
async def test_the_brokers_are_those_that_own_data(version, world):
    response = await world.request(DescribeClusterRequest(), version=version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert response.cluster_id == world.image.cluster_id != ""
    assert response.controller_id == LEADER_A
    found = {broker.broker_id: (broker.host, broker.port) for broker in response.brokers}
    assert found == {number: ("localhost", 9000 + number) for number in (COORDINATOR, GROUPS, LEADER_A, LEADER_B)}
    assert response.cluster_authorized_operations == -(2**31)


async def test_authorized_operations_are_answered_where_they_are_asked_for(world):
    response = await world.request(DescribeClusterRequest(True))
    create, alter, idempotent_write = 5, 7, 12
    operations = response.cluster_authorized_operations
    assert all(operations & 1 << operation for operation in (create, alter, idempotent_write))


async def test_a_machine_is_a_rack(world_of_two_hosts):
    response = await world_of_two_hosts.request(DescribeClusterRequest())
    racks = {broker.broker_id: broker.rack for broker in response.brokers}
    assert (racks[LEADER_A], racks[LEADER_B]) == ("first", "second")


@pytest.mark.parametrize(
    ("endpoint_type", "error_code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_controllers_are_to_be_found_elsewhere(endpoint_type, error_code, world):
    response = await world.request(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert response.error_code == error_code
    assert response.error_message
    assert not response.brokers


# DescribeTopicPartitions


def page(response):
    """What a page has, and where the next begins."""
    partitions = [
        (topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics
    ]
    cursor = response.next_cursor
    return partitions, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def asked(*names, limit=2000, cursor=None):
    return DescribeTopicPartitionsRequest(tuple(map(TopicRequest, names)), limit, cursor)


async def test_partitions_are_described_with_leaders_and_replicas(world):
    response = await world.request(asked("orders"))
    (topic,) = response.topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, world.image.topic_id("orders"))
    assert not topic.is_internal
    assert topic.topic_authorized_operations > 0
    for number, partition in enumerate(topic.partitions):
        image = world.image.find(TopicPartition("orders", number))
        assert (partition.error_code, partition.partition_index) == (ErrorCode.NONE, number)
        assert (partition.leader_id, partition.leader_epoch) == (image.leader, image.leader_epoch)
        assert partition.replica_nodes == partition.isr_nodes == (image.leader,)
        assert partition.offline_replicas == ()
    assert response.next_cursor is None


async def test_all_topics_come_in_the_order_of_their_names(world):
    response = await world.request(asked())
    names = [topic.name for topic in response.topics]
    assert names == ["__consumer_offsets", "__transaction_state", "invoices", "orders"]
    assert [topic.is_internal for topic in response.topics] == [True, True, False, False]


async def test_pages_follow_one_another_until_all_is_told(world):
    first = await world.request(asked("orders", "invoices", limit=2))
    assert page(first) == ([("invoices", [0, 1])], ("orders", 0))
    second = asked("orders", "invoices", limit=2, cursor=first.next_cursor)
    second = await world.request(second)
    assert page(second) == ([("orders", [0, 1])], ("orders", 2))
    third = asked("orders", "invoices", limit=2, cursor=second.next_cursor)
    assert page(await world.request(third)) == ([("orders", [2])], None)


@pytest.mark.parametrize("limit", [0, -5])
async def test_a_page_has_a_partition_at_least(limit, world):
    response = await world.request(asked("orders", limit=limit))
    assert page(response) == ([("orders", [0])], ("orders", 1))


async def test_a_page_has_no_more_than_two_thousand_partitions(world):
    orders = world.image.topics["orders"]
    large = msgspec.structs.replace(orders, partitions=orders.partitions[:1] * 2001)
    world.nodes[LEADER_A].image = msgspec.structs.replace(world.image, topics={"orders": large})
    response = await world.request(asked("orders", limit=10_000))
    assert response.next_cursor == Cursor("orders", 2000)
    assert len(response.topics[0].partitions) == 2000


async def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(world):
    response = await world.request(asked(cursor=Cursor("invoices", 7)))
    assert page(response) == ([("invoices", []), ("orders", [0, 1, 2])], None)


async def test_topics_that_do_not_exist_are_told_beside_those_that_do(world):
    response = await world.request(asked("orders", "nothing", "a/b"))
    assert {topic.name: ErrorCode(topic.error_code) for topic in response.topics} == {
        "orders": ErrorCode.NONE,
        "nothing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


@pytest.mark.parametrize("cursor", [Cursor("invoices", 0), Cursor("orders", -1)])
async def test_a_cursor_that_points_nowhere_is_refused(cursor, world):
    response = await world.request(asked("orders", cursor=cursor))
    assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}


async def test_a_partition_whose_leader_has_not_come_yet_is_told_without_one(world):
    plan = tuple(PlannedNode(*planned) for planned in LAYOUT.items() if planned[0] != LEADER_B)
    newcomer = PlannedNode(9, ("leader",))
    await world.ask_node_for(CONTROLLER, PlanNodes, (*plan, newcomer))
    response = await world.request(asked("orders"))
    away = [partition for partition in response.topics[0].partitions if partition.replica_nodes == (9,)]
    assert away
    for partition in away:
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert partition.offline_replicas == (9,)
