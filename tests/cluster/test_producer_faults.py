"""The fault tests that the design asks for, on the side of producers: crashes, zombies, trouble with the network."""

import asyncio
import os
import signal

import pytest

from tests.support.cluster_load import Load
from tests.support.cluster_process import ClientProcess, by_address
from tests.support.clusters import (
    admin_of,
    assert_holds,
    check,
    client_of,
    fresh,
    nodes_with,
    values_in,
    within_deadline,
)

pytestmark = pytest.mark.slow


def test_producer_crashes_and_its_successor_goes_on(ray_here, cluster):
    """Producer crash and recovery: kill -9 in the middle of a transaction; the successor's init aborts it."""
    topic, transactional_id = fresh("crash"), fresh("id")
    admin_of(cluster).create_topic(topic, partitions=3)
    options = {"name": cluster.name, "address": ray_here.address, "topic": topic, "records": 9}
    with ClientProcess("leave_open", **options, transactional_id=transactional_id) as client:
        client.until_said("open")
        client.kill()

    async def succeed():
        async with client_of(cluster) as client:
            assert len(await values_in(client, topic, "read_uncommitted")) == 9
            assert await values_in(client, topic) == []
            async with client.producer(transactional_id=transactional_id) as successor:
                # Initialising it has ended what was open, so that readers are held back no longer.
                await assert_holds(client, topic, [])
                async with successor.transaction():
                    await successor.send(topic, b"successor")
            await assert_holds(client, topic, [b"successor"])

    within_deadline(succeed())


def test_zombie_producer_is_fenced(cluster):
    """Network partition and zombie producers: one that was cut off comes back after its successor, and is refused."""
    topic, transactional_id = fresh("zombie"), fresh("id")
    admin_of(cluster).create_topic(topic, partitions=1)
    options = {**by_address(cluster), "topic": topic, "transactional_id": transactional_id}
    with ClientProcess("be_a_zombie", **options) as zombie:
        zombie.until_said("open")
        with cluster.producer(transactional_id=transactional_id) as successor:
            with successor.transaction():
                successor.send(topic, b"successor")
            zombie.until_stopped()
            zombie.send_signal(signal.SIGCONT)
            zombie.until_said("fenced")
            assert zombie.wait() == 0
            # The zombie has not disturbed its successor.
            with successor.transaction():
                successor.send(topic, b"successor again")
    check(cluster, topic, [b"successor", b"successor again"])


def break_lanes(client):
    """Break off every connection of a client, as a network does; how many there were."""
    closing = client._peers._closing
    broken = [node_id for node_id in closing if not client._peers._links[node_id].is_broken]
    for node_id in broken:
        closing[node_id]()
    return len(broken)


def test_network_breaks_again_and_again(cluster):
    """Network partition: every connection of the clients breaks, many times in a load; nothing is lost or doubled."""

    async def scenario():
        async with client_of(cluster) as client:
            load = Load(client, producers=20, transactions=25)
            await load.prepare()
            broken = []
            for turn in range(1, 20):
                load.at(turn * 25, lambda: broken.append(break_lanes(client)))
            await load.run()
            assert len(broken) == 19
            assert sum(broken) >= 19
            await load.check()

    within_deadline(scenario())


@pytest.mark.parametrize("role", ["coordinator", "leader"])
def test_node_that_does_not_answer_for_a_while_is_waited_for(separate, role):
    """Network partition: a node is cut off with requests in its hands, and comes back."""

    async def scenario():
        async with client_of(separate) as client:
            load = Load(client, transactions=10)
            await load.prepare()
            (node, *_) = await asyncio.to_thread(nodes_with, separate, role)
            loop = asyncio.get_running_loop()

            def cut_off():
                os.kill(node["pid"], signal.SIGSTOP)
                loop.call_later(1, os.kill, node["pid"], signal.SIGCONT)

            load.at(load.total // 2, cut_off)
            await load.run()
            await load.check()

    within_deadline(scenario())
