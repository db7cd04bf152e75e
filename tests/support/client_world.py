"""A cluster in one process for clients to talk to, over a network that does what a test asks for.

Every machine of the broker is real, so is every record in every log; the disk is simulated and the clock jumps. A node
that is killed forgets everything but its disk, and comes back at higher epochs.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from random import Random
from typing import Any

import msgspec

from eagleray.broker.controller import events as controller_events
from eagleray.broker.controller.config import ControllerConfig
from eagleray.broker.controller.events import NewTopic, NodeRegistration, PlannedNode
from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.controller.metadata import answer_metadata, describe_configs
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.messages import Message
from eagleray.broker.partitions import events as leader_events
from eagleray.broker.transactions import events
from eagleray.client.runtime import ClientRuntime
from tests.support.batches import NOW_MS, whole_batches
from tests.support.client_clock import run_in_virtual_time
from tests.support.client_nodes import ControllerNode, CoordinatorNode, GroupsNode, LeaderNode, Node
from tests.support.consumer import committed_records
from tests.support.simulated_disk import SimulatedDisk

CONTROLLER, COORDINATOR, GROUPS, LEADER_A, LEADER_B = range(5)
TICK_SECONDS = 0.02
UNANSWERED_SECONDS = 0.1

PLAN = (
    PlannedNode(CONTROLLER, ("controller", "allocator", "markers")),
    PlannedNode(COORDINATOR, ("coordinator",)),
    PlannedNode(GROUPS, ("groups",)),
    PlannedNode(LEADER_A, ("leader",)),
    PlannedNode(LEADER_B, ("leader",)),
)
KINDS: dict[int, Callable[..., Node]] = {
    CONTROLLER: ControllerNode,
    COORDINATOR: CoordinatorNode,
    GROUPS: GroupsNode,
    LEADER_A: LeaderNode,
    LEADER_B: LeaderNode,
}


class Fate(enum.Enum):
    """What happens to a request of a client."""

    DELIVERED = enum.auto()
    REQUEST_LOST = enum.auto()
    REPLY_LOST = enum.auto()
    DUPLICATED = enum.auto()


class Network:
    """Decides over each request of a client; a fault that a test asked for has to be used up by its end."""

    def __init__(self) -> None:
        self._planned: list[tuple[type, Fate]] = []
        self.chance: Random | None = None
        self.loss = 0.0
        self.duplication = 0.0
        self.longest_delay_seconds = 0.0
        self.faults_used = 0

    def plan(self, kind: type, fate: Fate, times: int = 1) -> None:
        self._planned += [(kind, fate)] * times

    @property
    def unused(self) -> list[tuple[type, Fate]]:
        return self._planned

    def fate_of(self, message: Message) -> Fate:
        for place, (kind, fate) in enumerate(self._planned):
            if kind is type(message):
                del self._planned[place]
                return self._fault(fate)
        if self.chance is None:
            return Fate.DELIVERED
        drawn = self.chance.random()
        if drawn < self.loss:
            return self._fault(self.chance.choice([Fate.REQUEST_LOST, Fate.REPLY_LOST]))
        return self._fault(Fate.DUPLICATED) if drawn < self.loss + self.duplication else Fate.DELIVERED

    def _fault(self, fate: Fate) -> Fate:
        self.faults_used += fate is not Fate.DELIVERED
        return fate

    def delay_seconds(self) -> float:
        return 0.0 if self.chance is None else self.chance.random() * self.longest_delay_seconds


class ClientWorld:
    """The cluster, its network, and what happens on it."""

    plan: tuple[PlannedNode, ...] = PLAN

    def __init__(self, topics: Mapping[str, int] | None = None, *, partitions: int = 3) -> None:
        self.loop = asyncio.get_running_loop()
        self.disk = SimulatedDisk()
        self.network = Network()
        self.image: MetadataImage = EMPTY_IMAGE
        self.state_partitions = partitions
        self.offsets_partitions = partitions
        self.controller_config = ControllerConfig(
            transaction_state_log_num_partitions=partitions, offsets_topic_num_partitions=partitions
        )
        self.requests: list[Message] = []
        """Every request that a client has sent, whatever became of it."""

        self._request_ids = count(1)
        self._waiting: dict[int, tuple[int, Callable[[Any], None]]] = {}
        self._incarnations = count(1)
        self._producer_ids = 0
        self.nodes: dict[int, Node] = {node_id: kind(self, node_id) for node_id, kind in KINDS.items()}
        self._tell_controller(controller_events.PlanNodes, self.plan)
        for node_id in KINDS:
            self._register(node_id)
        for name, number in (topics or {"orders": 3, "invoices": 2}).items():
            self.create(name, number)
        self._ticker = self.loop.call_later(TICK_SECONDS, self._tick)
        self._accidents: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self._accidents.append(context))

    # Time, and the life of nodes

    @property
    def now_ms(self) -> int:
        return NOW_MS + int(self.loop.time() * 1000)

    def _tick(self) -> None:
        for node in list(self.nodes.values()):
            if node.is_alive:
                node.tick()
        self._ticker = self.loop.call_later(TICK_SECONDS, self._tick)

    def close(self) -> None:
        self._ticker.cancel()
        assert not self._accidents, self._accidents
        assert not self.network.unused, f"faults that never happened: {self.network.unused}"

    def kill(self, node_id: int) -> None:
        """End a node; whoever waits for it gets no answer."""
        self.nodes[node_id].is_alive = False
        for request_id, (asked, _) in list(self._waiting.items()):
            if asked == node_id:
                self._unanswered(request_id)

    def start(self, node_id: int) -> None:
        """Begin a new life of a node with what is on its disk."""
        self.nodes[node_id] = KINDS[node_id](self, node_id)
        self._register(node_id)

    def restart(self, node_id: int) -> None:
        self.kill(node_id)
        self.start(node_id)

    def _register(self, node_id: int) -> None:
        roles = PLAN[node_id].roles
        node = NodeRegistration(node_id, next(self._incarnations), "localhost", 9000 + node_id, roles)
        self._tell_controller(controller_events.RegisterNode, node)

    def _tell_controller(self, kind: type, *fields: object) -> None:
        request_id = next(self._request_ids)
        self._waiting[request_id] = (CONTROLLER, lambda _: None)
        self.nodes[CONTROLLER].handle(kind(request_id, *fields))

    def create(self, name: str, partitions: int) -> None:
        self._tell_controller(controller_events.CreateTopics, (NewTopic(name, partitions),))

    def image_changed(self, image: MetadataImage) -> None:
        if image is not self.image:
            self.image = image
            for node in list(self.nodes.values()):
                if node.is_alive:
                    node.follow()

    # What nodes need of each other

    def state_partition(self, transactional_id: str) -> int:
        return partition_for_name(transactional_id, self.state_partitions)

    def take_producer_ids(self) -> int:
        self._producer_ids += 1000
        return self._producer_ids - 1000

    def markers(self, effect: events.SendMarkers) -> None:
        node = self.nodes[CONTROLLER]
        assert isinstance(node, ControllerNode)
        self.loop.call_soon(node.mark, effect)

    def tell_coordinator(self, event: events.MarkersWritten) -> None:
        node = self.nodes[COORDINATOR]
        if node.is_alive:
            self.loop.call_soon(lambda: node.handle(event) if node.is_alive else None)

    def ask_node(self, node_id: int, on_reply: Callable[[Any], None], kind: type, *fields: object) -> None:
        request_id = next(self._request_ids)
        self._waiting[request_id] = (node_id, on_reply)
        self.loop.call_soon(self._deliver, node_id, kind(request_id, *fields))

    # What clients ask

    def ask(self, node_id: int, on_reply: Callable[[Any], None] | None, kind: type, *fields: object) -> None:
        """The port that a client is given."""
        request_id = next(self._request_ids)
        message = travelled(kind(request_id, *fields))
        self.requests.append(message)
        self._waiting[request_id] = (node_id, on_reply or (lambda _: None))
        fate = self.network.fate_of(message)
        delay_seconds = self.network.delay_seconds()
        if fate is Fate.REQUEST_LOST:
            self.loop.call_later(UNANSWERED_SECONDS, self._unanswered, request_id)
            return
        if fate is Fate.REPLY_LOST:
            self.loop.call_later(UNANSWERED_SECONDS, self._unanswered, request_id)
            message = msgspec.structs.replace(message, request_id=-request_id)
        self.loop.call_later(delay_seconds, self._deliver, node_id, message)
        if fate is Fate.DUPLICATED:
            again = msgspec.structs.replace(message, request_id=-request_id)
            self.loop.call_later(delay_seconds + self.network.delay_seconds(), self._deliver, node_id, again)

    def forget(self, node_ids: Iterable[int]) -> None:
        """Every question to somebody who is gone is answered by the world already."""

    def learn(self, nodes: Mapping[int, NodeRegistration]) -> None:
        """The port that a client is given; every node can be reached here."""

    def why_unreachable(self, node_id: int) -> str | None:
        """No port is closed here."""

    def _deliver(self, node_id: int, message: Message) -> None:
        node = self.nodes.get(node_id)
        if node is None or not node.is_alive:
            self.loop.call_later(UNANSWERED_SECONDS, self._unanswered, message.request_id)
        elif isinstance(message, controller_events.GetMetadata):
            self.reply(answer_metadata(self.image, message))
        elif isinstance(message, controller_events.DescribeConfigs):
            self.reply(describe_configs(self.image, message))
        else:
            node.handle(message)

    def reply(self, message: Any) -> None:
        waiting = self._waiting.pop(getattr(message, "request_id", None), None)
        if waiting is not None:
            self.loop.call_later(self.network.delay_seconds(), waiting[1], travelled(message))

    def _unanswered(self, request_id: int) -> None:
        waiting = self._waiting.pop(request_id, None)
        if waiting is not None:
            self.loop.call_soon(waiting[1], None)

    # What tests look at

    def asked(self, kind: type) -> list[Any]:
        return [message for message in self.requests if type(message) is kind]

    def committed(self, topic: str, partition: int | None = None) -> list[bytes | None]:
        """The values that a reader of committed records sees, by partition and offset."""
        names = [TopicPartition(topic, number) for number in range(len(self.image.topics[topic].partitions))]
        wanted = names if partition is None else [names[partition]]
        return [record.value for name in wanted for record in self.committed_records(name)]

    def committed_records(self, name: TopicPartition) -> list[Any]:
        node = self.nodes[self.image.leader_of(name)]
        assert isinstance(node, LeaderNode)
        request = leader_events.Fetch(
            0, (leader_events.FetchPartition(name, 0, 2**28),), Isolation.READ_COMMITTED, 0, 0, 2**28
        )
        (answer,) = node.leaders.handle([request], self.now_ms, self.now_ms)
        (found,) = answer.partitions
        return committed_records(whole_batches(found.records), found.aborted_transactions)

    def runtime(self) -> ClientRuntime:
        return ClientRuntime(self, self.image, cluster="world", wall_ms=lambda: self.now_ms)


def travelled(message: Any) -> Any:
    """What a message is on the other side of a connection."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))


def in_world(main: Callable[..., Any], *topics: Any, **options: Any) -> Any:
    """Run `main(world, runtime)` in a world of its own, and see that nothing of it is left over."""

    async def run() -> Any:
        world = ClientWorld(*topics, **options)
        runtime = world.runtime()
        result = await main(world, runtime)
        runtime.close()
        runtime.view.close()
        world.close()
        return result

    return run_in_virtual_time(partial(run))
