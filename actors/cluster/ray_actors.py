"""The Ray actors: each hosts a node, and is named after its role."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

import ray

from eagleray.actors.cluster.machines import keep_copies
from eagleray.actors.common.settings import config_of
from eagleray.actors.common.storage_config import StorageConfig
from eagleray.actors.process.broker_logs import log_all, open_log
from eagleray.actors.process.loop_watch import LoopWatch
from eagleray.actors.process.memory import collect_garbage_rarely, keep_freed_memory
from eagleray.actors.process.node import Node
from eagleray.actors.process.open_files import raise_limit
from eagleray.broker.metadata.nodes import PlannedNode, ProcessRole

if TYPE_CHECKING:
    from eagleray.actors.cluster.supervision import ClusterSpec

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.02
_UNREACHABLE_S: Final = 5.0
"""How long a controller's port has to be unreachable before that is reported as why a node does not join."""


class NodeActor:
    """A node in a process of its own. Its methods are the Ray lane, and what supervision needs.

    Ray calls the constructor again in a new process whenever the last one has ended.
    """

    async def __init__(self, cluster: ClusterSpec, planned: PlannedNode) -> None:  # type: ignore[misc] # Ray awaits it
        from eagleray.actors.cluster.supervision import RaySupervisor  # noqa: PLC0415 - supervision starts these classes

        spec = cluster.node(planned)
        log_all(open_log(spec.data_dir, spec.node_id))
        raise_limit()
        storage = config_of(StorageConfig, spec.settings)
        LoopWatch(f"node {spec.node_id}", storage.storage_flush_timeout_ms).start()
        os.makedirs(cluster.data_dir, exist_ok=True)
        keep_copies(cluster.data_dir, cluster.machines, cluster.token)
        collect_garbage_rarely()
        keep_freed_memory()
        self._supervisor = RaySupervisor(cluster)
        self._node = Node(spec, self._supervisor)
        try:
            await self._node.start()
        except BaseException as error:
            _log.critical("node %s cannot start", spec.node_id, exc_info=error)
            raise

    async def attach(self) -> int:
        """Open a session of the Ray lane."""
        return self._node.ray_lane.attach()

    async def exchange(self, session: int, payload: bytes) -> bytes:
        """Take requests, and return the replies that are there."""
        return await self._node.ray_lane.exchange(session, payload)

    async def collect(self, session: int) -> bytes:
        """Return replies as soon as there are some."""
        return await self._node.ray_lane.collect(session)

    async def contact(self) -> tuple[str, int, bytes]:
        """Where the node listens, and the token: a process that may call actors may take the direct lane."""
        return self._node.spec.host, self._node.port, self._node.spec.token

    async def cluster(self) -> ClusterSpec:
        """The spec with which the nodes of this cluster are started."""
        return self._supervisor.cluster

    async def joined(self) -> str | None:
        """Return once the node has registered, or with the reason where it cannot reach the controller's port."""
        unreachable_s = 0.0
        while not self._node.is_registered:
            why = self._node.controller.why_unreachable()
            unreachable_s = 0.0 if why is None else unreachable_s + _LOOK_S
            if unreachable_s >= _UNREACHABLE_S:
                return why
            await asyncio.sleep(_LOOK_S)
        return None

    async def describe(self) -> dict[str, Any]:
        """What a status shows of this node."""
        return self._node.describe()

    async def stop(self) -> None:
        """Shut down, and end for good: the program that asked may end before it could do that."""
        await self._node.close()
        _log.info("node %s has stopped", self._node.spec.node_id)
        ray.actor.exit_actor()  # type: ignore[no-untyped-call] # Ray has not typed it


class Controller(NodeActor):
    """Topics, settings, leaders and ISRs."""


class ProducerIdAllocator(NodeActor):
    """Blocks of producer ids."""


class MarkerChannelManager(NodeActor):
    """The markers of decided transactions."""


class TransactionCoordinator(NodeActor):
    """Transactions, for its share of the transactional ids."""


class GroupCoordinator(NodeActor):
    """Groups and their offsets, for its share of the groups."""


class PartitionLeader(NodeActor):
    """The logs of the partitions that it leads."""


class ColocatedNode(NodeActor):
    """Several roles in one process."""


_CLASSES: dict[str, type[NodeActor]] = {
    ProcessRole.CONTROLLER: Controller,
    ProcessRole.ALLOCATOR: ProducerIdAllocator,
    ProcessRole.MARKERS: MarkerChannelManager,
    ProcessRole.COORDINATOR: TransactionCoordinator,
    ProcessRole.GROUPS: GroupCoordinator,
    ProcessRole.LEADER: PartitionLeader,
}


def class_of(roles: tuple[str, ...]) -> type[NodeActor]:
    """The actor class for a node with these roles."""
    return _CLASSES[roles[0]] if len(roles) == 1 else ColocatedNode
