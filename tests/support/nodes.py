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
FIRST_ON_SECOND_MACHINE = 100

COLOCATED = {
    0: ("controller", "allocator", "coordinator", "markers", "groups", "leader"),
    1: ("coordinator", "markers", "groups", "leader"),
}


EVERYTHING = ("allocator", "coordinator", "markers", "groups", "leader")
THREE_MACHINES = {
    0: ("controller", *EVERYTHING),
    100: EVERYTHING,
    200: EVERYTHING,
}
"""One node on each of three machines."""


def machine_of(node_id):
    return f"machine-{node_id // 100}"


class NoActors:
    """A supervisor without Ray."""

    def actor_of(self, node_id):
        raise LookupError(node_id)

    def start_nodes(self, nodes):
        raise NotImplementedError

    def stop_nodes(self, node_ids):
        raise NotImplementedError

    def plan_changed(self, plan):
        pass


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
        self.has_machines = any(node_id >= FIRST_ON_SECOND_MACHINE for node_id in layout)

    async def __aenter__(self):
        await self.start_node(0)
        controller = self.nodes[0]
        self.peers = Peers(token=self.token, lane=Lane.DIRECT, timeout_s=10)
        self.peers.learn({0: controller.registration})
        await self.plan()
        for node_id in self.layout:
            if node_id:
                await self.start_node(node_id)
        await self.until_registered()
        return self

    async def plan(self):
        """Have the controller take over the layout."""
        plan = tuple(
            PlannedNode(node_id, roles, machine=self._machine_of(node_id)) for node_id, roles in self.layout.items()
        )
        answer = await self.peers.call(0, PlanNodes, plan)
        assert answer.error_code is ErrorCode.NONE, answer.message

    def _machine_of(self, node_id):
        return machine_of(node_id) if self.has_machines else ""

    async def start_node(self, node_id):
        machine = self._machine_of(node_id)
        spec = NodeSpec(
            cluster="test",
            node_id=node_id,
            roles=self.layout[node_id],
            data_dir=f"{self.data_dir}/{machine}" if machine else self.data_dir,
            machine=machine,
            controllers=tuple(each for each, roles in self.layout.items() if "controller" in roles),
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

    async def kill_node(self, node_id):
        """End a node as kill -9 does: nothing is put away, and the operating system takes the locks back."""
        node = self.nodes.pop(node_id)
        node.timer.stop()
        for task in [*node._tasks]:
            task.cancel()
        node.sessions.end_all()
        await node.listener.close()
        node.peers.close()
        logs = [node.replicas.logs, *(shell._logs for shell in node._shells if hasattr(shell, "_logs"))]
        for lock in [*(lock for each in logs for lock in each._locks.values()), node._lock]:
            lock.release()

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
