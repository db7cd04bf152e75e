"""Nodes that the controller hears of, or has given up."""

import asyncio

from eagleray.broker.controller.events import CreateTopics, NewTopic
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from tests.support.nodes import COLOCATED, NodesInProcess

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "broker.session.timeout.ms": "600",
    "leader.lease.ms": "400",
    "broker.heartbeat.interval.ms": "100",
}


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def nothing():
    """Send no heartbeat."""


async def given_up(data_dir):
    async with NodesInProcess(data_dir, COLOCATED, SETTINGS) as cluster:
        (created,) = (await cluster.peers.call(0, CreateTopics, (NewTopic("orders", 2),))).results
        assert created.error_code is ErrorCode.NONE
        controller, node = cluster.nodes[0], cluster.nodes[1]
        await asyncio.sleep(1.0)
        assert sorted(controller.image.nodes) == [0, 1], "who is heard stays"
        (partition,) = (each for each in controller.image.led_by(1) if each.topic == "orders")
        life, epoch = node.incarnation, controller.image.leader_epoch_of(partition)

        node._beat_once = nothing
        await until(lambda: 1 not in controller.image.nodes)
        assert controller.image.leader_of(partition) == 1, "nobody else has its data"

        del node._beat_once
        await until(lambda: 1 in controller.image.nodes)
        assert node.incarnation > life
        assert controller.image.nodes[1].incarnation == node.incarnation
        assert controller.image.leader_epoch_of(partition) == epoch + 1
        assert controller.image.leader_of(TopicPartition("orders", 1 - partition.partition)) == 0


def test_a_node_that_was_not_heard_for_too_long_begins_a_new_life_and_new_epochs(tmp_path):
    asyncio.run(given_up(tmp_path))
