"""Metadata on the wire, for topics that this node has not heard of."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.broker.controller.events import GetMetadata, TopicResult, TopicsAnswered
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.broker.metadata.topics import PartitionImage, TopicImage
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import make_listener

ORDERS = TopicImage("orders", b"\x01" * 16, {}, (PartitionImage(1, 0, (1,), (1,)),))


class ControllerKnows:
    """A controller that has these topics; the asking node hears of them when the test says so."""

    def __init__(self, loop, *topics):
        self._loop = loop
        self._topics = {topic.name: topic for topic in topics}
        self.asked = []

    def ask(self, node_id, on_reply, message_type, *fields, **named):
        assert message_type is GetMetadata
        self.asked.append(fields)
        self._loop.call_soon(on_reply, SimpleNamespace(image=SimpleNamespace(topics=self._topics)))


async def asked_for(name, *known, hears):
    listener = make_listener(roles=("leader",), auto_create_topics_enable=False)
    listener.context.peers = ControllerKnows(listener.context.loop, *known)
    listener.context.controller = ControllerChannel(listener.context.peers, (0,))
    peer = Peer(listener)
    peer.send(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 9)
    if hears:
        assert await peer.responses() == []
        listener.context.image = msgspec.structs.replace(listener.context.image, topics={ORDERS.name: ORDERS})
    while not (responses := await peer.responses()):
        await asyncio.sleep(0.001)
    (response,) = responses
    return response.body.topics[0], listener.context.peers.asked


async def test_a_topic_that_was_created_a_moment_ago_is_waited_for():
    topic, asked = await asked_for("orders", ORDERS, hears=True)

    assert topic.error_code == ErrorCode.NONE
    assert [partition.leader_id for partition in topic.partitions] == [1]
    assert asked == [(("orders",),)]


async def test_a_client_is_told_to_ask_again_for_one_that_exists_and_is_not_heard_of():
    topic, _ = await asked_for("orders", ORDERS, hears=False)

    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("name", "error_code", "questions"),
    [("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1), ("not a name", ErrorCode.INVALID_TOPIC_EXCEPTION, 0)],
)
async def test_topic_that_the_controller_does_not_know_is_unknown_at_once(name, error_code, questions):
    topic, asked = await asked_for(name, ORDERS, hears=False)

    assert topic.error_code == error_code
    assert len(asked) == questions


@pytest.mark.parametrize("version", range(14))
async def test_replicas_that_are_away_and_machines_are_told_to_versions_that_know_them(version):
    led = PartitionImage(2, 3, (2, 7, 1), (2, 1))
    leaderless = PartitionImage(-1, 4, (7,), (7,))
    led_by_one_away = PartitionImage(7, 4, (7, 1), (7,))

    topic = TopicImage("orders", b"\x01" * 16, {}, (led, leaderless, led_by_one_away))
    listener = make_listener(topics=(topic,))
    plan = {1: PlannedNode(1, ("leader",)), 2: PlannedNode(2, ("leader",), machine="rack-2")}
    listener.context.image = msgspec.structs.replace(listener.context.image, plan=plan)
    peer = Peer(listener)
    peer.send(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), version)
    (response,) = await peer.responses()
    found = response.body
    assert [broker.rack for broker in found.brokers] == [None, "rack-2" if version >= 1 else None]
    shown = [
        (each.error_code, each.leader_id, each.replica_nodes, each.isr_nodes, each.offline_replicas)
        for each in found.topics[0].partitions
    ]
    away = (7,) if version >= 5 else ()
    assert shown == [
        (ErrorCode.NONE, 2, (2, 7, 1), (2, 1), away),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, (7,), (7,), away),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, (7, 1), (7,), away),
    ]


async def test_topic_that_the_cluster_has_no_room_for_is_not_created_by_asking_for_it():
    listener = make_listener(roles=("leader",))

    def ask(node_id, on_reply, message_type, topics):
        results = tuple(TopicResult(topic.name, ErrorCode.POLICY_VIOLATION, "full") for topic in topics)
        listener.context.loop.call_soon(on_reply, TopicsAnswered(1, results))

    listener.context.controller = ControllerChannel(SimpleNamespace(ask=ask), (0,))
    peer = Peer(listener)
    peer.send(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), 9)
    topic = (await peer.response()).body.topics[0]
    assert (topic.name, topic.error_code) == ("orders", ErrorCode.POLICY_VIOLATION)
