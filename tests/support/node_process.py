"""A node in a process of its own, without Ray: one whose memory can be measured, whose files run out, or that ends.

    python -m tests.support.node_process '{"data_dir": ..., "settings": {...}, "files": ...}'

It says at which port it listens, and stops when its input ends.
"""

import asyncio
import json
import os
import resource
import secrets
import select
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import confluent_kafka.admin

from eagleray.actors.common.settings import config_of
from eagleray.actors.common.storage_config import StorageConfig
from eagleray.actors.process.loop_watch import LoopWatch
from eagleray.actors.process.memory import collect_garbage_rarely, keep_freed_memory
from eagleray.actors.process.node import Node
from eagleray.actors.process.open_files import raise_limit
from eagleray.actors.storage.data_directory import format_directory
from eagleray.broker.metadata.nodes import NodeRegistration
from eagleray.testing import COLOCATED, LocalCluster, LocalNode

DEADLINE_S = 300
CONTROLLER = 0
ONE_NODE = {CONTROLLER: COLOCATED[0]}

# The test's side


class NodeProcess:
    """A node process, seen from the test; `log` is what it has written to its error output."""

    def __init__(
        self, data_dir, settings=None, *, files=None, log, layout=ONE_NODE, node_id=CONTROLLER, controller=None
    ):
        self.token = secrets.token_hex(32) if controller is None else controller.token
        options = {"data_dir": str(data_dir), "settings": settings or {}, "files": files, "token": self.token}
        options |= {"layout": layout, "node_id": node_id, "controller_port": controller and controller.port}
        command = [sys.executable, "-m", "tests.support.node_process", json.dumps(options)]
        self._log_path = log
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.pid = self._process.pid
        said = ""
        if select.select([self._process.stdout], [], [], DEADLINE_S)[0]:
            said = self._process.stdout.readline().strip()
        if not said:
            self.stop()
            raise AssertionError(self.log)
        self.port = int(said)
        self.address = ("127.0.0.1", self.port)
        self.bootstrap_servers = f"127.0.0.1:{self.port}"

    @property
    def log(self):
        with open(self._log_path) as log:
            return log.read()

    @property
    def is_running(self):
        return self._process.poll() is None

    def wait(self):
        return self._process.wait(DEADLINE_S)

    def stop(self):
        """Stop it in good order, unless it has ended."""
        self._process.stdin.close()
        try:
            return self.wait()
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    # What a load needs of a cluster

    @property
    def admin(self):
        return SimpleNamespace(create_topic=self.create_topic)

    def nodes(self):
        return [{"host": "127.0.0.1", "port": self.port}]

    def create_topic(self, name, partitions=1, replication_factor=1, configs=None):
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = confluent_kafka.admin.NewTopic(name, partitions, replication_factor, config=configs or {})
        admin.create_topics([topic])[name].result(DEADLINE_S)

    # What it takes

    def forget_peak(self):
        """Measure the peak of its memory from now on; return what it has now, in bytes."""
        with open(f"/proc/{self.pid}/clear_refs", "w") as refs:
            refs.write("5")
        return self._status("VmRSS")

    @property
    def peak_bytes(self):
        """The most memory that it has had since the peak was forgotten."""
        return self._status("VmHWM")

    def _status(self, key):
        with open(f"/proc/{self.pid}/status") as status:
            (line,) = [line for line in status if line.startswith(f"{key}:")]
        return int(line.split()[1]) * 1024

    @property
    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@contextmanager
def node_process(directory, settings=None, **options):
    """A node process until the end of the block."""
    node = NodeProcess(directory / "data", settings, log=directory / "log", **options)
    try:
        yield node
    finally:
        node.stop()


# The node's side


class EndingNode(LocalNode):
    """A node that ends its process when it fails, as one on Ray does."""

    fail = Node.fail


class OneProcess(LocalCluster):
    """One node of a cluster whose nodes have a process each."""

    def _make_node(self, spec):
        return EndingNode(spec, self.failures)

    async def start(self, node_id, controller_port):
        """Start a node: the controller, or one that knows where the controller listens."""
        self.peers = self._make_peers()
        spec = self._spec_of(node_id)
        if node_id == CONTROLLER:
            format_directory(self._disk, spec.data_dir, node_id)
        node = self._make_node(spec)
        if node_id != CONTROLLER:
            known = NodeRegistration(CONTROLLER, 1, "127.0.0.1", controller_port, self.layout[CONTROLLER])
            node.peers.learn({CONTROLLER: known})
        await node.start()
        self.nodes[node_id] = node
        self.peers.learn({node_id: node.registration})
        if node_id == CONTROLLER:
            await self.plan()
        await self.until_registered()
        return node


async def run(options):
    settings = options["settings"]
    if options["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options["files"], options["files"]))
    raise_limit()
    collect_garbage_rarely()
    keep_freed_memory()
    storage = config_of(StorageConfig, settings)
    watch = LoopWatch(f"node {options['node_id']}", storage.storage_flush_timeout_ms)
    watch.start()
    layout = {int(node_id): tuple(roles) for node_id, roles in options["layout"].items()}
    cluster = OneProcess(options["data_dir"], layout, settings)
    cluster.token = bytes.fromhex(options["token"])
    node = await cluster.start(options["node_id"], options["controller_port"])
    print(node.port, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await ended.wait()
    await cluster.__aexit__()
    watch.stop()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
