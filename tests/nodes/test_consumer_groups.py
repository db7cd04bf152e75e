"""Members of KIP-848 groups at real nodes with real listeners and disks, by Kafka's protocol and without Ray."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from eagleray.broker.hashing import partition_for_name
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from eagleray.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from eagleray.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from eagleray.protocol.messages.list_groups import ListGroupsRequest
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from eagleray.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eagleray.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster
from tests.support.wire import WireClient

LAYOUTS = {"separate": SEPARATE, "colocated": COLOCATED}
GROUP = "billing"
TOPIC = "orders"
NONE = ErrorCode.NONE
WAITING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.fixture(params=[*LAYOUTS])
def layout(request):
    return LAYOUTS[request.param]


class Group:
    """A group whose coordinator is found and asked as clients do it."""

    def __init__(self, nodes):
        self.nodes = nodes

    @property
    def coordinator_id(self):
        topic = self.nodes.nodes[0].image.topics[CONSUMER_OFFSETS]
        return topic.partitions[partition_for_name(GROUP, len(topic.partitions))].leader

    async def ask(self, request, version):
        async with await WireClient.connect(self.nodes.nodes[self.coordinator_id]) as client:
            return await client.ask(request, version)

    async def create_topic(self, partitions):
        topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
        answer = await self.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7)
        assert answer.topics[0].error_code == NONE, answer
        self.topic_id = answer.topics[0].topic_id

    async def grow_topic(self, partitions):
        request = CreatePartitionsRequest((CreatePartitionsTopic(TOPIC, partitions, None),), 10_000)
        assert (await self.ask(request, 3)).results[0].error_code == NONE

    async def described(self):
        answer = await self.ask(ConsumerGroupDescribeRequest((GROUP,)), 1)
        return answer.groups[0]

    async def commit(self, member, offset, *, epoch=None):
        topic = OffsetCommitRequestTopic(TOPIC, partitions=(OffsetCommitRequestPartition(0, offset),))
        epoch = member.epoch if epoch is None else epoch
        answer = await self.ask(OffsetCommitRequest(GROUP, epoch, member.member_id, topics=(topic,)), 9)
        return answer.topics[0].partitions[0].error_code

    async def fetch(self, member_id, epoch):
        group = OffsetFetchRequestGroup(GROUP, member_id, epoch, topics=None)
        return (await self.ask(OffsetFetchRequest(groups=(group,)), 9)).groups[0]


class Member:
    """A consumer: it adopts what it is told, and says so with its next heartbeat."""

    def __init__(self, group, member_id, **subscription):
        self.group = group
        self.member_id = member_id
        self.subscription = subscription or {"subscribed_topic_names": (TOPIC,)}
        self.epoch = 0
        self.owned = ()

    async def beat(self, epoch=None):
        fields = self.subscription | {"rebalance_timeout_ms": 60_000} if self.epoch == 0 else {}
        owned = (TopicPartitions(self.group.topic_id, self.owned),) if self.owned else ()
        request = ConsumerGroupHeartbeatRequest(
            GROUP, self.member_id, self.epoch if epoch is None else epoch, topic_partitions=owned, **fields
        )
        while (answer := await self.group.ask(request, 1)).error_code in WAITING:
            await asyncio.sleep(0.02)
        if answer.error_code == NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = tuple(number for part in answer.assignment.topic_partitions for number in part.partitions)
        return answer

    async def beat_until(self, is_so):
        while not is_so():
            assert (await self.beat()).error_code == NONE
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(tmp_path, layout, partitions=4, **settings):
    async with LocalCluster(tmp_path, layout, settings) as nodes, asyncio.timeout(60):
        group = Group(nodes)
        await group.create_topic(partitions)
        yield group


async def two_members(group):
    first, second = Member(group, "a"), Member(group, "b")
    await first.beat()
    assert first.owned == (0, 1, 2, 3)
    await second.beat()
    while not len(first.owned) == len(second.owned) == 2:
        assert (await first.beat()).error_code == NONE
        assert (await second.beat()).error_code == NONE
    await first.beat()
    return first, second


async def test_two_members_share_and_commit_and_leave(tmp_path, layout):
    async with running(tmp_path, layout) as group:
        first, second = await two_members(group)
        assert {*first.owned, *second.owned} == {0, 1, 2, 3}
        assert first.epoch == second.epoch == 2

        assert await group.commit(first, 7) == NONE
        assert await group.commit(Member(group, "nobody"), 7, epoch=2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await group.commit(second, 9, epoch=1) == ErrorCode.STALE_MEMBER_EPOCH
        assert (await group.fetch("a", 1)).error_code == ErrorCode.STALE_MEMBER_EPOCH
        assert (await group.fetch("nobody", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        (topic,) = (await group.fetch("a", 2)).topics
        assert [(part.partition_index, part.committed_offset) for part in topic.partitions] == [(0, 7)]

        listed = await group.ask(ListGroupsRequest(("Stable",), ("consumer",)), 5)
        assert [(found.group_id, found.group_type) for found in listed.groups] == [(GROUP, "consumer")]
        described = await group.described()
        assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
        assert {member.member_id: member.client_id for member in described.members} == {"a": "tests", "b": "tests"}

        assert (await second.beat(-1)).member_epoch == -1
        await first.beat_until(lambda: len(first.owned) == 4)


async def test_members_are_known_to_a_coordinator_that_is_started_again(tmp_path, layout):
    async with running(tmp_path, layout) as group:
        first, second = await two_members(group)
        before = await group.described()
        node_id = group.coordinator_id
        assert node_id != 0, "the controller's node is not restarted here"
        await group.nodes.stop_node(node_id)
        await group.nodes.start_node(node_id)
        await group.nodes.until_registered()

        owned = (first.owned, second.owned)
        for member in (first, second):
            assert (await member.beat()).error_code == NONE
        assert await group.described() == before
        assert (first.owned, second.owned) == owned
        assert await group.commit(second, 3) == NONE


async def test_members_hear_of_new_partitions(tmp_path):
    async with running(tmp_path, SEPARATE, partitions=1) as group:
        by_name, by_regex = Member(group, "a"), Member(group, "b", subscribed_topic_regex="or.*s|__.*")
        await by_name.beat()
        await by_regex.beat()
        assert (by_name.owned, by_regex.owned) == ((0,), ())
        await group.grow_topic(4)
        while len(by_name.owned) + len(by_regex.owned) < 4:
            await by_name.beat()
            await by_regex.beat()
        assert {*by_name.owned, *by_regex.owned} == {0, 1, 2, 3}
        answer = await group.ask(MetadataRequest((MetadataRequestTopic(name=TOPIC),)), 12)
        assert len(answer.topics[0].partitions) == 4


async def test_a_member_that_falls_silent_is_given_up_by_the_clock(tmp_path):
    settings = {
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.heartbeat.interval.ms": "50",
        "group.consumer.min.session.timeout.ms": "300",
        "group.consumer.session.timeout.ms": "300",
    }
    async with running(tmp_path, SEPARATE, **settings) as group:
        silent, member = Member(group, "a"), Member(group, "b")
        assert (await silent.beat()).heartbeat_interval_ms == 50
        await member.beat()
        await member.beat_until(lambda: len(member.owned) == 4)
        assert (await silent.beat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_node_that_does_not_coordinate_the_group_says_so(tmp_path):
    async with running(tmp_path, SEPARATE) as group:
        async with await WireClient.connect(group.nodes.nodes[5]) as client:
            request = ConsumerGroupHeartbeatRequest(GROUP, "a", 1)
            assert (await client.ask(request, 1)).error_code == ErrorCode.NOT_COORDINATOR
            answer = await client.ask(ConsumerGroupDescribeRequest((GROUP,)), 1)
            assert answer.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        missing = await group.described()
        assert (missing.error_code, missing.group_id) == (ErrorCode.GROUP_ID_NOT_FOUND, GROUP)
