"""A node in a process of its own, without Ray: one whose memory can be measured, whose files run out, or that ends.

    python -m tests.support.node_process '{"data_dir": ..., "settings": {...}, "files": ...}'

It says at which port it listens, and stops when its input ends.
"""

import asyncio
import json
import os
import resource
import select
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import confluent_kafka.admin

from eagleray.actors.process.memory import collect_garbage_rarely, keep_freed_memory
from eagleray.actors.process.node import Node
from eagleray.actors.process.open_files import raise_limit
from eagleray.testing import COLOCATED, LocalCluster, LocalNode

DEADLINE_S = 300
ONE_NODE = {0: COLOCATED[0]}

# The test's side


class NodeProcess:
    """A node process, seen from the test; `log` is what it has written to its error output."""

    def __init__(self, data_dir, settings=None, *, files=None, log):
        options = {"data_dir": str(data_dir), "settings": settings or {}, "files": files}
        command = [sys.executable, "-m", "tests.support.node_process", json.dumps(options)]
        self._log_path = log
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.pid = self._process.pid
        assert select.select([self._process.stdout], [], [], DEADLINE_S)[0], self.log
        said = self._process.stdout.readline().strip()
        assert said, self.log
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
    """A cluster of the one node of this process."""

    def _make_node(self, spec):
        return EndingNode(spec, self.failures)


async def run(options):
    if options["files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options["files"], options["files"]))
    raise_limit()
    collect_garbage_rarely()
    keep_freed_memory()
    async with OneProcess(options["data_dir"], ONE_NODE, options["settings"]) as nodes:
        print(nodes.nodes[0].port, flush=True)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
