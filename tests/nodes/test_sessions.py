"""Nodes that the controller hears of, or has given up."""

import asyncio

from eagleray.broker.controller.events import CreateTopics, NewTopic
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.testing import THREE_MACHINES, LocalCluster

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


async def test_node_that_was_not_heard_for_too_long_begins_a_new_incarnation_and_new_epochs(tmp_path):
    async with LocalCluster(tmp_path, THREE_MACHINES, SETTINGS) as cluster:
        (created,) = (await cluster.peers.call(0, CreateTopics, (NewTopic("orders", 3),))).results
        assert created.error_code is ErrorCode.NONE
        controller, node = cluster.nodes[0], cluster.nodes[100]
        await asyncio.sleep(1.5 * SESSION_S)
        assert sorted(controller.image.nodes) == [0, 100, 200], "who is heard stays"
        (partition,) = (each for each in controller.image.led_by(100) if each.topic == "orders")
        incarnation, epoch = node.incarnation, controller.image.leader_epoch_of(partition)

        node.replica_manager._heartbeats.are_needed = False
        await until(lambda: node.incarnation > incarnation and node.is_registered)
        assert controller.image.nodes[100].incarnation == node.incarnation
        assert controller.image.leader_of(partition) == 100, "no other node has its data"
        assert controller.image.leader_epoch_of(partition) == epoch + 1
        others = {TopicPartition("orders", number) for number in range(3)} - {partition}
        assert {controller.image.leader_of(other) for other in others} == {0, 200}
