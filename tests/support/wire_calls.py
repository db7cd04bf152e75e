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

from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.spec import NodeSpec
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import NodeRegistration
from eagleray.broker.messages import Message
from eagleray.protocol.codec import APIS, decode_message, encode_message
from tests.support.client_clock import run_in_virtual_time
from tests.support.client_world import LEADER_A, PLAN, ClientWorld

DATA_ROLES = {"leader", "coordinator", "groups"}


class WorldPeers:
    """The port by which a node asks the others, on the network of a world."""

    def __init__(self, world: ClientWorld) -> None:
        self._world = world

    async def call(self, node_id: int, message_type: Callable[..., Message], *fields: object) -> Any:
        answered: asyncio.Future[Any] = self._world.loop.create_future()
        self._world.ask(node_id, lambda reply: answered.done() or answered.set_result(reply), message_type, *fields)
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


def travelled(message: Any, version: int) -> Any:
    """What a message is on the other side of a connection."""
    return decode_message(type(message), version, encode_message(message, version))


def in_wire_world(main: Callable[[WireWorld], Any], *topics: Any, settings: dict[str, str] | None = None) -> Any:
    """Run `main(world)` in a world of its own, and see that nothing of it is left over."""

    async def run() -> Any:
        world = WireWorld(*topics)
        world.settings = settings or {}
        result = await main(world)
        world.close()
        return result

    return run_in_virtual_time(partial(run))
