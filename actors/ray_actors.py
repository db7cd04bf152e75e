"""The Ray actors: each hosts a node, and is named for the role that it plays."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import ray

from eagleray.actors.machines import keep_copies
from eagleray.actors.memory import collect_garbage_rarely, keep_freed_memory
from eagleray.actors.node import Node
from eagleray.actors.settings import spare_workers_config
from eagleray.actors.spare_workers import RayWorkers, SpareWorkers
from eagleray.broker.controller.nodes import PlannedNode, Role

if TYPE_CHECKING:
    from eagleray.actors.supervision import ClusterSpec


class NodeActor:
    """A node in a process of its own. Its methods are the Ray lane, and what supervision needs.

    Ray calls the constructor again in a new process whenever the last one ended.
    """

    async def __init__(self, cluster: ClusterSpec, planned: PlannedNode) -> None:  # type: ignore[misc] # Ray awaits it
        from eagleray.actors.supervision import RaySupervisor  # noqa: PLC0415 - supervision starts these classes

        os.makedirs(cluster.data_dir, exist_ok=True)
        keep_copies(cluster.data_dir, cluster.machines, cluster.token)
        collect_garbage_rarely()
        keep_freed_memory()
        self._supervisor = RaySupervisor(cluster)
        self._node = Node(cluster.node(planned), self._supervisor)
        await self._node.start()
        spares = SpareWorkers(RayWorkers, spare_workers_config(cluster.settings).spare_worker_processes)
        self._keeping_spares = asyncio.create_task(spares.keep(self._node))

    async def attach(self) -> int:
        """Begin a session of the Ray lane."""
        return self._node.ray_lane.attach()

    async def exchange(self, session: int, payload: bytes) -> bytes:
        """Take questions, and give the answers that are there."""
        return await self._node.ray_lane.exchange(session, payload)

    async def collect(self, session: int) -> bytes:
        """Give answers as soon as there are some."""
        return await self._node.ray_lane.collect(session)

    async def contact(self) -> tuple[str, int, bytes]:
        """Where the node listens, and the token: whoever may call actors may take the direct lane."""
        return self._node.spec.host, self._node.port, self._node.spec.token

    async def cluster(self) -> ClusterSpec:
        """What nodes of this cluster are started with."""
        return self._supervisor.cluster

    async def describe(self) -> dict[str, Any]:
        """What a status shows of this node."""
        return self._node.describe()

    async def stop(self) -> None:
        """Put everything away, and end for good: whoever asked may end before it can see to that."""
        self._keeping_spares.cancel()
        await self._node.close()
        ray.actor.exit_actor()  # type: ignore[no-untyped-call] # Ray has not typed it


class Controller(NodeActor):
    """Topics, settings, who leads what."""


class ProducerIdAllocator(NodeActor):
    """Blocks of producer ids."""


class MarkerChannelManager(NodeActor):
    """The markers of decided transactions."""


class TransactionCoordinator(NodeActor):
    """Transactions, for its share of the transactional ids."""


class GroupCoordinator(NodeActor):
    """Offsets, for its share of the groups."""


class PartitionLeader(NodeActor):
    """The logs of the partitions that it leads."""


class ColocatedNode(NodeActor):
    """Several roles in one process."""


_CLASSES: dict[str, type[NodeActor]] = {
    Role.CONTROLLER: Controller,
    Role.ALLOCATOR: ProducerIdAllocator,
    Role.MARKERS: MarkerChannelManager,
    Role.COORDINATOR: TransactionCoordinator,
    Role.GROUPS: GroupCoordinator,
    Role.LEADER: PartitionLeader,
}


def class_of(roles: tuple[str, ...]) -> type[NodeActor]:
    """The actor class for a node with these roles."""
    return _CLASSES[roles[0]] if len(roles) == 1 else ColocatedNode
