"""Nodes end by kill -9 in the middle of a load; Ray starts them again, and no application notices."""

import asyncio
import os
import signal

import pytest

from eagleray.client.errors import PoolFenced
from tests.support.cluster_load import Load
from tests.support.clusters import (
    ROLES,
    admin_of,
    assert_holds,
    client_of,
    fresh,
    kill,
    nodes_with,
    until_back,
    until_running,
    within_deadline,
)

pytestmark = pytest.mark.slow

NEWCOMERS = 100
"""The number of the first producer that begins after a kill."""


def ride_through_a_kill(cluster, victim):
    """Kill a node in the middle of a load, from handles that were made before; check all that was acknowledged."""

    async def scenario():
        async with client_of(cluster) as client:
            load = Load(client)
            await load.prepare()
            killed = asyncio.Event()

            def strike():
                os.kill(victim["pid"], signal.SIGKILL)
                killed.set()

            load.at(load.total // 3, strike)

            async def newcomers():
                """Producers without an identity yet, and a topic, wanted while the node is away."""
                await killed.wait()
                late = Load(client, producers=5, transactions=4)
                await late.prepare()
                await late.run(first=NEWCOMERS)
                return late

            _, late = await asyncio.gather(load.run(), newcomers())
            assert len(load.committed) == 20 * 12 * 2
            await asyncio.to_thread(until_back, cluster, [victim])
            # The same handles go on when everything is there again, and another client sees what they see.
            after = Load(client, producers=5, transactions=2)
            await after.prepare()
            await after.run()
            async with client_of(cluster) as other:
                for each in (load, late, after):
                    await each.check(other)

    within_deadline(scenario())


@pytest.mark.parametrize("role", ROLES)
def test_load_rides_through_the_kill_of_a_node_with_one_role(separate, role):
    ride_through_a_kill(separate, nodes_with(separate, role)[0])


@pytest.mark.parametrize("place", [0, 1], ids=["with the controller", "without the controller"])
def test_load_rides_through_the_kill_of_a_node_with_many_roles(colocated, place):
    nodes = until_running(colocated)
    if place >= len(nodes):
        pytest.skip("there is a node for each core, and this machine has one")
    ride_through_a_kill(colocated, nodes[place])


async def open_transactions(client, topic, count):
    producers = [client.producer(transactional_id=f"{topic}-{number}") for number in range(count)]
    await asyncio.gather(*(producer.init() for producer in producers))
    for number, producer in enumerate(producers):
        producer.begin()
        await producer.send(topic, b"%d" % number, partition=number % 2)
    await asyncio.gather(*(producer.flush() for producer in producers))
    return producers


def test_coordinator_fails_over_while_transactions_are_open(cluster):
    """Coordinator failover: what is open stays open, and ends as its producers say, by handles from before."""

    async def scenario():
        async with client_of(cluster) as client:
            topic = fresh("failover")
            await admin_of(client).create_topic(topic, partitions=2)
            producers = await open_transactions(client, topic, 20)
            coordinators = await asyncio.to_thread(nodes_with, cluster, "coordinator")
            for node in coordinators:
                await asyncio.to_thread(kill, node)
            ends = (p.abort() if number % 4 == 0 else p.commit() for number, p in enumerate(producers))
            await asyncio.gather(*ends)
            await assert_holds(client, topic, [b"%d" % number for number in range(20) if number % 4])
            # The next transactions of the same handles.
            for number, producer in enumerate(producers):
                async with producer.transaction():
                    await producer.send(topic, b"next %d" % number)
            expected = [b"%d" % number for number in range(20) if number % 4]
            await assert_holds(client, topic, expected + [b"next %d" % number for number in range(20)])
            await asyncio.gather(*(producer.close() for producer in producers))
            await asyncio.to_thread(until_back, cluster, coordinators)

    within_deadline(scenario())


def test_pool_outlives_its_coordinator_and_is_fenced_as_a_whole_afterwards(separate):
    """Coordinator failover: the new coordinator knows from the log who has the pool, and what is prepared in it."""

    async def scenario():
        async with client_of(separate) as client, client_of(separate) as other:
            topic, name = fresh("pooled"), fresh("pool")
            await admin_of(client).create_topic(topic, partitions=2)
            async with client.transactions(name, concurrency=12) as pool:
                open_ones = []
                for number in range(12):
                    txn = await pool.begin().__aenter__()
                    await (await txn.send(topic, b"%d" % number, partition=number % 2))
                    open_ones.append(txn)
                token = await open_ones[11].prepare()
                coordinators = await asyncio.to_thread(nodes_with, separate, "coordinator")
                for node in coordinators:
                    await asyncio.to_thread(kill, node)
                await asyncio.gather(*(txn.commit() for txn in open_ones[:6]))
                async with other.transactions(name, concurrency=2) as new:
                    assert new.recovered == (token,)
                    late = await asyncio.gather(*(txn.commit() for txn in open_ones[6:]), return_exceptions=True)
                    assert {type(each) for each in late} == {PoolFenced}
                    async with new.begin() as txn:
                        await txn.send(topic, b"new", partition=0)
                    await other.complete(token, commit=True)
            await assert_holds(other, topic, [*(b"%d" % number for number in range(6)), b"11", b"new"])
            await asyncio.to_thread(until_back, separate, coordinators)

    within_deadline(scenario())


def test_coordinator_fails_over_while_transactions_are_being_committed(cluster):
    """Coordinator failover: a commit whose answer never came is committed once, whether it was in the log or not."""

    async def scenario():
        async with client_of(cluster) as client:
            topic = fresh("failover")
            await admin_of(client).create_topic(topic, partitions=2)
            producers = await open_transactions(client, topic, 40)
            coordinators = await asyncio.to_thread(nodes_with, cluster, "coordinator")
            commits = [asyncio.ensure_future(producer.commit()) for producer in producers]
            # Their answers arrive together, so the kill is before, between or after; every place of it has to do.
            await asyncio.sleep(0)
            for node in coordinators:
                os.kill(node["pid"], signal.SIGKILL)
            await asyncio.gather(*commits)
            await assert_holds(client, topic, [b"%d" % number for number in range(40)])
            await asyncio.gather(*(producer.close() for producer in producers))
            await asyncio.to_thread(until_back, cluster, coordinators)

    within_deadline(scenario())


def test_all_nodes_killed_at_once_lose_nothing(cluster):
    """Everything ends by kill -9 in the middle of a load, and goes on."""

    async def scenario():
        async with client_of(cluster) as client:
            load = Load(client, transactions=10)
            await load.prepare()
            nodes = await asyncio.to_thread(until_running, cluster)
            load.at(load.total // 2, lambda: [os.kill(node["pid"], signal.SIGKILL) for node in nodes])
            await load.run()
            await asyncio.to_thread(until_back, cluster, nodes)
            await load.check()

    within_deadline(scenario())
