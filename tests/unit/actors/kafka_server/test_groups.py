"""ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups and OffsetDelete on the wire."""

import pytest

from eagleray.actors.kafka_server.operations import GROUP_OPERATIONS
from eagleray.broker.groups.classic.events import DescribeGroup
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat
from eagleray.broker.groups.events import DeleteGroup, DeleteOffsets, FetchOffsets, ListGroups
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from eagleray.protocol.messages.delete_groups import DeleteGroupsRequest
from eagleray.protocol.messages.describe_groups import DescribeGroupsRequest
from eagleray.protocol.messages.list_groups import ListGroupsRequest
from eagleray.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.cluster_in_memory import GROUPS, LEADER_A
from tests.support.lanes_in_memory import Fate

ORDERS = [TopicPartition("orders", number) for number in range(3)]


@pytest.fixture
def world(world, runner):
    """The groups audit and billing have offsets."""
    runner.run(commit_offsets(world))
    return world


async def commit_offsets(world):
    for group in ("audit", "billing"):
        for partition in ORDERS:
            await world.commit_offset(group, partition, 5)


async def offsets_of(world, group):
    reply = await world.ask_node_for(GROUPS, FetchOffsets, group)
    return {found.partition: found.offset for found in reply.offsets}


# ListGroups


def listed(world, version=5, node=GROUPS, **filters):
    return world.request(ListGroupsRequest(**filters), node=node, version=version)


@pytest.mark.parametrize("version", range(6))
async def test_groups_with_offsets_are_listed(world, version):
    response = await listed(world, version)
    assert response.error_code == ErrorCode.NONE
    assert [(group.group_id, group.protocol_type) for group in response.groups] == [("audit", ""), ("billing", "")]
    if version >= 4:
        assert {group.group_state for group in response.groups} == {"Empty"}
    if version >= 5:
        assert {group.group_type for group in response.groups} == {"classic"}


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"states_filter": ("empty",)}, 2),
        ({"states_filter": ("Stable", "Empty")}, 2),
        ({"states_filter": ("Stable",)}, 0),
        ({"types_filter": ("Classic",)}, 2),
        ({"types_filter": ("consumer",)}, 0),
        ({"states_filter": ("Empty",), "types_filter": ("consumer",)}, 0),
    ],
)
async def test_groups_have_to_pass_the_filters(world, filters, count):
    assert len((await listed(world, **filters)).groups) == count


async def test_node_without_groups_lists_none(world):
    response = await listed(world, node=LEADER_A)
    assert (response.error_code, response.groups) == (ErrorCode.NONE, ())


# DescribeGroups


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_empty_dead_or_not_found(version, world):
    request = DescribeGroupsRequest(("audit", "nobody", ""))
    response = await world.request(request, node=GROUPS, version=version)
    empty, dead, unnamed = response.groups
    assert (empty.error_code, empty.group_id, empty.group_state) == (ErrorCode.NONE, "audit", "Empty")
    assert not empty.members
    assert (dead.group_id, dead.group_state) == ("nobody", "Dead")
    assert dead.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert bool(dead.error_message) == (version >= 6)
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID


async def test_authorized_operations_of_a_group_are_told_where_they_are_asked_for(world):
    silent = await world.request(DescribeGroupsRequest(("audit",)), node=GROUPS)
    assert silent.groups[0].authorized_operations == -(2**31)
    asked = await world.request(DescribeGroupsRequest(("audit",), True), node=GROUPS)
    read, delete, describe = 3, 6, 8
    assert all(asked.groups[0].authorized_operations & 1 << operation for operation in (read, delete, describe))


# DeleteGroups


@pytest.mark.parametrize("version", range(4))
async def test_groups_are_deleted(version, world):
    request = DeleteGroupsRequest(("audit", "nobody", "audit"))
    response = await world.request(request, node=GROUPS, version=version)
    found = [(result.group_id, result.error_code) for result in response.results]
    assert found == [("audit", ErrorCode.NONE), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)]
    assert not await offsets_of(world, "audit")
    assert await offsets_of(world, "billing")


# OffsetDelete


def deletion(group, *topics):
    return OffsetDeleteRequest(
        group,
        tuple(
            OffsetDeleteRequestTopic(name, tuple(OffsetDeleteRequestPartition(number) for number in numbers))
            for name, numbers in topics
        ),
    )


async def test_offsets_are_deleted_of_partitions_that_exist(world):
    request = deletion("audit", ("orders", (0, 2, 9)), ("nothing", (0,)), ("invoices", (0,)))
    response = await world.request(request, node=GROUPS)
    assert response.error_code == ErrorCode.NONE
    found = [
        (topic.name, each.partition_index, each.error_code) for topic in response.topics for each in topic.partitions
    ]
    assert found == [
        ("orders", 0, ErrorCode.NONE),
        ("orders", 2, ErrorCode.NONE),
        ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nothing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("invoices", 0, ErrorCode.NONE),
    ]
    assert await offsets_of(world, "audit") == {ORDERS[1]: 5}


async def test_a_group_that_is_not_known_has_no_offsets_to_delete(world):
    response = await world.request(deletion("nobody", ("orders", (0,))), node=GROUPS)
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())


# A node that does not coordinate the group, or does not answer


REQUESTS = [
    (DescribeGroup, DescribeGroupsRequest(("audit",)), lambda response: response.groups[0]),
    (DeleteGroup, DeleteGroupsRequest(("audit",)), lambda response: response.results[0]),
    (DeleteOffsets, deletion("audit", ("orders", (0,))), lambda response: response),
]


@pytest.mark.parametrize(("kind", "request_", "part"), REQUESTS)
async def test_another_node_says_that_it_does_not_coordinate_the_group(kind, request_, part, world):
    response = await world.request(request_, node=LEADER_A)
    assert part(response).error_code == ErrorCode.NOT_COORDINATOR
    assert not world.asked(kind)


@pytest.mark.parametrize(
    ("kind", "request_", "part"),
    [*REQUESTS, (ListGroups, ListGroupsRequest(), lambda response: response)],
)
async def test_a_coordinator_that_does_not_answer_is_not_available(kind, request_, part, world):
    world.network.plan(kind, Fate.REQUEST_LOST)
    response = await world.request(request_, node=GROUPS)
    assert part(response).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ConsumerGroupDescribe


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("wants_operations", [False, True])
async def test_consumer_groups_are_described(world, version, wants_operations):
    joined = await world.ask_node_for(
        GROUPS, ConsumerHeartbeat, "audit", "m", 0, None, "rack", 60_000, ("orders",), None, "range", (), "c", "/h"
    )
    assert joined.error_code is ErrorCode.NONE
    request = ConsumerGroupDescribeRequest(("audit", "billing", ""), wants_operations)
    response = await world.request(request, node=GROUPS, version=version)
    found, classic, unnamed = response.groups
    assert (found.group_id, found.group_state, found.group_epoch, found.assignor_name) == (
        "audit",
        "Stable",
        1,
        "range",
    )
    assert (found.authorized_operations == GROUP_OPERATIONS) is wants_operations
    (member,) = found.members
    assert (member.member_id, member.rack_id, member.client_id, member.client_host) == ("m", "rack", "c", "/h")
    (part,) = member.assignment.topic_partitions
    assert (part.topic_id, part.topic_name, part.partitions) == (world.image.topic_id("orders"), "orders", (0, 1, 2))
    assert member.target_assignment == member.assignment
    assert member.member_type == (1 if version else -1)
    assert (classic.group_id, classic.error_code) == ("billing", ErrorCode.GROUP_ID_NOT_FOUND)
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID


async def test_node_without_groups_describes_none(world):
    request = ConsumerGroupDescribeRequest(("audit",))
    (group,) = (await world.request(request, node=LEADER_A)).groups
    assert (group.group_id, group.error_code) == ("audit", ErrorCode.NOT_COORDINATOR)
    assert group.error_message
