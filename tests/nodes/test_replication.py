"""Replicas on three machines, in one process and without Ray: whoever goes away, nothing is lost and all goes on."""

import asyncio
from contextlib import asynccontextmanager

from eagleray.broker.identities import TopicPartition
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime
from tests.support.nodes import THREE_MACHINES, NodesInProcess

QUICK = {
    "broker.session.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "100",
    "leader.lease.ms": "400",
    "replica.push.timeout.ms": "300",
    "replica.lag.time.max.ms": "500",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
}
ORDERS = TopicPartition("orders", 0)
MACHINES = 3


@asynccontextmanager
async def running(tmp_path, **settings):
    async with NodesInProcess(tmp_path, THREE_MACHINES, QUICK | settings) as nodes, asyncio.timeout(60):
        cluster = AsyncCluster(ClientRuntime(nodes.peers, nodes.nodes[0].image, cluster="test"))
        yield nodes, cluster
        await cluster.close()


async def until(is_true, what):
    for _ in range(1000):
        if is_true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"still not: {what}")


def state_of(nodes, partition=ORDERS):
    return nodes.nodes[0].image.find(partition)


async def until_in_sync(nodes, count=MACHINES, partition=ORDERS):
    await until(lambda: len(state_of(nodes, partition).isr) == count, f"{count} replicas of {partition} are in sync")


async def create(cluster, nodes, **configs):
    await cluster.admin.create_topic("orders", partitions=1, replication_factor=MACHINES, configs=configs)
    await until_in_sync(nodes)


async def values(cluster, topic="orders"):
    found = []
    async with cluster.consumer(topic, isolation="read_committed") as consumer:
        partitions = [*consumer.assignment()]
        ends = await consumer.end_offsets(*partitions)
        while any([await consumer.position(partition) < ends[partition] for partition in partitions]):
            found += [record.value for record in await consumer.poll(100)]
    return found


async def write(cluster, *sent):
    async with cluster.producer(acks="all") as producer:
        for value in sent:
            await producer.send("orders", value)


def end_offsets(nodes, partition=ORDERS):
    return [node.replicas.logs[partition].log_end_offset for node in nodes.nodes.values()]


def run(tmp_path, scenario, **settings):
    async def whole():
        async with running(tmp_path, **settings) as (nodes, cluster):
            await scenario(nodes, cluster)

    asyncio.run(whole())


def test_what_is_acknowledged_is_on_every_machine(tmp_path):
    async def scenario(nodes, cluster):
        await create(cluster, nodes)
        await write(cluster, *(b"%d" % number for number in range(50)))

        (end, *others) = end_offsets(nodes)
        assert others == [end, end]
        assert len(await values(cluster)) == 50

    run(tmp_path, scenario)


def test_when_the_leader_dies_another_has_everything_and_goes_on(tmp_path):
    async def scenario(nodes, cluster):
        await create(cluster, nodes, **{"min.insync.replicas": "2"})
        await move_leader_from_controller(nodes, cluster)
        await write(cluster, b"before")
        leader = state_of(nodes).leader
        await nodes.kill_node(leader)
        await write(cluster, b"after")

        assert state_of(nodes).leader != leader
        assert await values(cluster) == [b"before", b"after"]
        await nodes.start_node(leader)
        await until_in_sync(nodes)
        await until(lambda: len({*end_offsets(nodes)}) == 1, "the logs are equal")

    run(tmp_path, scenario)


async def move_leader_from_controller(nodes, cluster):
    """Have a machine lead that does not have the controller."""
    while state_of(nodes).leader == 0:
        await cluster.admin.delete_topic("orders")
        await create(cluster, nodes, **{"min.insync.replicas": "2"})
