"""A cluster that strangers speak to: real nodes in memory, honest work beside the strangers, and its invariants."""

import resource
from typing import Self

from eagleray.actors.kafka_server import throttled_log
from eagleray.broker.controller.events import CreateTopics, NewTopic
from eagleray.protocol.errors import ErrorCode
from eagleray.testing import Layout
from tests.fuzz import honest
from tests.fuzz.honest import HonestWork
from tests.fuzz.knowledge import SECRET
from tests.fuzz.log_invariants import LogInvariants
from tests.fuzz.violation import Violation
from tests.support.cluster_in_memory import SETTINGS, ClusterInMemory

LAYOUT: Layout = {0: ("controller", "allocator", "coordinator", "markers", "groups", "leader"), 1: ("leader",)}
BOUNDS = {
    "max.topics.per.cluster": "10",
    "max.partitions.per.cluster": "40",
    "max.producer.ids": "2",
    "max.transaction.branches": "20",
    "max.transaction.pool.slots": "8",
    "max.incremental.fetch.session.cache.slots": "4",
    "queued.max.requests": "20",
    "transaction.version.1.connection.guard": "when-delayed",
}
TOPICS = {"orders": 2, "invoices": 2, honest.TOPIC: honest.PARTITIONS}
COMPACTED = NewTopic("compacted", 2, configs={"cleanup.policy": "compact", "segment.bytes": "2000"})
MOST_GROWTH_BYTES = 512 * 1024 * 1024
MOST_DISK_BYTES = 256 * 1024 * 1024


class FuzzedCluster(ClusterInMemory):
    """Two nodes, of which one has all roles, with a topic of honest work."""

    def __init__(self) -> None:
        super().__init__(TOPICS, settings=BOUNDS)
        self.layout = LAYOUT
        self.settings = SETTINGS | BOUNDS
        self.honest: HonestWork
        self.logs = LogInvariants(self)
        self._most_kilobytes = 0

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        answer = await self.ask_controller(CreateTopics, (COMPACTED,))
        assert answer.results[0].error_code is ErrorCode.NONE, answer.results
        throttled_log._QUIET_S = 1e9  # what strangers do is logged once
        self.honest = HonestWork(self)
        await self.honest.begin()
        await self.honest.work()
        self._most_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return self

    def close(self) -> None:
        self.honest.close()
        super().close()

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What no stranger may say, because it would be the honest work's own right."""
        topic = self.image.topics.get(honest.TOPIC)
        return (SECRET,) if topic is None else (SECRET, topic.topic_id)

    async def check(self) -> None:
        """Look at everything that must be so when strangers are done."""
        self.check_nodes()
        await self.honest.work()
        self.check_nodes()
        self.honest.check_log(self)
        self.logs.look()
        self._check_memory()
        self.network.asked.clear()
        self.peers.asked.clear()
        for node in self.nodes.values():
            node.peers.asked.clear()
        self.disk.trace.clear()

    def check_nodes(self) -> None:
        """No node has ended, no request has failed by a node's mistake, and the loop complains of nothing."""
        if self.failures:
            raise Violation(f"a node has ended: {self.failures[0]!r}") from self.failures[0]
        if self._accidents:
            accident = self._accidents[0]
            raise Violation(f"the loop says: {accident}") from accident.get("exception")
        for node in self.nodes.values():
            if node._status.failed_requests:
                raise Violation(
                    f"node {node.spec.node_id} has failed at requests: {dict(node._status.failed_requests)}"
                )

    def check_let_go(self) -> None:
        """Of connections that are closed, nodes keep nothing."""
        for node in self.nodes.values():
            listener = node.listener
            left = len(listener), len(listener._by_address), listener.queued_bytes.size_bytes
            if any(left) or listener.queued_bytes.waiting:
                raise Violation(f"node {node.spec.node_id} keeps of connections that are closed: {left}")

    def _check_memory(self) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        growth = (used - self._most_kilobytes) * 1024
        self._most_kilobytes = used
        if growth > MOST_GROWTH_BYTES:
            raise Violation(f"one input has made the process {growth} bytes larger")
        disk_bytes = sum(inode.size_bytes for inode in self.disk._names.values())
        if disk_bytes > MOST_DISK_BYTES:
            raise Violation(f"{disk_bytes} bytes are on the disk")

    async def restart(self, node_id: int) -> None:
        """Kill a node and start it again; what it recovers is looked at from its beginning."""
        self._image = self.image
        self.kill_node(node_id)
        await self.start_node(node_id)
        await self.until(lambda: all(node.is_registered for node in self.nodes.values()))
        self.logs = LogInvariants(self)
