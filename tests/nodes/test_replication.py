"""Replicas on three machines, in one process and without Ray: no loss of a node loses anything, and all goes on."""

import asyncio
import shutil

import pytest

from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import Produce
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch

ORDERS = TopicPartition("orders", 0)
MACHINES = 3


async def until(is_true, what):
    for _ in range(3000):
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
    return [node.replica_manager.logs[partition].log_end_offset for node in nodes.nodes.values()]


async def test_acknowledged_records_are_on_every_machine(nodes, cluster):
    await create(cluster, nodes)
    await write(cluster, *(b"%d" % number for number in range(50)))

    (end, *others) = end_offsets(nodes)
    assert others == [end, end]
    assert len(await values(cluster)) == 50


async def test_follower_has_everything_and_goes_on_when_the_leader_dies(nodes, cluster):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    await move_leader_from_controller(nodes, cluster)
    await write(cluster, b"before")
    leader = state_of(nodes).leader
    nodes.kill_node(leader)
    await write(cluster, b"after")

    assert state_of(nodes).leader != leader
    assert await values(cluster) == [b"before", b"after"]
    await nodes.start_node(leader)
    await until_in_sync(nodes)
    await until(lambda: len({*end_offsets(nodes)}) == 1, "the logs are equal")


async def move_leader_from_controller(nodes, cluster):
    """Have a machine lead that does not have the controller."""
    while state_of(nodes).leader == 0:
        await cluster.admin.delete_topic("orders")
        await create(cluster, nodes, **{"min.insync.replicas": "2"})


async def until_leader_is_not(nodes, node_id, partition=ORDERS):
    await until(lambda: state_of(nodes, partition).leader not in (node_id, -1), f"another leads {partition}")


async def test_a_leader_that_the_controller_does_not_hear_acknowledges_nothing_once_another_leads(nodes, cluster):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    await move_leader_from_controller(nodes, cluster)
    await write(cluster, b"before")
    zombie = nodes.nodes[state_of(nodes).leader]
    zombie.controller.ask_within = lambda reply_timeout_s, on_reply, message_type, *fields: None
    zombie._following.cancel()
    await until_leader_is_not(nodes, zombie.spec.node_id)

    code = await produce_to(nodes, zombie.spec.node_id, b"from the past")
    assert code is not ErrorCode.NONE
    await write(cluster, b"after")
    assert await values(cluster) == [b"before", b"after"]


async def produce_to(nodes, node_id, value):
    """Have one node append a record, whoever leads; return what it says."""
    batch = build_batch([NewRecord(value)])
    reply = await nodes.peers.call(node_id, Produce, ORDERS, batch, -1, None, 1, 500)
    return reply.error_code


async def test_a_coordinator_that_the_controller_does_not_hear_tells_nothing_of_the_past(nodes, cluster):
    await create(cluster, nodes)
    await write(cluster, b"a", b"b", b"c")
    group = next(name for name in map("group-{}".format, range(100)) if group_leader(cluster, name) == 200)
    async with cluster.consumer("orders", group=group) as consumer:
        await consumer.commit({ORDERS: 1})
    zombie = nodes.nodes[200]
    zombie.controller.ask_within = lambda reply_timeout_s, on_reply, message_type, *fields: None
    zombie._following.cancel()
    await until_leader_is_not(nodes, 200, cluster.runtime.view.group_partition(group))
    async with cluster.consumer("orders", group=group) as consumer:
        await consumer.commit({ORDERS: 2})

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await nodes.peers.call(200, FetchOffsets, group)


def group_leader(cluster, group):
    return cluster.runtime.view.group_coordinator(group)


async def test_with_too_few_in_sync_nothing_is_acknowledged_and_nothing_lost(nodes, cluster):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    await write(cluster, b"before")
    for node_id in (100, 200):
        nodes.kill_node(node_id)
    await until(lambda: state_of(nodes).leader in (0, -1), "those who are gone do not lead")
    code = await produce_to(nodes, 0, b"not safe")
    assert code in (
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
    )
    for node_id in (100, 200):
        await nodes.start_node(node_id)
    await until_in_sync(nodes)
    await write(cluster, b"after")
    found = await values(cluster)
    assert (found[0], found[-1]) == (b"before", b"after")


def coordinated_by(cluster, node_id):
    """A transactional id whose coordinator is on a node."""
    ids = map("id-{}".format, range(100))
    return next(name for name in ids if cluster.runtime.view.transaction_coordinator(name) == node_id)


# The one that is left has to be in sync when the others die, also on a machine that stalls.
@pytest.mark.parametrize(
    "settings",
    [{"transaction.state.log.min.isr": least, "replica.lag.time.max.ms": "30000"} for least in ("1", "2")],
    ids=["1", "2"],
)
async def test_coordinator_decides_only_with_enough_replicas_in_sync(settings, nodes, cluster):
    least = int(settings["transaction.state.log.min.isr"])
    is_decided = least == 1
    await create(cluster, nodes)
    name = coordinated_by(cluster, 0)
    log = cluster.runtime.view.transaction_partition(name)
    await until_in_sync(nodes, partition=log)
    async with cluster.producer(transactional_id=name) as producer:
        producer.begin()
        await producer.send("orders", b"decided")
        await producer.flush()
        for node_id in (100, 200):
            nodes.kill_node(node_id)
        await until(lambda: state_of(nodes).leader == state_of(nodes, log).leader == 0, "the one that is left leads")
        # The set never gets smaller than the setting says, and all in it have to have the decision.
        await until_in_sync(nodes, least, log)
        commit = asyncio.ensure_future(producer.commit())
        await asyncio.wait({commit}, timeout=10 if is_decided else 2)
        assert commit.done() is is_decided
        assert await values(cluster) == [b"decided"] * is_decided
        for node_id in (100, 200):
            await nodes.start_node(node_id)
        await commit
    assert await values(cluster) == [b"decided"]


async def test_a_transaction_goes_on_when_its_coordinator_dies(nodes, cluster):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    name = coordinated_by(cluster, 100)
    async with cluster.producer(transactional_id=name) as producer:
        producer.begin()
        await producer.send("orders", b"first")
        await producer.flush()
        nodes.kill_node(100)
        await producer.send("orders", b"second")
        await producer.commit()
        async with producer.transaction():
            await producer.send("orders", b"third")
    await until_values(cluster, [b"first", b"second", b"third"])
    await nodes.start_node(100)
    await until_in_sync(nodes)


async def until_values(cluster, expected):
    found = None
    for _ in range(200):
        found = await values(cluster)
        if found == expected:
            return
        await asyncio.sleep(0.05)
    assert found == expected


async def test_offsets_of_a_group_survive_its_coordinator(nodes, cluster):
    await create(cluster, nodes)
    await write(cluster, b"a", b"b", b"c")
    group = next(name for name in map("group-{}".format, range(100)) if group_leader(cluster, name) == 200)
    async with cluster.consumer("orders", group=group) as consumer:
        await consumer.commit({ORDERS: 2})
    nodes.kill_node(200)
    async with cluster.consumer("orders", group=group) as consumer:
        committed = await consumer.committed(ORDERS)
    assert committed[ORDERS].offset == 2


async def test_the_whole_cluster_comes_back_with_everything_in_any_order(nodes, cluster):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    async with cluster.producer(transactional_id="all") as producer, producer.transaction():
        await producer.send("orders", b"committed")
    await until_values(cluster, [b"committed"])
    for node_id in (200, 0, 100):
        nodes.kill_node(node_id)
    for node_id in (0, 200, 100):
        await nodes.start_node(node_id)
    await nodes.until_registered()
    await until_in_sync(nodes)
    await write(cluster, b"after")
    await until_values(cluster, [b"committed", b"after"])


async def test_a_deleted_topic_leaves_nothing_on_any_machine(tmp_path, nodes, cluster):
    await create(cluster, nodes)
    await write(cluster, b"gone")
    await cluster.admin.delete_topic("orders")
    await until(lambda: not [*tmp_path.glob("machine-*/logs/orders-0")], "the logs are gone")


async def test_a_machine_with_an_empty_disk_is_filled_again(tmp_path, nodes, cluster):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    await write(cluster, b"a", b"b")
    nodes.kill_node(200)
    shutil.rmtree(tmp_path / "machine-2")
    await nodes.start_node(200)
    await write(cluster, b"c")
    await until_in_sync(nodes)
    await until(lambda: len({*end_offsets(nodes)}) == 1, "the logs are equal")
    assert await values(cluster) == [b"a", b"b", b"c"]
