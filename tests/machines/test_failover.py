"""Three machines of which any one may be lost: nothing acknowledged goes with it, and the others go on."""

import asyncio
import os
import signal
import threading

import psutil
import pytest

from tests.support.cluster_load import Load
from tests.support.clusters import client_of, until, until_back, until_running, within_deadline
from tests.support.librdkafka_load import LibrdkafkaLoad
from tests.support.machines import three_machines

MACHINES = 3


@pytest.fixture(scope="module")
def machines():
    with three_machines() as machines:
        yield machines


@pytest.fixture(scope="module")
def cluster(machines, tmp_path_factory):
    with machines.start_cluster("three", tmp_path_factory.mktemp("machines"), machines=MACHINES) as cluster:
        yield cluster


@pytest.fixture
def nodes(machines, cluster):
    """Every node is there when a test begins, and in sync; also where the test before has failed in between."""
    for number in range(MACHINES):
        machines.revive(number)
    nodes = {node["node_id"]: node for node in until_running(cluster)}
    until_in_sync(cluster)
    return nodes


def until_in_sync(cluster):
    def all_in_sync():
        topics = [cluster.admin.describe_topic(name) for name in cluster.admin.list_topics()]
        return all(
            sorted(partition.isr) == sorted(partition.replicas) for topic in topics for partition in topic.partitions
        )

    until(all_in_sync, "every replica is in sync")


def run_load(cluster, at, act, **sizes):
    """Load with handles and with librdkafka, do something in the middle, and see that what was acknowledged is there.

    And nothing else.
    """

    async def scenario():
        async with client_of(cluster) as client:
            load = Load(client, replicas=MACHINES, **sizes)
            await load.prepare()
            # What is done to processes takes a while, and the load goes on meanwhile.
            done = []
            load.at(at, lambda: done.append(threading.Thread(target=act)) or done[0].start())
            await load.run()
            await asyncio.to_thread(done[0].join)
            await load.check()

    with LibrdkafkaLoad(cluster, replicas=MACHINES) as librdkafka:
        librdkafka.goes_on()
        within_deadline(scenario())
        librdkafka.goes_on()
    librdkafka.check(cluster)


def test_a_machine_is_lost_and_comes_back(machines, cluster, nodes):
    run_load(cluster, 40, lambda: machines.kill_machine(1), producers=10, transactions=12)
    machines.revive(1)
    until_back(cluster, [nodes[100]])
    until_in_sync(cluster)


def test_a_raylet_is_lost_and_with_it_sooner_or_later_its_node(machines, cluster, nodes):
    run_load(cluster, 40, lambda: machines.kill_raylet(2), producers=10, transactions=12)
    machines.revive(2)
    until_back(cluster, [nodes[200]])
    until_in_sync(cluster)


def test_a_node_is_killed(cluster, nodes):
    run_load(cluster, 40, lambda: os.kill(nodes[100]["pid"], signal.SIGKILL), producers=10, transactions=12)
    until_back(cluster, [nodes[100]])


def test_the_node_of_the_controller_is_killed(cluster, nodes):
    run_load(cluster, 40, lambda: os.kill(nodes[0]["pid"], signal.SIGKILL), producers=10, transactions=12)
    until_back(cluster, [nodes[0]])


def test_stopped_leader_wakes_without_its_leadership(cluster, nodes):
    sleeper = psutil.Process(nodes[200]["pid"])
    try:
        run_load(cluster, 40, sleeper.suspend, producers=10, transactions=12)
    finally:
        sleeper.resume()
    until_running(cluster)
    until_in_sync(cluster)
