"""ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups and OffsetDelete on the wire."""

import pytest

from eagleray.actors.wire.handlers import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    list_groups,
    offset_delete,
)
from eagleray.actors.wire.operations import GROUP_OPERATIONS
from eagleray.broker.groups.classic.events import DescribeGroup
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat, TopicsKnown
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
from tests.support.client_world import GROUPS, LEADER_A, Fate
from tests.support.wire_calls import in_wire_world

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def with_groups(main):
    """Run where the groups audit and billing have offsets."""

    async def run(world):
        for group in ("audit", "billing"):
            for partition in ORDERS:
                await world.commit_offset(group, partition, 5)
        return await main(world)

    return in_wire_world(run)


async def offsets_of(world, group):
    reply = await world.ask_node_for(GROUPS, FetchOffsets, group)
    return {found.partition: found.offset for found in reply.offsets}


# ListGroups


def listed(version=5, node=GROUPS, **filters):
    async def main(world):
        return await world.request(list_groups, ListGroupsRequest(**filters), node=node, version=version)

    return with_groups(main)


@pytest.mark.parametrize("version", range(6))
def test_groups_with_offsets_are_listed(version):
    response = listed(version)
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
def test_groups_have_to_pass_the_filters(filters, count):
    assert len(listed(**filters).groups) == count


def test_who_coordinates_no_groups_lists_none():
    response = listed(node=LEADER_A)
    assert (response.error_code, response.groups) == (ErrorCode.NONE, ())


# DescribeGroups


@pytest.mark.parametrize("version", range(7))
def test_groups_are_empty_dead_or_not_found(version):
    async def main(world):
        request = DescribeGroupsRequest(("audit", "nobody", ""))
        response = await world.request(describe_groups, request, node=GROUPS, version=version)
        empty, dead, unnamed = response.groups
        assert (empty.error_code, empty.group_id, empty.group_state) == (ErrorCode.NONE, "audit", "Empty")
        assert not empty.members
        assert (dead.group_id, dead.group_state) == ("nobody", "Dead")
        assert dead.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
        assert bool(dead.error_message) == (version >= 6)
        assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID

    with_groups(main)


def test_what_may_be_done_with_a_group_is_told_where_it_is_asked_for():
    async def main(world):
        silent = await world.request(describe_groups, DescribeGroupsRequest(("audit",)), node=GROUPS)
        asked = await world.request(describe_groups, DescribeGroupsRequest(("audit",), True), node=GROUPS)
        return silent.groups[0].authorized_operations, asked.groups[0].authorized_operations

    silent, asked = with_groups(main)
    assert silent == -(2**31)
    read, delete, describe = 3, 6, 8
    assert all(asked & 1 << operation for operation in (read, delete, describe))


# DeleteGroups


@pytest.mark.parametrize("version", range(4))
def test_groups_are_deleted(version):
    async def main(world):
        request = DeleteGroupsRequest(("audit", "nobody", "audit"))
        response = await world.request(delete_groups, request, node=GROUPS, version=version)
        found = [(result.group_id, result.error_code) for result in response.results]
        assert found == [("audit", ErrorCode.NONE), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)]
        assert not await offsets_of(world, "audit")
        assert await offsets_of(world, "billing")

    with_groups(main)


# OffsetDelete


def deletion(group, *topics):
    return OffsetDeleteRequest(
        group,
        tuple(
            OffsetDeleteRequestTopic(name, tuple(OffsetDeleteRequestPartition(number) for number in numbers))
            for name, numbers in topics
        ),
    )


def test_offsets_are_deleted_of_partitions_that_exist():
    async def main(world):
        request = deletion("audit", ("orders", (0, 2, 9)), ("nothing", (0,)), ("invoices", (0,)))
        response = await world.request(offset_delete, request, node=GROUPS)
        assert response.error_code == ErrorCode.NONE
        found = [
            (topic.name, each.partition_index, each.error_code)
            for topic in response.topics
            for each in topic.partitions
        ]
        assert found == [
            ("orders", 0, ErrorCode.NONE),
            ("orders", 2, ErrorCode.NONE),
            ("orders", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("nothing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("invoices", 0, ErrorCode.NONE),
        ]
        assert await offsets_of(world, "audit") == {ORDERS[1]: 5}

    with_groups(main)


def test_a_group_that_is_not_known_has_no_offsets_to_delete():
    async def main(world):
        response = await world.request(offset_delete, deletion("nobody", ("orders", (0,))), node=GROUPS)
        assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, ())

    with_groups(main)


# A node that does not coordinate the group, or does not answer


REQUESTS = [
    (describe_groups, DescribeGroup, DescribeGroupsRequest(("audit",)), lambda response: response.groups[0]),
    (delete_groups, DeleteGroup, DeleteGroupsRequest(("audit",)), lambda response: response.results[0]),
    (offset_delete, DeleteOffsets, deletion("audit", ("orders", (0,))), lambda response: response),
]


@pytest.mark.parametrize(("handler", "kind", "request_", "part"), REQUESTS)
def test_another_node_says_that_it_does_not_coordinate_the_group(handler, kind, request_, part):
    async def main(world):
        response = await world.request(handler, request_, node=LEADER_A)
        assert part(response).error_code == ErrorCode.NOT_COORDINATOR
        assert not world.asked(kind)

    with_groups(main)


@pytest.mark.parametrize(
    ("handler", "kind", "request_", "part"),
    [*REQUESTS, (list_groups, ListGroups, ListGroupsRequest(), lambda response: response)],
)
def test_a_coordinator_that_does_not_answer_is_not_available(handler, kind, request_, part):
    async def main(world):
        world.network.plan(kind, Fate.REQUEST_LOST)
        response = await world.request(handler, request_, node=GROUPS)
        assert part(response).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_groups(main)


# ConsumerGroupDescribe


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("wants_operations", [False, True])
def test_consumer_groups_are_described(version, wants_operations):
    async def main(world):
        world.nodes[GROUPS].handle(TopicsKnown({"orders": (b"o" * 16, 3)}, 1))
        joined = await world.ask_node_for(
            GROUPS, ConsumerHeartbeat, "audit", "m", 0, None, "rack", 60_000, ("orders",), None, "range", (), "c", "/h"
        )
        assert joined.error_code is ErrorCode.NONE
        request = ConsumerGroupDescribeRequest(("audit", "billing", ""), wants_operations)
        return await world.request(consumer_group_describe, request, node=GROUPS, version=version)

    found, classic, unnamed = with_groups(main).groups
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
    assert (part.topic_id, part.topic_name, part.partitions) == (b"o" * 16, "orders", (0, 1, 2))
    assert member.target_assignment == member.assignment
    assert member.member_type == (1 if version else -1)
    assert (classic.group_id, classic.error_code) == ("billing", ErrorCode.GROUP_ID_NOT_FOUND)
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID


def test_who_coordinates_no_groups_describes_none():
    async def main(world):
        return await world.request(consumer_group_describe, ConsumerGroupDescribeRequest(("audit",)), node=LEADER_A)

    (group,) = with_groups(main).groups
    assert (group.group_id, group.error_code) == ("audit", ErrorCode.NOT_COORDINATOR)
    assert group.error_message
