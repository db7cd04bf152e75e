"""Nodes of a cluster in this very process, on one loop, with real listeners and real disks; no Ray."""

import asyncio
import secrets
from contextlib import suppress

from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.actors.node import Node
from eagleray.actors.spec import NodeSpec
from eagleray.broker.controller.events import PlanNodes
from eagleray.broker.controller.nodes import PlannedNode
from eagleray.protocol.errors import ErrorCode

SEPARATE = {
    0: ("controller",),
    1: ("allocator",),
    2: ("markers",),
    3: ("coordinator",),
    4: ("groups",),
    5: ("leader",),
    6: ("leader",),
}
COLOCATED = {
    0: ("controller", "allocator", "coordinator", "markers", "groups", "leader"),
    1: ("coordinator", "markers", "groups", "leader"),
}


class NoActors:
    """A supervisor without Ray."""

    def actor_of(self, node_id):
        raise LookupError(node_id)

    def start_nodes(self, nodes):
        raise NotImplementedError

    def stop_nodes(self, node_ids):
        raise NotImplementedError


class FailingNode(Node):
    """A node that leaves the process alone when it fails, and lets the test fail instead."""

    def __init__(self, spec, supervisor, failures):
        self._failures = failures
        super().__init__(spec, supervisor)

    def fail(self, error):
        self._failures.append(error)
        raise error


class NodesInProcess:
    def __init__(self, data_dir, layout=SEPARATE, settings=None, host="127.0.0.1", port_range=None):
        self.data_dir = str(data_dir)
        self.layout = layout
        self.host = host
        self.port_range = port_range
        self.token = secrets.token_bytes(32)
        self.settings = settings or {}
        self.nodes = {}
        self.failures = []

    async def __aenter__(self):
        await self.start_node(0)
        controller = self.nodes[0]
        self.peers = Peers(token=self.token, lane=Lane.DIRECT, timeout_s=10)
        self.peers.learn({0: controller.registration})
        plan = tuple(PlannedNode(node_id, roles) for node_id, roles in self.layout.items())
        answer = await self.peers.call(0, PlanNodes, plan)
        assert answer.error_code is ErrorCode.NONE, answer.message
        for node_id in self.layout:
            if node_id:
                await self.start_node(node_id)
        await self.until_registered()
        return self

    async def start_node(self, node_id):
        spec = NodeSpec(
            cluster="test",
            node_id=node_id,
            roles=self.layout[node_id],
            data_dir=self.data_dir,
            host=self.host,
            bind_host="127.0.0.1",
            token=self.token,
            settings=self.settings,
            port_range=self.port_range,
        )
        node = FailingNode(spec, NoActors(), self.failures)
        if node_id:
            # Without Ray there is no other way to the controller than to know where it listens.
            node.peers.learn({0: self.nodes[0].registration})
        await node.start()
        self.nodes[node_id] = node

    async def stop_node(self, node_id):
        await self.nodes.pop(node_id).close()

    async def until_registered(self):
        while not all(node.is_registered for node in self.nodes.values()):
            await asyncio.sleep(0.01)
        self.peers.learn(self.nodes[0].image.nodes)

    async def __aexit__(self, *exc):
        self.peers.close()
        for node_id in [*self.nodes]:
            with suppress(Exception):
                await self.stop_node(node_id)
        if self.failures:
            raise self.failures[0]
