"""The one broker of tests: real nodes with their roles in this process, without sockets and files.

What is not real: the disk is simulated, the clock is that of the loop, which may jump, and the lanes do what a test
plans. A node that is killed forgets everything but its disk, and comes back at higher epochs.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from eagleray.actors.common.spec import NodeSpec
from eagleray.broker.controller.events import CreateTopics, NewTopic
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.messages import Message
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import Record
from eagleray.testing import Layout, LocalCluster, LocalNode
from eagleray.testing.local_node import NoActors
from tests.support.batches import NOW_MS, whole_batches
from tests.support.client_clock import run_in_virtual_time
from tests.support.consumer import committed_records
from tests.support.lanes_in_memory import Network, PeersInMemory
from tests.support.node_disk import NodeDisk

CONTROLLER, COORDINATOR, GROUPS, LEADER_A, LEADER_B = range(5)
LAYOUT: Layout = {
    CONTROLLER: ("controller", "allocator", "markers"),
    COORDINATOR: ("coordinator",),
    GROUPS: ("groups",),
    LEADER_A: ("leader",),
    LEADER_B: ("leader",),
}
TWO_MACHINES = {node_id: "second" if node_id == LEADER_B else "first" for node_id in LAYOUT}
SETTINGS = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}
TOPICS = {"orders": 3, "invoices": 2}
FIRST_PORT = 9000

Cluster = TypeVar("Cluster", bound="ClusterInMemory")


class NodeInMemory(LocalNode):
    """The real node, but for its disk, its clock, its chance and its lanes."""

    def __init__(self, spec: NodeSpec, cluster: "ClusterInMemory") -> None:
        self._cluster = cluster
        super().__init__(spec, cluster.failures, cluster.disk)
        self.supervisor = cluster.supervisor

    def _make_peers(self) -> PeersInMemory:
        return PeersInMemory(self._cluster.network, self.spec.node_id)

    async def _listen(self) -> None:
        self._listening.port = FIRST_PORT + self.spec.node_id

    def steady_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def _now_us(self) -> int:
        return (self._cluster.now_ms + self._cluster.wall_ahead_ms.get(self.spec.node_id, 0)) * 1000

    def chance(self) -> float:
        return self._cluster.chance.random()


class ClusterInMemory(LocalCluster):
    """A cluster of real nodes whose tests see and break everything.

    Owns: the nodes, their disk, the network between them and the clients. At its end no node may have failed, and no
    fault may be left that a test has planned.
    """

    peers: PeersInMemory

    def __init__(
        self,
        topics: Mapping[str, int] = TOPICS,
        *,
        layout: Layout = LAYOUT,
        settings: Mapping[str, str] | None = None,
        machines: Mapping[int, str] | None = None,
    ) -> None:
        # Nothing is written there; how large its file system is, nodes ask the operating system.
        super().__init__(tempfile.gettempdir(), layout, SETTINGS | (settings or {}), host="localhost")
        self._topics = topics
        self._machines = machines or {}
        self._image = EMPTY_IMAGE
        self.loop = asyncio.get_running_loop()
        self.disk = NodeDisk()
        self.supervisor: NoActors = NoActors()
        """What nodes ask of actors goes there: a test may give those that start later another one."""
        self.network = Network()
        self.network.nodes = self.nodes
        self.chance = Random(0)
        self._began_s = 0.0
        self.wall_ahead_ms: dict[int, int] = {}
        """By how much the wall clock of a node has jumped."""
        self._starting: set[asyncio.Task[None]] = set()
        self._accidents: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self._accidents.append(context))

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self.create_topics(self._topics)
        self._began_s = self.loop.time()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        if exc is None:
            self.close()
        else:
            self._end()

    def _end(self) -> None:
        self.peers.close()
        for task in self._starting:
            task.cancel()
        for node_id in [*self.nodes]:
            self.kill(node_id)

    def close(self) -> None:
        """End all nodes, and see that nothing has gone wrong but what was planned."""
        self._end()
        assert not self.failures, self.failures
        assert not self._accidents, self._accidents
        assert not self.network.unused, f"faults that never happened: {self.network.unused}"

    @property
    def _disk(self) -> NodeDisk:
        return self.disk

    def _make_peers(self) -> PeersInMemory:
        return PeersInMemory(self.network)

    def _make_node(self, spec: NodeSpec) -> NodeInMemory:
        return NodeInMemory(spec, self)

    def _machine_of(self, node_id: int) -> str:
        return self._machines.get(node_id, "")

    # Time, and the incarnations of nodes

    @property
    def now_ms(self) -> int:
        return NOW_MS + int(self.loop.time() * 1000)

    @property
    def seconds(self) -> float:
        """How long the cluster has run."""
        return round(self.loop.time() - self._began_s, 6)

    def kill(self, node_id: int) -> None:
        """End a node; whoever waits for it gets no answer."""
        self._image = self.image
        self.kill_node(node_id)

    def start(self, node_id: int) -> None:
        """Begin a new incarnation of a node with what is on its disk, soon."""
        task = self.loop.create_task(self.start_node(node_id))
        self._starting.add(task)
        task.add_done_callback(self._started)

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting.discard(task)
        if not task.cancelled():
            task.result()

    def create(self, name: str, partitions: int) -> None:
        """Have a topic created, soon."""
        self.peers.ask(CONTROLLER, None, CreateTopics, (NewTopic(name, partitions),))

    async def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics, and wait until every node knows them."""
        answer = await self.ask_controller(CreateTopics, tuple(NewTopic(*topic) for topic in topics.items()))
        assert all(each.error_code is ErrorCode.NONE for each in answer.results), answer.results
        await self.until(lambda: all(topics.keys() <= node.image.topics.keys() for node in self.nodes.values()))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0.005)

    # What tests look at

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that a node knows, or one that has died."""
        return max(self._image, super().image, key=lambda image: image.version)

    @property
    def requests(self) -> list[Message]:
        """Every request that a client has sent, whatever became of it."""
        return self.peers.asked

    def asked(self, kind: type) -> list[Any]:
        return [message for message in self.network.asked if type(message) is kind]

    def committed(self, topic: str, partition: int | None = None) -> list[bytes | None]:
        """The values that a reader of committed records sees, by partition and offset."""
        names = [TopicPartition(topic, number) for number in range(len(self.image.topics[topic].partitions))]
        wanted = names if partition is None else [names[partition]]
        return [record.value for name in wanted for record in self.committed_records(name)]

    def committed_records(self, name: TopicPartition) -> list[Record]:
        logs = self.nodes[self.image.leader_of(name)].replica_manager.logs
        found = logs[name].read(0, max_bytes=2**28, isolation=Isolation.READ_COMMITTED)
        return committed_records(whole_batches(found.records), found.aborted_transactions)

    def runtime(self) -> ClientRuntime:
        return ClientRuntime(self.peers, self.image, cluster="test", wall_ms=lambda: self.now_ms)


@asynccontextmanager
async def entered(kind: type[Cluster] = ClusterInMemory, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster that is made on the loop that it runs on."""
    async with kind(**options) as world:
        yield world


@asynccontextmanager
async def client_of(world: ClusterInMemory) -> AsyncIterator[ClientRuntime]:
    """What the clients of a process share."""
    runtime = world.runtime()
    yield runtime
    runtime.close()
    runtime.view.close()


def in_world(main: Callable[..., Any], *topics: Any) -> Any:
    """Run `main(world, runtime)` in a world of its own, and see that nothing of it is left over."""

    async def run() -> Any:
        async with ClusterInMemory(*topics) as world, client_of(world) as runtime:
            return await main(world, runtime)

    return run_in_virtual_time(partial(run))
