"""Supervision: which actors a cluster is made of, what they are called, and how they are kept running.

This is the only place that knows actors by name. Why each option is what it is:

- A namespace for each cluster: two clusters on one Ray cluster do not see each other.
- Detached: the actors belong to the cluster, not to the program that started it.
- `max_restarts=-1`: whatever ends a node's process, Ray starts another, which recovers from the node's disk.
- `max_task_retries=0`: a call that got no answer is for the asker to repeat, who knows whether it still matters.
- `num_cpus=0`: nodes wait most of the time, and a full cluster must not keep one from being restarted.
- Pinned to the address of its machine: that is where the data are. A machine that was lost comes back as another Ray
  node, at the same address; until then Ray keeps the actor waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import ray

from eagleray.actors import ray_actors
from eagleray.actors.lanes.peers import Lane
from eagleray.actors.machines import Machine, data_dir_of, keep_copies, machines_of
from eagleray.actors.spec import CONTROLLER_NODE_ID, NodeSpec
from eagleray.broker.controller.nodes import PlannedNode, Role

_log = logging.getLogger(__name__)

_CONCURRENT_CALLS: Final = 1000
_STOP_S: Final = 10.0
_ACTOR_NAME: Final = "node-"
_NAMESPACE: Final = "eagleray-"


def namespace_of(cluster: str) -> str:
    """The Ray namespace that a cluster's actors live in."""
    return f"{_NAMESPACE}{cluster}"


def clusters_in(namespaces: Iterable[str]) -> tuple[str, ...]:
    """The names of the clusters whose actors live in some of these namespaces of a Ray cluster."""
    return tuple(sorted({each.removeprefix(_NAMESPACE) for each in namespaces if each.startswith(_NAMESPACE)}))


def actor_name(node_id: int) -> str:
    """What the actor of a node is called within its namespace."""
    return f"{_ACTOR_NAME}{node_id}"


class ClusterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes of a cluster have in common."""

    name: str
    data_dir: str
    host: str
    bind_host: str = ""
    token: bytes
    settings: dict[str, str]
    lane: Lane = Lane.DIRECT
    machines: tuple[Machine, ...] = ()
    """Where its nodes run, each machine in its place; none where nodes are only found and stopped."""

    controllers: tuple[int, ...] = (CONTROLLER_NODE_ID,)
    ports: dict[int, int] = msgspec.field(default_factory=dict)
    """Where nodes have to listen that are known to the outside."""

    port_range: tuple[int, int] | None = None
    """Where the others listen; any port is good where there is no range."""

    def node(self, planned: PlannedNode) -> NodeSpec:
        """What one of its nodes is told."""
        machine = self.machine_of(planned)
        is_alone = len(self.machines) == 1
        return NodeSpec(
            cluster=self.name,
            node_id=planned.node_id,
            roles=planned.roles,
            data_dir=data_dir_of(self.data_dir, machine, len(self.machines)),
            host=self.host if is_alone else machine.address,
            bind_host=self.bind_host,
            token=self.token,
            settings=self.settings,
            lane=self.lane,
            port=self.ports.get(planned.node_id, 0),
            machine="" if is_alone else machine.address,
            controllers=self.controllers,
            port_range=self.port_range,
        )

    def machine_of(self, planned: PlannedNode) -> Machine:
        """Where a node runs: a plan that names no machine means the first."""
        return next((each for each in self.machines if each.address == planned.machine), self.machines[0])


class RaySupervisor:
    """Starts, finds and stops the actors of one cluster. Starting a node that runs already does nothing.

    Owns: `cluster`, what nodes are started with. On a machine of the cluster it writes down those that are added.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self.cluster = cluster
        self._namespace = namespace_of(cluster.name)
        self._handles: dict[int, Any] = {}

    def actor_of(self, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
        """The handle of a node's actor; raises ValueError where there is none."""
        if node_id not in self._handles:
            self._handles[node_id] = find_actor(self.cluster.name, node_id)
        return self._handles[node_id]

    def start_nodes(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Start nodes side by side, and do not wait for them."""
        for node in nodes:
            self._start(node, get_if_exists=True)

    def start_first(self, node: PlannedNode) -> None:
        """Start the node with which a cluster begins; raises ValueError where its actor is there, of another start."""
        self._start(node, get_if_exists=False)

    def _start(self, node: PlannedNode, *, get_if_exists: bool) -> None:
        actor_class = ray.remote(ray_actors.class_of(node.roles))
        self._handles[node.node_id] = actor_class.options(
            name=actor_name(node.node_id),
            namespace=self._namespace,
            lifetime="detached",
            get_if_exists=get_if_exists,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_CONCURRENT_CALLS,
            num_cpus=0,
            resources=self.cluster.machine_of(node).resources,
            enable_task_events=False,
        ).remote(self.cluster, node)

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

    def plan_changed(self, plan: Iterable[PlannedNode]) -> None:
        """Know the machines that were added since the cluster was started, and have them found when it is again."""
        known, planned = self.cluster.machines, machines_of(plan)
        # A machine with another address is what the next start was told, and the plan is about to be.
        if len(planned) > len(known) and planned[: len(known)] == known:
            self.cluster = msgspec.structs.replace(self.cluster, machines=planned)
            keep_copies(self.cluster.data_dir, planned, self.cluster.token)


def find_actor(cluster: str, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
    """The handle of a node's actor; raises ValueError where there is none."""
    return ray.get_actor(actor_name(node_id), namespace=namespace_of(cluster))


def running_nodes(cluster: str) -> tuple[int, ...]:
    """The nodes whose actors there are, in the order of their ids; also those that Ray is about to start again."""
    namespace = namespace_of(cluster)
    named = ray.util.list_named_actors(all_namespaces=True)
    names = (actor["name"] for actor in named if actor["namespace"] == namespace)
    return tuple(sorted(int(name.removeprefix(_ACTOR_NAME)) for name in names if name.startswith(_ACTOR_NAME)))


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
