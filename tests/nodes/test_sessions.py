"""Nodes that the controller hears of, or has given up."""

import asyncio

from eagleray.broker.controller.events import CreateTopics, NewTopic
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from tests.support.nodes import THREE_MACHINES, NodesInProcess

SETTINGS = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "broker.session.timeout.ms": "1500",
    "leader.lease.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
SESSION_S = 1.5


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def given_up(data_dir):
    async with NodesInProcess(data_dir, THREE_MACHINES, SETTINGS) as cluster:
        (created,) = (await cluster.peers.call(0, CreateTopics, (NewTopic("orders", 3),))).results
        assert created.error_code is ErrorCode.NONE
        controller, node = cluster.nodes[0], cluster.nodes[100]
        await asyncio.sleep(1.5 * SESSION_S)
        assert sorted(controller.image.nodes) == [0, 100, 200], "who is heard stays"
        (partition,) = (each for each in controller.image.led_by(100) if each.topic == "orders")
        life, epoch = node.incarnation, controller.image.leader_epoch_of(partition)

        node.replicas._heartbeats.are_needed = False
        await until(lambda: node.incarnation > life and node.is_registered)
        assert controller.image.nodes[100].incarnation == node.incarnation
        assert controller.image.leader_of(partition) == 100, "nobody else has its data"
        assert controller.image.leader_epoch_of(partition) == epoch + 1
        others = {TopicPartition("orders", number) for number in range(3)} - {partition}
        assert {controller.image.leader_of(other) for other in others} == {0, 200}


def test_a_node_that_was_not_heard_for_too_long_begins_a_new_life_and_new_epochs(tmp_path):
    asyncio.run(given_up(tmp_path))
