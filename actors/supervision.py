"""Supervision: which actors a cluster is made of, what they are called, and how they are kept running.

This is the only place that knows actors by name. Why each option is what it is:

- A namespace for each cluster: two clusters on one Ray cluster do not see each other.
- Detached: the actors belong to the cluster, not to the program that started it.
- `max_restarts=-1`: whatever ends a node's process, Ray starts another, which recovers from the node's disk.
- `max_task_retries=0`: a call that got no answer is for the asker to repeat, who knows whether it still matters.
- `num_cpus=0`: nodes wait most of the time, and a full cluster must not keep one from being restarted.
- Pinned to the Ray node that the cluster was started on: that is where the data are.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Final

import msgspec
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from eagleray.actors import ray_actors
from eagleray.actors.lanes.peers import Lane
from eagleray.actors.spec import CONTROLLER_NODE_ID, CONTROLLER_NODE_IDS, NodeSpec
from eagleray.broker.controller.nodes import PlannedNode, Role

_log = logging.getLogger(__name__)

_CONCURRENT_CALLS: Final = 1000
_STOP_S: Final = 10.0


def namespace_of(cluster: str) -> str:
    """The Ray namespace that a cluster's actors live in."""
    return f"eagleray-{cluster}"


def actor_name(node_id: int) -> str:
    """What the actor of a node is called within its namespace."""
    return f"node-{node_id}"


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes of a cluster have in common."""

    name: str
    data_dir: str
    host: str
    bind_host: str = ""
    token: bytes
    settings: dict[str, str]
    lane: Lane = Lane.DIRECT
    ray_node: str = ""
    controllers: tuple[int, ...] = (CONTROLLER_NODE_ID,)
    """The nodes of which one is the controller."""

    ports: dict[int, int] = msgspec.field(default_factory=dict)
    """Where nodes have to listen that are known to the outside."""

    port_range: tuple[int, int] | None = None
    """Where the others listen; any port is good where there is no range."""

    def node(self, planned: PlannedNode) -> NodeSpec:
        """What one of its nodes is told."""
        return NodeSpec(
            cluster=self.name,
            node_id=planned.node_id,
            roles=planned.roles,
            data_dir=self.data_dir,
            host=self.host,
            bind_host=self.bind_host,
            token=self.token,
            settings=self.settings,
            lane=self.lane,
            controllers=self.controllers,
            port=self.ports.get(planned.node_id, 0),
            port_range=self.port_range,
        )


class RaySupervisor:
    """Starts, finds and stops the actors of one cluster. Starting a node that runs already does nothing."""

    def __init__(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self._namespace = namespace_of(cluster.name)
        self._handles: dict[int, Any] = {}

    def actor_of(self, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
        """The handle of a node's actor; raises ValueError where there is none."""
        if node_id not in self._handles:
            self._handles[node_id] = find_actor(self._cluster.name, node_id)
        return self._handles[node_id]

    def start_nodes(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Start nodes side by side, and do not wait for them."""
        for node in nodes:
            actor_class = ray.remote(ray_actors.class_of(node.roles))
            self._handles[node.node_id] = actor_class.options(
                name=actor_name(node.node_id),
                namespace=self._namespace,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                max_task_retries=0,
                max_concurrency=_CONCURRENT_CALLS,
                num_cpus=0,
                enable_task_events=False,
                scheduling_strategy=self._placement(),
            ).remote(self._cluster, node)

    def _placement(self) -> Any:  # noqa: ANN401 - one of Ray's strategies
        if not self._cluster.ray_node:
            return "DEFAULT"
        return NodeAffinitySchedulingStrategy(self._cluster.ray_node, soft=False)

    def stop_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Let nodes put everything away, then end them for good; one that does not answer is ended all the same."""
        actors = []
        for node_id in node_ids:
            try:
                actors.append(self.actor_of(node_id))
            except ValueError:
                _log.info("node %s is not running", node_id)
        stopping = [actor.stop.remote() for actor in actors]
        ray.wait(stopping, num_returns=len(stopping), timeout=_STOP_S) if stopping else None
        for actor in actors:
            ray.kill(actor, no_restart=True)


def find_actor(cluster: str, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
    """The handle of a node's actor; raises ValueError where there is none."""
    return ray.get_actor(actor_name(node_id), namespace=namespace_of(cluster))


def find_controllers(cluster: str) -> dict[int, Any]:
    """The handles of the actors that could be the controller, by their nodes; raises ValueError where there is none."""
    found: dict[int, Any] = {}
    for node_id in CONTROLLER_NODE_IDS:
        with suppress(ValueError):
            found[node_id] = find_actor(cluster, node_id)
    if not found:
        raise ValueError(f"there is no controller of a cluster named {cluster!r}")
    return found


# Layouts

_FIRST_COORDINATOR: Final = 10
_FIRST_GROUPS: Final = 20
_FIRST_LEADER: Final = 30


def separate_layout(*, leaders: int, coordinators: int = 1, group_coordinators: int = 1) -> tuple[PlannedNode, ...]:
    """Every role an actor of its own."""
    return (
        PlannedNode(CONTROLLER_NODE_ID, (Role.CONTROLLER,)),
        PlannedNode(1, (Role.ALLOCATOR,)),
        PlannedNode(2, (Role.MARKERS,)),
        *(PlannedNode(_FIRST_COORDINATOR + place, (Role.COORDINATOR,)) for place in range(coordinators)),
        *(PlannedNode(_FIRST_GROUPS + place, (Role.GROUPS,)) for place in range(group_coordinators)),
        *(PlannedNode(_FIRST_LEADER + place, (Role.LEADER,)) for place in range(leaders)),
    )


def colocated_layout(*, nodes: int) -> tuple[PlannedNode, ...]:
    """An actor for each core, with a share of everything; the first has what there is one of as well."""
    shared = (Role.COORDINATOR, Role.MARKERS, Role.GROUPS, Role.LEADER)
    first = PlannedNode(CONTROLLER_NODE_ID, (Role.CONTROLLER, Role.ALLOCATOR, *shared))
    return first, *(PlannedNode(_FIRST_LEADER + place, shared) for place in range(1, nodes))
