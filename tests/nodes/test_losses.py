"""Nodes whose logs fail, or are damaged, one at a time: it costs the partition that it is about, and no other."""

from eagleray.broker.controller.events import RegisterNode
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged
from tests.nodes.test_replication import (
    MACHINES,
    ORDERS,
    end_offsets,
    state_of,
    until,
    until_in_sync,
    values,
    write,
)

OTHERS = TopicPartition("orders", 1)
IN_SYNC = {0, 100, 200}


async def create(cluster, nodes):
    configs = {"min.insync.replicas": "2"}
    await cluster.admin.create_topic("orders", partitions=2, replication_factor=MACHINES, configs=configs)
    for partition in (ORDERS, OTHERS):
        await until_in_sync(nodes, partition=partition)


def watched(nodes):
    """Have everything noted that the first node hears of who is in sync: of the one partition, and of the other."""
    seen = {ORDERS: [], OTHERS: []}
    node, take = nodes.nodes[0], nodes.nodes[0]._take

    def taking(image, **named):
        for partition, states in seen.items():
            states.append({*image.find(partition).isr})
        take(image, **named)

    node._take = taking
    return seen


def follower_of_both(nodes):
    """A node that leads neither partition, or the one that has not the controller."""
    leaders = {state_of(nodes).leader, state_of(nodes, OTHERS).leader}
    return nodes.nodes[max(IN_SYNC - leaders)]


async def until_well(nodes):
    for partition in (ORDERS, OTHERS):
        await until_in_sync(nodes, partition=partition)
        await until(lambda partition=partition: len({*end_offsets(nodes, partition)}) == 1, "the logs are equal")


async def test_a_log_that_fails_costs_its_node_that_partition_alone(nodes, cluster):
    await create(cluster, nodes)
    await write(cluster, *(b"%d" % number for number in range(10)))
    node, seen = follower_of_both(nodes), watched(nodes)
    incarnation = node.incarnation
    node.replica_manager.logs[ORDERS]._availability.end()
    node.replica_manager.failed(ORDERS)
    await until(lambda: node.incarnation > incarnation and node.is_registered, "it has started another incarnation")
    await until_well(nodes)

    assert IN_SYNC - {node.spec.node_id} in seen[ORDERS]
    assert all(in_sync == IN_SYNC for in_sync in seen[OTHERS])
    assert len(await values(cluster)) == 10


async def test_log_damaged_while_its_node_registers_is_reported_by_the_next_incarnation(nodes, cluster):
    await create(cluster, nodes)
    await write(cluster, *(b"%d" % number for number in range(10)))
    node, seen = follower_of_both(nodes), watched(nodes)
    ask, told = node.controller.call, []

    async def asking(kind, *fields, **more):
        if kind is RegisterNode:
            told.append(fields[1])
            if len(told) == 1:
                node.replica_manager.damaged(ORDERS, LogDamaged("a bit has changed"))
        return await ask(kind, *fields, **more)

    node.controller.call = asking
    node.start_incarnation()
    await until(lambda: len(told) == 2 and node.is_registered, "it has begun two more incarnations")
    await until_well(nodes)

    assert [loss.lost for loss in told] == [(), (ORDERS,)]
    assert IN_SYNC - {node.spec.node_id} in seen[ORDERS]
    assert all(in_sync == IN_SYNC for in_sync in seen[OTHERS])
    assert len(await values(cluster)) == 10
