"""Members of groups at real nodes with real listeners and disks, in one process and without Ray."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from eagleray.broker.groups.classic.events import (
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberAssignment,
    SyncGroup,
)
from eagleray.broker.groups.events import CommitOffsets, FetchOffsets, ListGroups, OffsetToCommit
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.protocol.errors import ErrorCode
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster
from tests.support.classic_groups import reads

LAYOUTS = {"separate": SEPARATE, "colocated": COLOCATED}
GROUP = "billing"
ORDERS = TopicPartition("orders", 0)
SESSION_MS = 6000
WAITING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}


@pytest.fixture(params=[*LAYOUTS])
def layout(request):
    return LAYOUTS[request.param]


class Coordinator:
    """Whoever coordinates the group, found and asked as a client does it."""

    def __init__(self, nodes: LocalCluster) -> None:
        self._nodes = nodes

    @property
    def node_id(self) -> int:
        topic = self._nodes.nodes[0].image.topics[CONSUMER_OFFSETS]
        return topic.partitions[partition_for_name(GROUP, len(topic.partitions))].leader

    async def ask(self, message, *fields):
        """Ask until the coordinator has loaded its log."""
        while True:
            answer = await self._nodes.peers.call(self.node_id, message, *fields)
            if answer.error_code not in WAITING:
                return answer
            await asyncio.sleep(0.02)

    async def join(self, member_id, protocols=None):
        wish = protocols or reads("orders")
        return await self.ask(JoinGroup, GROUP, member_id, "consumer", wish, SESSION_MS, 10_000, None, "c", "/h")

    async def come(self):
        """Join as somebody new."""
        answer = await self.join("")
        assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id, asyncio.ensure_future(self.join(answer.member_id))

    async def sync(self, joined, **assignments):
        given = tuple(MemberAssignment(*entry) for entry in assignments.get("given", {}).items())
        return await self.ask(SyncGroup, GROUP, joined.generation, joined.member_id, None, None, None, given)

    async def beat(self, joined):
        return (await self.ask(Heartbeat, GROUP, joined.generation, joined.member_id)).error_code


@asynccontextmanager
async def running(tmp_path, layout, **settings):
    async with LocalCluster(tmp_path, layout, settings) as nodes, asyncio.timeout(60):
        yield nodes, Coordinator(nodes)


async def two_members(coordinator):
    """A generation with two members, the leader first, both with an assignment."""
    first_id, first = await coordinator.come()
    await first
    _, second = await coordinator.come()
    leader, follower = await asyncio.gather(coordinator.join(first_id), second)
    assert leader.generation == follower.generation
    given = {leader.member_id: b"even", follower.member_id: b"odd"}
    answers = await asyncio.gather(coordinator.sync(follower), coordinator.sync(leader, given=given))
    assert [answer.assignment for answer in answers] == [b"odd", b"even"]
    return leader, follower


async def test_two_members_join_and_sync_and_commit(tmp_path, layout):
    async with running(tmp_path, layout) as (_, coordinator):
        leader, follower = await two_members(coordinator)
        assert leader.leader == follower.leader == leader.member_id
        assert {member.member_id for member in leader.members} == {leader.member_id, follower.member_id}
        offsets = (OffsetToCommit(ORDERS, 7),)
        by_member = (leader.generation, follower.member_id)
        assert (await coordinator.ask(CommitOffsets, GROUP, offsets, *by_member)).error_code is ErrorCode.NONE
        refused = await coordinator.ask(CommitOffsets, GROUP, offsets)
        assert refused.error_code is ErrorCode.UNKNOWN_MEMBER_ID
        listed = await coordinator.ask(ListGroups, ("Stable",))
        assert [group.name for group in listed.groups] == [GROUP]

        left = await coordinator.ask(LeaveGroup, GROUP, (LeavingMember(follower.member_id),))
        assert left.members[0].error_code is ErrorCode.NONE
        assert await coordinator.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
        assert (await coordinator.join(leader.member_id)).generation == leader.generation + 1


async def test_members_are_known_to_a_coordinator_that_is_started_again(tmp_path, layout):
    async with running(tmp_path, layout) as (nodes, coordinator):
        leader, follower = await two_members(coordinator)
        node_id = coordinator.node_id
        assert node_id != 0, "the controller's node is not restarted here"
        await nodes.stop_node(node_id)
        await nodes.start_node(node_id)
        await nodes.until_registered()

        assert await coordinator.beat(leader) is ErrorCode.NONE
        described = await coordinator.ask(DescribeGroup, GROUP)
        assert described.state == "Stable"
        assert {member.member_id: member.assignment for member in described.members} == {
            leader.member_id: b"even",
            follower.member_id: b"odd",
        }
        assert (await coordinator.sync(follower)).assignment == b"odd"


async def test_a_member_that_falls_silent_is_given_up_by_the_clock(tmp_path):
    settings = {"group.min.session.timeout.ms": "100"}
    async with running(tmp_path, SEPARATE, **settings) as (_, coordinator):
        joined = await coordinator.ask(
            JoinGroup, GROUP, "", "consumer", reads("orders"), 300, 1000, None, "c", "/h", False
        )
        assert joined.error_code is ErrorCode.NONE
        while (await coordinator.ask(DescribeGroup, GROUP)).members:
            await asyncio.sleep(0.05)
        assert await coordinator.beat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
        fetched = await coordinator.ask(FetchOffsets, GROUP)
        assert fetched.error_code is ErrorCode.NONE
