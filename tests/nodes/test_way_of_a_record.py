"""The turns and the process boundaries that docs/way-of-a-record.md names, counted on real nodes."""

import asyncio
import re
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from eagleray.actors.lanes.link import Link
from eagleray.actors.lanes.sessions import Sessions
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.shell import Shell
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import Fetch, FetchPartition
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime
from tests.support.nodes import SEPARATE, NodesInProcess

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

    def role_takes_turn(self, shell):
        # A role that is asked by another of its own process, or goes on by itself, does so in the same turn.
        taken = self._run, shell.role
        if taken != self._last:
            self._last = taken
            self.roles.append(str(shell.role))

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
    before(Shell, "_turn", lambda trace, shell: trace.role_takes_turn(shell))
    before(Link, "received", lambda trace, link, messages: trace.arrived(link._turn, messages))
    before(Sessions, "receive", lambda trace, sessions, messages: trace.arrived(sessions._turn, messages))

    @contextmanager
    def block(nodes):
        nonlocal trace
        trace = found = Trace(nodes)
        yield found
        trace = None

    return block


def rows_of(heading):
    """Return of a table of the page the column that says whose turn it is, and the one that says what crosses then."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    turns = [row[1] for row in rows[2:] if row[0].isdecimal()]
    crossings = [name for row in rows[2:] for name in re.findall(r"`(\w+)`", row[3])]
    return turns, crossings


async def until(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.001)


def test_turns_and_crossings_are_those_of_the_page(tmp_path, traced):
    async def scenario():
        async with NodesInProcess(tmp_path, SEPARATE) as nodes:
            cluster = AsyncCluster(ClientRuntime(nodes.peers, nodes.nodes[0].image, cluster="test"))
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
                await nodes.peers.call(
                    nodes.nodes[0].image.leader_of(ORDERS), Fetch, (FetchPartition(ORDERS, 0, 1024),)
                )
            await cluster.close()
        return produce, end, fetch

    def is_over(trace):
        return (trace.roles[-1:], trace.crossings[-1:]) == (["coordinator"], ["MarkersFinished"])

    produce, end, fetch = asyncio.run(scenario())
    # The client is no node: its question is the first to arrive, and the answer to it arrives at none.
    assert (produce.roles, produce.crossings) == rows_of("Produce, with the first batch of a transaction")
    assert (end.roles, end.crossings) == rows_of("EndTxn, until the next transaction may begin")
    assert (fetch.roles, fetch.crossings) == rows_of("Fetch")
    assert (len(produce.roles), len(produce.crossings) - 1) == (3, 2)
    assert (len(end.roles), len(end.crossings) - 1) == (5, 4)
