"""Ray's head is lost: the streams go on without it, and nothing acknowledged is lost on the way back.

A program that is connected to Ray ends with it, so the load comes from a client that has a contact file, and no Ray.
"""

import asyncio
import json
import os
import shutil
import signal
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest

from eagleray.actors.lanes.peers import Peers
from eagleray.actors.process.cluster_credentials import decode_credentials
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime
from tests.support.cli_cluster import run_process
from tests.support.cli_processes import FEWER
from tests.support.cluster_load import Load
from tests.support.clusters import until, within_deadline
from tests.support.machines import HEAD, three_machines
from tests.support.redis import redis

# Each of them has Kafka's port at the address of each machine.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("head")]

MACHINES = 3
NAME = "headless"
OPTIONS = ("--name", NAME, "--layout", "colocated", "--leaders", "1", "--machines", str(MACHINES), *FEWER)
# All machines wait for the head this long, as with cluster.yaml; by default they end after a minute.
PATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "3600"}
RAY_GIVES_UP_S = 60
LONGER_THAN_RAY_WAITS_S = RAY_GIVES_UP_S + 15


class Commands:
    """What an operator types on a machine of the cluster."""

    def __init__(self, machines, folder):
        self._machines = machines
        self._environment = os.environ | {"EAGLERAY_HOME": str(folder / "home"), "RAY_AUTH_MODE": "token"}
        self.data_dir = str(folder / "data")
        self.contact_file = str(folder / "contact")

    def try_to(self, *arguments):
        return run_process(*arguments, "--address", self._machines.address, environment=self._environment)

    def run(self, *arguments):
        ended = self.try_to(*arguments)
        assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def start(self, *options):
        self.run("start", "--detach", "--data-dir", self.data_dir, "--wait", "60", *OPTIONS, *options)
        self.run("contact", self.contact_file, "--name", NAME)

    def nodes(self):
        """What each node says about itself; nothing where the cluster is not found."""
        ended = self.try_to("status", "--json", "--name", NAME)
        return {node["node_id"]: node for node in json.loads(ended.stdout)["nodes"]} if ended.returncode == 0 else {}

    def until_registered(self):
        def all_there():
            nodes = self.nodes()
            return nodes if len(nodes) == MACHINES and all(node["registered"] for node in nodes.values()) else None

        return until(all_there, "every node has joined")

    def until_in_sync(self):
        async def all_in_sync():
            async with self.client() as client:
                topics = [await client.admin.describe_topic(name) for name in await client.admin.list_topics()]
            partitions = [partition for topic in topics for partition in topic.partitions]
            return all(sorted(partition.isr) == sorted(partition.replicas) for partition in partitions)

        until(lambda: within_deadline(all_in_sync()), "every replica is in sync")

    @asynccontextmanager
    async def client(self):
        """A client that knows nothing of Ray."""
        credentials = decode_credentials(Path(self.contact_file).read_bytes())
        peers = Peers(token=credentials.token)
        cluster = AsyncCluster(ClientRuntime(peers, credentials.image, cluster=NAME))
        try:
            while not cluster.runtime.view.image.version:
                await cluster.runtime.view.refreshed()
            yield cluster
        finally:
            await cluster.close()
            peers.close()


@contextmanager
def three_with(folder, **environments):
    """Three machines with a cluster on them."""
    with three_machines(environment=PATIENT, **environments) as machines:
        commands = Commands(machines, folder)
        commands.start()
        yield machines, commands


def run_load(commands, act):
    """Run a load, do something in the middle of it, and see that what was acknowledged is there, and nothing else."""
    loads = []

    async def scenario():
        async with commands.client() as client:
            load = Load(client, replicas=MACHINES, producers=10, transactions=12)
            loads.append(load)
            await load.prepare()
            done = []
            load.at(40, lambda: done.append(threading.Thread(target=act)) or done[0].start())
            await load.run()
            await asyncio.to_thread(done[0].join)
            await load.check()

    within_deadline(scenario())
    return loads[0]


def check(commands, *loads):
    """What was acknowledged to loads is there, and nothing else."""

    async def scenario():
        async with commands.client() as client:
            for load in loads:
                await load.check(client)

    within_deadline(scenario())


def alive(nodes):
    """Those whose processes run."""
    return [node for node in nodes if not is_ended(node["pid"])]


def is_ended(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_head_without_a_memory_ends_all_actors_when_it_comes_back(tmp_path):
    """While it is away the others go on; then all is started again, with what was acknowledged."""
    with three_with(tmp_path) as (machines, commands):
        nodes = commands.until_registered()
        others = [nodes[100], nodes[200]]
        before = run_load(commands, lambda: machines.kill_machine(HEAD))
        time.sleep(LONGER_THAN_RAY_WAITS_S)
        assert alive(others) == others
        check(commands, before)

        machines.start_machine(HEAD)
        until(lambda: not alive(others), "Ray has ended the others")
        assert commands.nodes() == {}
        for number in (1, 2):
            if machines.processes_of(number):
                machines.kill_machine(number)
            machines.start_machine(number)
        commands.start()
        check(commands, before)
        run_load(commands, lambda: os.kill(commands.nodes()[0]["pid"], signal.SIGKILL))


@contextmanager
def memory_in_redis(folder):
    with redis(folder / "redis") as address:
        yield {"RAY_REDIS_ADDRESS": address, "RAY_external_storage_namespace": "eagleray"}


@contextmanager
def memory_in_rocksdb(folder):
    yield {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(folder / "ray")}


@pytest.mark.parametrize("memory", [memory_in_redis, memory_in_rocksdb])
def test_head_with_a_memory_comes_back_unnoticed(memory, tmp_path):
    with memory(tmp_path) as environment, three_with(tmp_path, head_environment=environment) as (machines, commands):
        nodes = commands.until_registered()
        first = run_load(commands, lambda: machines.kill_machine(HEAD))
        machines.start_machine(HEAD)
        back = commands.until_registered()
        assert back[0]["pid"] != nodes[0]["pid"]
        assert {node_id: back[node_id]["pid"] for node_id in (100, 200)} == {
            node_id: nodes[node_id]["pid"] for node_id in (100, 200)
        }
        # Ray starts nodes again, wherever they are: it knows them all.
        second = run_load(commands, lambda: os.kill(nodes[100]["pid"], signal.SIGKILL))
        again = commands.until_registered()
        assert again[100]["pid"] != back[100]["pid"]
        check(commands, first, second)
        commands.run("stop", "--name", NAME)
        assert commands.nodes() == {}


def test_head_that_is_lost_for_good_is_replaced_by_another_machine(tmp_path):
    """Those that are left begin again without it; what comes back in its place, with an empty disk, catches up."""
    with three_with(tmp_path) as (machines, commands):
        first = run_load(commands, lambda: machines.kill_machine(HEAD))
        shutil.rmtree(tmp_path / "data" / "machine-0")
        for number in (1, 2):
            machines.kill_machine(number)
        machines.move_head(1)
        for number in (1, 2):
            machines.start_machine(number)
        refused = commands.try_to("start", "--detach", "--data-dir", commands.data_dir, *OPTIONS)
        assert b"Ray has no node at 127.0.0.2" in refused.stderr
        commands.start("--without", "127.0.0.2")
        check(commands, first)
        second = run_load(commands, lambda: machines.start_machine(HEAD))
        commands.until_registered()
        commands.until_in_sync()
        check(commands, first, second)
