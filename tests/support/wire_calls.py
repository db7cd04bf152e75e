"""Requests of Kafka's clients to the nodes of a small cluster, without connections.

The machines of the broker are real (see client_world); each request and each answer goes through the codec, so that a
handler sees what a version can say, and says nothing that it cannot.
"""

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import msgspec

from eagleray.actors.controller_finder import ControllerFinder
from eagleray.actors.lanes.catalog import NODE_REQUESTS, REQUESTS
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.messages import WriteGroupMarkers
from eagleray.actors.spec import CONTROLLER_NODE_ID, NodeSpec
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import NodeRegistration, Role
from eagleray.broker.groups.events import CommitOffsets, OffsetToCommit
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Message
from eagleray.broker.partitions.events import Produce, WriteMarkers
from eagleray.broker.transactions.events import AddPartitions, InitProducerId
from eagleray.protocol.codec import APIS, decode_message, encode_message
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import data_batch
from tests.support.client_clock import run_in_virtual_time
from tests.support.client_nodes import LeaderNode
from tests.support.client_world import COORDINATOR, GROUPS, LEADER_A, LEADER_B, PLAN, ClientWorld

DATA_ROLES = {"leader", "coordinator", "groups"}


class WorldPeers:
    """The port by which a node asks the others, on the network of a world."""

    def __init__(self, world: ClientWorld) -> None:
        self._world = world

    def ask(
        self, node_id: int, on_reply: Any, message_type: Callable[..., Message], *fields: object, **named: object
    ) -> None:
        kind = partial(message_type, **named) if named else message_type
        self._world.ask(node_id, on_reply, kind, *fields)  # type: ignore[arg-type] # it is called as a class is

    async def call(self, node_id: int, message_type: Callable[..., Message], *fields: object, **named: object) -> Any:
        answered: asyncio.Future[Any] = self._world.loop.create_future()
        self.ask(node_id, lambda reply: answered.done() or answered.set_result(reply), message_type, *fields, **named)
        reply = await answered
        if reply is None:
            raise Unanswered(f"node {node_id} did not answer {message_type}")
        return reply


class WorldHost:
    """One node of a world, as handlers see it."""

    def __init__(self, world: ClientWorld, node_id: int, settings: dict[str, str]) -> None:
        self._world = world
        self.loop = world.loop
        self.peers = WorldPeers(world)
        self.controller = ControllerFinder(self.peers, (CONTROLLER_NODE_ID,))  # type: ignore[arg-type] # a fake
        self.spec = NodeSpec(
            cluster="world",
            node_id=node_id,
            roles=PLAN[node_id].roles,
            data_dir=tempfile.gettempdir(),
            host="localhost",
            token=b"",
            settings=settings,
        )

    @property
    def image(self) -> MetadataImage:
        return self._world.image

    @property
    def replicas(self) -> "WorldHost":
        return self

    def size_of(self, partition: TopicPartition) -> int | None:
        node = self._world.nodes[self.spec.node_id]
        log = node.logs.get(partition) if isinstance(node, LeaderNode) else None
        return None if log is None else log.size_bytes

    def now_ms(self) -> int:
        return self._world.now_ms


class WorldBrokers:
    def __init__(self, image: MetadataImage) -> None:
        self.brokers: dict[int, NodeRegistration] = {
            node_id: node for node_id, node in image.nodes.items() if DATA_ROLES.intersection(node.roles)
        }
        self.controller_id = LEADER_A


class WireCall(msgspec.Struct):
    """What a handler gets beside its request."""

    host: WorldHost
    api_version: int
    advertised: WorldBrokers
    client_id: str | None = "a-client"
    client_host: str = "10.0.0.1"


class WireWorld(ClientWorld):
    """A world whose nodes have handlers."""

    settings: dict[str, str] = {}  # noqa: RUF012 - a test puts its own in its place

    async def request(self, handler: ModuleType, request: Any, *, node: int = LEADER_A, version: int = -1) -> Any:
        """Send a request to a node, in the newest version unless told otherwise, and return what comes back."""
        api = APIS[request.wire.api_key]
        version = api.versions[1] if version == -1 else version
        call = WireCall(WorldHost(self, node, self.settings), version, WorldBrokers(self.image))
        response = await handler.handle(travelled(request, version), call)
        assert type(response) is api.response
        return travelled(response, version)

    def _deliver(self, node_id: int, message: Message) -> None:
        """Let a node have what one of its roles takes, as a real one does."""
        taken = {kind for role in PLAN[node_id].roles for kind in (*REQUESTS[Role(role)], *NODE_REQUESTS)}
        if type(message) not in taken:
            self._unanswered(message.request_id)
        elif isinstance(message, WriteGroupMarkers):
            super()._deliver(node_id, WriteMarkers(message.request_id, message.markers))
        else:
            super()._deliver(node_id, message)

    # What there has to be before it can be described

    def ask_node_for(self, node: int, message_type: Callable[..., Message], *fields: object) -> Any:
        """Ask a role of a node for something, as its peers do."""
        return WorldPeers(self).call(node, message_type, *fields)

    async def produce(self, partition: TopicPartition, count: int = 1) -> None:
        batch = bytes(data_batch(count=count).view)
        reply = await self.ask_node_for(self.image.leader_of(partition), Produce, partition, batch)
        assert reply.error_code is ErrorCode.NONE, reply

    async def open_transaction(self, transactional_id: str, *partitions: TopicPartition) -> ProducerIdentity:
        """Begin a transaction that has written a record to each partition."""
        reply = await self.ask_node_for(COORDINATOR, InitProducerId, transactional_id)
        producer: ProducerIdentity = reply.producer
        await self.ask_node_for(COORDINATOR, AddPartitions, transactional_id, producer, partitions)
        for partition in partitions:
            await self.write_in_transaction(transactional_id, producer, partition)
        return producer

    async def write_in_transaction(self, transactional_id: str, producer: Any, partition: TopicPartition) -> None:
        batch = data_batch(producer_id=producer.producer_id, epoch=producer.epoch, sequence=0, transactional=True)
        fields = (partition, bytes(batch.view), -1, transactional_id)
        reply = await self.ask_node_for(self.image.leader_of(partition), Produce, *fields)
        assert reply.error_code is ErrorCode.NONE, reply

    async def commit_offset(self, group: str, partition: TopicPartition, offset: int) -> None:
        offsets = (OffsetToCommit(partition, offset),)
        reply = await self.ask_node_for(GROUPS, CommitOffsets, group, offsets)
        assert reply.error_code is ErrorCode.NONE, reply


def travelled(message: Any, version: int) -> Any:
    """What a message is on the other side of a connection."""
    return decode_message(type(message), version, encode_message(message, version))


class TwoMachines(WireWorld):
    """A world whose leaders are on a machine each; LEADER_A shares its own with the others."""

    plan = tuple(
        msgspec.structs.replace(node, machine="second" if node.node_id == LEADER_B else "first") for node in PLAN
    )


def in_wire_world(
    main: Callable[[WireWorld], Any],
    *topics: Any,
    settings: dict[str, str] | None = None,
    kind: type[WireWorld] = WireWorld,
) -> Any:
    """Run `main(world)` in a world of its own, and see that nothing of it is left over."""

    async def run() -> Any:
        world = kind(*topics)
        world.settings = settings or {}
        result = await main(world)
        world.close()
        return result

    return run_in_virtual_time(partial(run))
