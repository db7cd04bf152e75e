"""The turns, process boundaries and names of a marker in docs/way-of-a-record.md, counted on real nodes and in code."""

import asyncio
import importlib
import pkgutil
import re
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from eagleray import broker
from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.actors.roles.role import Role
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import Fetch, FetchPartition
from eagleray.pipelines import connection
from eagleray.pipelines.connection import ClusterLocation
from eagleray.pipelines.sink import transaction
from eagleray.pipelines.sink.task import write_branch
from eagleray.pipelines.sink.transaction_name import name_in_stream
from eagleray.protocol import records
from eagleray.testing import SEPARATE, LocalCluster
from tests.support.pipelines_world import rows, sink_options

PAGE = Path(__file__).parents[2] / "docs" / "way-of-a-record.md"
ORDERS = TopicPartition("orders", 0)
OTHERS = frozenset({"FollowMetadata", "MetadataFollowed", "AllocateBlock", "BlockAllocated"})
"""What nodes say to each other beside the way that is looked at."""


class Trace:
    """Which role took a turn after which, and what crossed from one node to another meanwhile."""

    def __init__(self, nodes):
        self._nodes = {id(node.turn): node_id for node_id, node in nodes.nodes.items()}
        self._runs = count()
        self._run = -1
        self._last = None
        self.roles = []
        self.crossings = []

    def turn_begins(self):
        self._run = next(self._runs)

    def role_takes_turn(self, role):
        # A role that is asked by another of its own process, or goes on by itself, does so in the same turn.
        taken = self._run, role.process_role
        if taken != self._last:
            self._last = taken
            self.roles.append(str(role.process_role))

    def arrived(self, turn, messages):
        if id(turn) in self._nodes:
            names = [type(message).__name__ for message in messages]
            self.crossings += [name for name in names if name not in OTHERS]


@pytest.fixture
def traced(monkeypatch):
    """Give a block in which turns and arrivals are noted."""
    trace = None

    def before(owner, name, note):
        original = getattr(owner, name)

        def noted(self, *arguments):
            if trace is not None:
                note(trace, self, *arguments)
            return original(self, *arguments)

        monkeypatch.setattr(owner, name, noted)

    before(Turn, "_run", lambda trace, _: trace.turn_begins())
    before(Role, "_turn", lambda trace, role: trace.role_takes_turn(role))
    before(Link, "received", lambda trace, link, messages: trace.arrived(link._turn, messages))
    before(Sessions, "receive", lambda trace, sessions, session, messages: trace.arrived(sessions._turn, messages))

    @contextmanager
    def block(nodes):
        nonlocal trace
        trace = found = Trace(nodes)
        yield found
        trace = None

    return block


def rows_of(heading):
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


def turns_and_crossings_of(heading):
    """Return of a table the column that says whose turn it is, and the one that says what crosses then."""
    rows = rows_of(heading)
    crossings = [name for row in rows for name in re.findall(r"`(\w+)`", row[3])]
    return [row[1] for row in rows if row[0].isdecimal()], crossings


async def until(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_turns_and_crossings_are_those_of_the_page(tmp_path, traced):
    def is_over(trace):
        return (trace.roles[-1:], trace.crossings[-1:]) == (["coordinator"], ["MarkersFinished"])

    async with LocalCluster(tmp_path, SEPARATE) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1)
        async with cluster.producer(transactional_id="way") as producer:
            # The first transaction opens the lanes between the nodes.
            with traced(nodes) as before:
                async with producer.transaction():
                    await producer.send("orders", b"before")
                await until(lambda: is_over(before))

            producer.begin()
            with traced(nodes) as produce:
                await (await producer.send("orders", b"a record"))
            with traced(nodes) as end:
                await producer.commit()
                await until(lambda: is_over(end))
        with traced(nodes) as fetch:
            await nodes.peers.call(nodes.nodes[0].image.leader_of(ORDERS), Fetch, (FetchPartition(ORDERS, 0, 1024),))
        await cluster.close()

    # The client is no node: its question is the first to arrive, and the answer to it arrives at none.
    assert (produce.roles, produce.crossings) == turns_and_crossings_of(
        "Produce, with the first batch of a transaction"
    )
    assert (end.roles, end.crossings) == turns_and_crossings_of("EndTxn, until the next transaction may begin")
    assert (fetch.roles, fetch.crossings) == turns_and_crossings_of("Fetch")
    assert (len(produce.roles), len(produce.crossings) - 1) == (3, 2)
    assert (len(end.roles), len(end.crossings) - 1) == (5, 4)


class NotedPeers(Peers):
    """Those of a process of Spark, which note what it asks."""

    made: ClassVar = []

    def __init__(self, **options):
        super().__init__(**options)
        self.asked = []
        self.made.append(self)

    def ask(self, node_id, on_reply, message_type, *fields):
        self.asked.append(message_type.__name__)
        super().ask(node_id, on_reply, message_type, *fields)


def structs_of(package):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and issubclass(found, msgspec.Struct):
                yield found


def test_marker_has_the_three_names_of_the_page():
    """A marker is what says how a transaction ends, and by which epoch of the coordinator."""
    named = [row[0].strip("`") for row in rows_of("The names of a marker")]
    ends = {
        each.__name__
        for each in {*structs_of(broker), *structs_of(records)}
        if {"commit", "coordinator_epoch"} <= {*each.__struct_fields__}
    }
    assert sorted(ends) == sorted(named)
    assert len(named) == 3


class SparkProcess:
    """A process of Spark, as far as the cluster sees one: a connection of its own, and what it has asked."""

    def __init__(self, nodes, name):
        credentials = ClusterCredentials(nodes.token, nodes.nodes[0].image).without_topics()
        self._where = ClusterLocation("test", name, credentials)
        self.cluster = self.connect()
        self._peers = NotedPeers.made[-1]

    def connect(self):
        return self._where.connect()

    def questions(self):
        asked, self._peers.asked = self._peers.asked, []
        return asked

    def close(self):
        async def close_peers():
            self._peers.close()

        self.cluster._thread.run(close_peers())
        self.cluster.close()


async def test_questions_of_a_spark_batch_are_those_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "Peers", NotedPeers)

    def batch(number):
        """Run a batch of two tasks in two workers; return what each process asks, and the driver, which is new."""
        name, driver = name_in_stream("spark", "query", number), SparkProcess(nodes, f"driver-{number}")
        written = [
            write_branch(rows("a record"), name, place, sink_options(topic="orders"), worker)
            for place, worker in enumerate(workers)
        ]
        transaction.commit(driver.cluster, written, timeout_ms=60_000)
        asked = [process.questions() for process in (*workers, driver)]
        driver.close()
        return asked

    async with LocalCluster(tmp_path, SEPARATE) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1)
        workers = [await asyncio.to_thread(SparkProcess, nodes, f"worker-{number}") for number in range(2)]
        first, second = [await asyncio.to_thread(batch, number) for number in range(2)]
        for worker in workers:
            await asyncio.to_thread(worker.close)
        await cluster.close()
    asked_by = {"each process, once": [], "each task": [], "the driver": []}
    for where, question, *_ in rows_of("A Spark batch"):
        asked_by[where].append(question)
    to_begin, task, commit = asked_by.values()
    assert first == [to_begin + task, to_begin + task, to_begin + commit]
    assert second == [task, task, to_begin + commit]
    assert len(task + commit) == 3
