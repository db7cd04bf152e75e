"""The nodes of a cluster in this process, on one loop."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self, TypeAlias

from eagleray.actors.common.controller_channel import ControllerAnswer, ControllerChannel
from eagleray.actors.common.spec import NodeSpec
from eagleray.actors.lanes.link import Fields, RequestType
from eagleray.actors.lanes.peers import Peers, Unanswered
from eagleray.actors.storage.data_directory import format_directory
from eagleray.actors.storage.disk import Disk, LocalDisk
from eagleray.broker.controller.events import PlanNodes
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime
from eagleray.protocol.errors import ErrorCode
from eagleray.testing.local_node import LocalNode

Layout: TypeAlias = Mapping[int, tuple[str, ...]]
"""The roles of each node. Node 0 is a controller; nodes 100 to 199 are on a second machine, and so on."""

EVERYTHING: Final = ("allocator", "coordinator", "markers", "groups", "leader")
COLOCATED: Final[Layout] = {
    0: ("controller", *EVERYTHING),
    1: ("coordinator", "markers", "groups", "leader"),
}
SEPARATE: Final[Layout] = {
    0: ("controller",),
    1: ("allocator",),
    2: ("markers",),
    3: ("coordinator",),
    4: ("groups",),
    5: ("leader",),
    6: ("leader",),
}
THREE_MACHINES: Final[Layout] = {0: ("controller", *EVERYTHING), 100: EVERYTHING, 200: EVERYTHING}

_NODES_A_MACHINE: Final = 100
_ANSWER_S: Final = 10.0
_LOOK_S: Final = 0.01


class LocalCluster:
    """A cluster of real nodes that listen on this host and keep their logs in a directory.

    Owns: the nodes, and `peers`, by which its clients reach them. Nodes are started, stopped and killed one by one;
    what one has written is there when it starts again, in this cluster or in another one on the same directory. A node
    that fails, as it would end its process, makes the end of the `async with` block raise.
    """

    peers: Peers

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        layout: Layout = COLOCATED,
        settings: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port_range: tuple[int, int] | None = None,
    ) -> None:
        self.data_dir = os.fspath(data_dir)
        self.layout = layout
        self.settings = dict(settings or {})
        self.nodes: dict[int, LocalNode] = {}
        self.failures: list[BaseException] = []
        self.token = secrets.token_bytes(32)
        self._host = host
        self._port_range = port_range

    @property
    def bootstrap_servers(self) -> str:
        """Where Kafka's clients find the nodes that run: at the first listener, where there are several."""
        return ",".join(node.registration.bootstrap_address for node in self.nodes.values())

    def bootstrap_servers_of(self, listener_name: str) -> str:
        """Where Kafka's clients find a listener of the nodes that run."""
        found = (node.registration.endpoint(listener_name) for node in self.nodes.values())
        return ",".join(f"{endpoint.host}:{endpoint.port}" for endpoint in found if endpoint is not None)

    def connect(self) -> AsyncCluster:
        """Connect clients of the running loop; the caller closes them before the cluster ends."""
        return AsyncCluster(ClientRuntime(self.peers, self.image, cluster="test"))

    @property
    def image(self) -> MetadataImage:
        """The newest metadata that a node knows."""
        images = (node.image for node in self.nodes.values())
        return max(images, key=lambda image: image.version, default=EMPTY_IMAGE)

    async def __aenter__(self) -> Self:
        self.peers = self._make_peers()
        first = self._spec_of(self._controllers[0])
        format_directory(self._disk, first.data_dir, first.node_id)
        try:
            for node_id in self._controllers:
                await self.start_node(node_id)
            await self.plan()
            for node_id in [each for each in self.layout if each not in self.nodes]:
                await self.start_node(node_id)
            await self.until_registered()
        except BaseException:
            await self._stop_all()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._stop_all()
        if self.failures:
            raise self.failures[0]

    async def _stop_all(self) -> None:
        self.peers.close()
        for node_id in [*self.nodes]:
            with suppress(Exception):
                await self.stop_node(node_id)

    async def plan(self) -> None:
        """Have the controller take over the layout."""
        plan = tuple(
            PlannedNode(node_id, roles, machine=self._machine_of(node_id)) for node_id, roles in self.layout.items()
        )
        answer = await self.ask_controller(PlanNodes, plan)
        assert answer.error_code is ErrorCode.NONE, answer.message

    async def ask_controller(
        self, message_type: RequestType[Fields, ControllerAnswer], /, *fields: Fields.args, **named: Fields.kwargs
    ) -> ControllerAnswer:
        """Ask the controller until it answers, whichever node that is by then."""
        controller = ControllerChannel(self.peers, self._controllers)
        while True:
            try:
                return await controller.call(message_type, *fields, **named)
            except Unanswered:
                await asyncio.sleep(_LOOK_S)

    async def start_node(self, node_id: int) -> None:
        """Start a node with what its directory has."""
        node = self._make_node(self._spec_of(node_id))
        node.peers.learn({each: known.registration for each, known in self.nodes.items()})
        await node.start()
        self.nodes[node_id] = node
        # Without Ray there is no other way to a node than to know where it listens.
        for peers in (self.peers, *(each.peers for each in self.nodes.values())):
            peers.learn({node_id: node.registration})

    async def stop_node(self, node_id: int) -> None:
        """End a node in good order."""
        await self.nodes.pop(node_id).close()

    def kill_node(self, node_id: int) -> None:
        """End a node as kill -9 does."""
        self.nodes.pop(node_id).kill()

    async def restart_node(self, node_id: int) -> None:
        """Kill a node, start it again, and wait until it is part of the cluster."""
        self.kill_node(node_id)
        await self.start_node(node_id)
        await self.until_registered()

    async def until_registered(self) -> None:
        """Wait until every node that runs is part of the cluster; a node that has failed ends it."""
        while not all(node.is_registered for node in self.nodes.values()):
            if self.failures:
                raise self.failures[0]
            await asyncio.sleep(_LOOK_S)
        self.peers.learn(self.image.nodes)

    @property
    def _disk(self) -> Disk:
        return LocalDisk()

    @property
    def _controllers(self) -> tuple[int, ...]:
        return tuple(each for each, roles in self.layout.items() if "controller" in roles)

    def _make_peers(self) -> Peers:
        return Peers(token=self.token, timeout_s=_ANSWER_S)

    def _make_node(self, spec: NodeSpec) -> LocalNode:
        return LocalNode(spec, self.failures)

    def _spec_of(self, node_id: int) -> NodeSpec:
        machine = self._machine_of(node_id)
        return NodeSpec(
            cluster="test",
            node_id=node_id,
            roles=self.layout[node_id],
            data_dir=f"{self.data_dir}/{machine}" if machine else self.data_dir,
            machine=machine,
            controllers=self._controllers,
            host=self._host,
            bind_host="127.0.0.1",
            token=self.token,
            settings=self.settings,
            port_range=self._port_range,
        )

    def _machine_of(self, node_id: int) -> str:
        has_machines = any(each >= _NODES_A_MACHINE for each in self.layout)
        return f"machine-{node_id // _NODES_A_MACHINE}" if has_machines else ""
