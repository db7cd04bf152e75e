"""A cluster for the command line to talk to: real nodes and real disks on a thread of this process, and no Ray."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import ClassVar

from typer.testing import CliRunner

from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.partitions.events import Produce, TransactionVerified
from eagleray.cli.app import app
from eagleray.cli.session import Session
from eagleray.client.cluster import AsyncCluster
from eagleray.client.loop_thread import LoopThread
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sync_cluster import SyncCluster
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import NewRecord, build_batch
from eagleray.testing import COLOCATED, LocalCluster
from tests.support.clusters import DEADLINE_S

SETTINGS = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}


class NodesOnThread:
    """The nodes of a cluster on a loop of their own, beside that of the command."""

    def __init__(self, data_dir, layout=COLOCATED, settings=SETTINGS):
        self._thread = LoopThread("nodes")
        self.nodes = LocalCluster(data_dir, layout, settings)
        self._thread.run(self.nodes.__aenter__())

    def close(self):
        self._thread.run(self.nodes.__aexit__())
        self._thread.close()

    def look_at_clock(self, node_id):
        """Have a node look at its wall clock now."""

        async def look():
            self.nodes.nodes[node_id].clock.look()

        self._thread.run(look())

    def session(self, name):
        """The session of a command, on the loop that it runs on."""
        peers = Peers(token=self.nodes.token, lane=Lane.DIRECT, timeout_s=10)
        image = self.nodes.nodes[0].image
        assert image is not EMPTY_IMAGE
        session = SessionWithoutRay(name, AsyncCluster(ClientRuntime(peers, image, cluster=name)), self.nodes.nodes)
        session.credentials = ClusterCredentials(self.nodes.token, image)
        return peers, session

    @asynccontextmanager
    async def connected(self, connection):
        """What commands get in the place of a connection by Ray."""
        peers, session = self.session(connection.name or "default")
        try:
            yield session
        finally:
            await session.cluster.close()
            peers.close()

    @contextmanager
    def blocking_clients(self):
        """Blocking clients of the cluster, on a loop of their own."""
        made = []

        def connect():
            made.append(Peers(token=self.nodes.token, lane=Lane.DIRECT, timeout_s=10))
            return made[0]

        async def close():
            await cluster._cluster.close()
            made[0].close()

        cluster = SyncCluster.connect(connect, self.nodes.nodes[0].image, name="default")
        try:
            yield cluster
        finally:
            cluster._thread.run(close())
            cluster.close()

    def leave_hanging(self, partition, producer_id):
        """Open a transaction in a partition behind its coordinator's back, as only a broken cluster does."""

        async def leave():
            node = self.nodes.nodes[self.nodes.nodes[0].image.leader_of(partition)]
            (role,) = [role for role in node._roles if role.process_role is ProcessRole.LEADER]
            record = NewRecord(b"hanging", timestamp=node.now_ms())
            batch = build_batch(
                [record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
            )
            leaders, now_ms = role._leaders, node.now_ms()
            (question,) = leaders.handle([Produce(0, partition, batch, -1, "unknown", 1)], now_ms, now_ms)
            verified = TransactionVerified(partition, producer_id, question.verification_id, ErrorCode.NONE)
            leaders.handle([verified], now_ms, now_ms)

        self._thread.run(leave())

    def run(self, work):
        """Do something with the cluster that no command does: `run(lambda session: session.cluster...)`."""

        async def main():
            async with self.connected(FakeConnection) as session:
                return await work(session)

        return asyncio.run(main())


class FakeConnection:
    name = "default"


class SessionWithoutRay(Session):
    """A session that asks the nodes themselves where Ray would be asked."""

    stopped: ClassVar = []
    ray_address: ClassVar = ""

    def __init__(self, name, cluster, nodes):
        super().__init__(name, cluster, self.ray_address)
        self._nodes = nodes

    async def stop(self):
        self.stopped.append(self.name)

    async def nodes(self):
        return [node.describe() for node in self._nodes.values()]


def invoke(*arguments, stdin=None):
    """Run a command; what it printed and how it ended."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def succeed(*arguments, stdin=None):
    """Run a command that has to succeed, and return it."""
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result


def fail(*arguments, stdin=None, code=1):
    """Run a command that has to fail, and return the one line that it says."""
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == code, (arguments, result.output, result.exception)
    assert result.stdout == ""
    *notes, line = result.stderr.splitlines()
    assert line.startswith("error: "), (notes, line)
    return line.removeprefix("error: ")


def eagleray(*arguments):
    """The command for a process of its own."""
    return [sys.executable, "-m", "eagleray", *map(str, arguments)]


def run_process(*arguments, stdin=b"", environment=None):
    """Run a command as a process, to its end."""
    return subprocess.run(
        eagleray(*arguments), input=stdin, env=environment, capture_output=True, timeout=DEADLINE_S, check=False
    )
