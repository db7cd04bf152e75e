"""Clusters on a real Ray: how tests reach them, hurt them, load them, and read back what they hold."""

import asyncio
import itertools
import os
import secrets
import signal
import socket
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress

import psutil

import eagleray
import eagleray.aio

DEADLINE_S = 300
"""Nothing is worth waiting longer for. Machines that run tests may be slow, and no test says how long a thing takes."""

SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
BELOW_THE_SYSTEMS_PORTS = range(20_000, 32_000)
"""Above those that Ray gives to its workers."""

ROLES = ("controller", "allocator", "markers", "coordinator", "groups", "leader")
LAYOUTS = ("separate", "colocated")

_numbers = itertools.count()


def fresh(name):
    """A name that no other test of this run has; tests share clusters."""
    return f"{name}-{os.getpid()}-{next(_numbers)}"


def admin_of(cluster):
    return cluster.admin() if callable(cluster.admin) else cluster.admin


# Waiting


class NotInTime(AssertionError):
    """What a test waited for did not happen before its deadline."""


def until(is_true, what, seconds=DEADLINE_S):
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := is_true()):
        if time.monotonic() > deadline:
            raise NotInTime(f"after {seconds} s still not: {what}")
        time.sleep(0.02)
    return found


async def until_async(is_true, what, seconds=DEADLINE_S):
    deadline = time.monotonic() + seconds
    while not (found := await is_true()):
        if time.monotonic() > deadline:
            raise NotInTime(f"after {seconds} s still not: {what}")
        await asyncio.sleep(0.02)
    return found


def within_deadline(scenario):
    """Run a scenario on a loop of its own, to its end or to the deadline."""

    async def limited():
        async with asyncio.timeout(DEADLINE_S):
            return await scenario

    return asyncio.run(limited())


# Nodes


def nodes_with(cluster, role):
    """The nodes that have a role, each as it describes itself; waits until all nodes of the cluster run."""
    return [node for node in until_running(cluster) if role in node["roles"]]


def until_running(cluster):
    """Wait until every node has joined, and return what they say about themselves."""

    def all_joined():
        nodes = cluster.nodes()
        return nodes if all(node["registered"] for node in nodes) else None

    return until(all_joined, f"every node of {cluster.name} has joined")


def until_back(cluster, killed):
    """Wait until nodes that were killed have joined again, each in a new incarnation, and return them."""
    before = {node["node_id"]: node["incarnation"] for node in killed}

    def are_back():
        nodes = [node for node in cluster.nodes() if node["node_id"] in before and node["registered"]]
        is_new = [node["incarnation"] != before[node["node_id"]] for node in nodes]
        return nodes if len(nodes) == len(before) and all(is_new) else None

    return until(are_back, f"nodes {sorted(before)} of {cluster.name} are back")


def kill(node):
    """End the process of a node with kill -9, and see that it is gone."""
    process = psutil.Process(node["pid"])
    assert process.is_running(), node
    os.kill(process.pid, signal.SIGKILL)
    process.wait(DEADLINE_S)


@asynccontextmanager
async def client_of(cluster, **options):
    """A client of its own, on the loop of a test."""
    async with await eagleray.aio.connect(cluster.name, **options) as client:
        yield client


def is_open(host, port):
    """Whether somebody takes connections there."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def closed_port():
    """A port of loopback at which no process listens, none of those that the system gives out by itself meanwhile."""
    while True:
        port = secrets.choice(BELOW_THE_SYSTEMS_PORTS)
        with socket.socket() as taken, suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return port


# Reading back


async def decided(client, topic):
    """Wait until no transaction is open in a topic: every marker is written."""

    async def nothing_undecided():
        described = await admin_of(client).describe_topic(topic)
        return all(partition.undecided == 0 for partition in described.partitions)

    await until_async(nothing_undecided, f"all transactions in {topic} are decided")


async def values_in(client, topic, isolation="read_committed"):
    """The values of all records of a topic that a reader sees, from its beginning to its end."""
    consumer = client.consumer(topic, isolation=isolation, auto_offset_reset="earliest")
    found = []
    async with consumer:
        ends = await consumer.end_offsets(*consumer.assignment())

        async def is_at_end():
            found.extend(await consumer.poll(50))
            return all([await consumer.position(partition) >= end for partition, end in ends.items()])

        await until_async(is_at_end, f"{topic} is read to its end, {ends}")
    return [record.value for record in found]


async def assert_holds(client, topic, expected):
    """Once everything is decided, readers of committed records see exactly these, each once."""
    await decided(client, topic)
    found, wanted = Counter(await values_in(client, topic)), Counter(expected)
    assert found == wanted, f"missing {wanted - found}, too many {found - wanted}"


async def group_offset(client, group, partition):
    """How far a group has come, once no transaction holds offsets of it; None where it has none."""
    async with client.consumer(group=group) as consumer:
        committed = (await consumer.committed(partition)).get(partition)
    return None if committed is None else committed.offset


def check(cluster, topic, expected):
    """`assert_holds`, for a test without a loop."""

    async def look():
        async with client_of(cluster) as client:
            await assert_holds(client, topic, expected)

    within_deadline(look())
