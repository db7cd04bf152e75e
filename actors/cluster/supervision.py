"""Supervision: which actors a cluster is made of, what they are called, and how they are kept running.

This is the only place that knows actors by name. Why each option is what it is:

- A namespace for each cluster: two clusters on one Ray cluster do not see each other.
- Detached: the actors belong to the cluster, not to the program that started it.
- `max_restarts=-1`: whatever ends a node's process, Ray starts another, which recovers from the node's disk.
- `max_task_retries=0`: a call that got no answer is for the asker to repeat, who knows whether it still matters.
- `num_cpus=0`: nodes wait most of the time, and a full cluster must not keep one from being restarted.
- Pinned to the address of its machine: that is where the data are. A machine that was lost comes back as another Ray
  node, at the same address; until then Ray keeps the actor waiting.

The actor that calls resolvers (`ResolverCaller`) is started when there is one to be called, and is no node: it has no
data, so Ray may start it wherever there is room; one does for the cluster, because it waits most of the time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
import ray
from ray.exceptions import RayError

from eagleray.actors.cluster import ray_actors
from eagleray.actors.cluster.machines import Machine, data_dir_of, keep_copies, machines_of
from eagleray.actors.cluster.resolver_caller import ResolverCaller
from eagleray.actors.common.spec import CONTROLLER_NODE_ID, NodeSpec
from eagleray.actors.lanes.peers import Lane
from eagleray.actors.roles.resolver_calls import ResolverVerdict
from eagleray.broker.metadata.nodes import PlannedNode, ProcessRole
from eagleray.broker.transactions.resolver import OUR_NAMESPACES
from eagleray.broker.transactions.resolver_events import AskResolver

_log = logging.getLogger(__name__)

_encode_question = msgspec.msgpack.Encoder().encode
_decode_verdict = msgspec.msgpack.Decoder(ResolverVerdict).decode

_STOP_S: Final = 10.0
_ACTOR_NAME: Final = "node-"
_RESOLVER_CALLER: Final = "resolver-caller"
_NAMESPACE: Final = OUR_NAMESPACES
_OPTIONS: Final[dict[str, Any]] = {
    "lifetime": "detached",
    "max_restarts": -1,
    "max_task_retries": 0,
    "max_concurrency": 1000,
    "num_cpus": 0,
    "enable_task_events": False,
}
"""What all actors of a cluster have in common."""


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
    """Where nodes have to listen whose ports are known to the outside."""

    port_range: tuple[int, int] | None = None
    """Where the others listen; any port where there is no range."""

    def __repr__(self) -> str:
        return f"ClusterSpec(cluster {self.name!r}, with a token that is secret)"

    def node(self, planned: PlannedNode) -> NodeSpec:
        """Return the spec of one of its nodes."""
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

    Owns: `cluster`, the spec with which nodes are started. On a machine of the cluster it records those that are added.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self.cluster = cluster
        self._namespace = namespace_of(cluster.name)
        self._handles: dict[int, Any] = {}
        self._caller: Any = None
        self._questions: set[asyncio.Task[None]] = set()

    def actor_of(self, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
        """The handle of a node's actor; raises ValueError where there is none."""
        if node_id not in self._handles:
            self._handles[node_id] = find_actor(self.cluster.name, node_id)
        return self._handles[node_id]

    def start_nodes(self, nodes: tuple[PlannedNode, ...]) -> None:
        """Start nodes side by side, without waiting for them."""
        for node in nodes:
            self._start(node, get_if_exists=True)

    def start_first(self, node: PlannedNode) -> None:
        """Start the first node of a cluster; raises ValueError where its actor is there already, from another start."""
        self._start(node, get_if_exists=False)

    def _start(self, node: PlannedNode, *, get_if_exists: bool) -> None:
        actor_class = ray.remote(ray_actors.class_of(node.roles))
        self._handles[node.node_id] = actor_class.options(
            name=actor_name(node.node_id),
            namespace=self._namespace,
            get_if_exists=get_if_exists,
            resources=self.cluster.machine_of(node).resources,
            **_OPTIONS,
        ).remote(self.cluster, node)

    def stop_nodes(self, node_ids: tuple[int, ...]) -> None:
        """Let nodes shut down, then end them for good; one that does not answer is ended all the same."""
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
        """Learn the machines that were added since the cluster was started, and record them for the next start."""
        known, planned = self.cluster.machines, machines_of(plan)
        # A machine with another address is what the next start was given, and the plan is about to follow.
        if len(planned) > len(known) and planned[: len(known)] == known:
            self.cluster = msgspec.structs.replace(self.cluster, machines=planned)
            keep_copies(self.cluster.data_dir, planned, self.cluster.token)

    # Resolvers

    def ask_resolver(self, question: AskResolver, then: Callable[[ResolverVerdict], None]) -> None:
        """Have a named actor of an application asked, by the actor that calls resolvers; `then` is called once."""
        task = asyncio.get_running_loop().create_task(self._ask_resolver(question, then))
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _ask_resolver(self, question: AskResolver, then: Callable[[ResolverVerdict], None]) -> None:
        try:
            async with asyncio.timeout(question.timeout_ms / 1000):
                if self._caller is None:
                    # It asks Ray's head, which may take its time, and the node has others to serve.
                    self._caller = await asyncio.to_thread(self._find_caller)
                verdict = _decode_verdict(await self._caller.ask.remote(_encode_question(question)))
        except TimeoutError:
            verdict = ResolverVerdict(None, "it has not answered in time")
        except (RayError, msgspec.MsgspecError, ValueError) as error:
            # One that was ended for good is looked for, and started, by its name next time.
            self._caller = None
            verdict = ResolverVerdict(None, f"the actor that calls resolvers is gone: {type(error).__name__}")
        then(verdict)

    def _find_caller(self) -> Any:  # noqa: ANN401 - an actor's handle
        options = {"name": _RESOLVER_CALLER, "namespace": self._namespace, "get_if_exists": True, **_OPTIONS}
        return ray.remote(ResolverCaller).options(**options).remote()

    def stop_resolver_caller(self) -> None:
        """End the actor that calls resolvers, where there is one."""
        with suppress(ValueError):
            ray.kill(ray.get_actor(_RESOLVER_CALLER, namespace=self._namespace), no_restart=True)


def find_actor(cluster: str, node_id: int) -> Any:  # noqa: ANN401 - an actor's handle
    """The handle of a node's actor; raises ValueError where there is none."""
    return ray.get_actor(actor_name(node_id), namespace=namespace_of(cluster))


def running_nodes(cluster: str) -> tuple[int, ...]:
    """The nodes that have actors, in the order of their ids; also those that Ray is about to start again."""
    namespace = namespace_of(cluster)
    named = ray.util.list_named_actors(all_namespaces=True)
    names = (actor["name"] for actor in named if actor["namespace"] == namespace)
    return tuple(sorted(int(name.removeprefix(_ACTOR_NAME)) for name in names if name.startswith(_ACTOR_NAME)))


# Layouts

_FIRST_COORDINATOR: Final = 10
_FIRST_GROUPS: Final = 20
_FIRST_LEADER: Final = 30


def separate_layout(*, leaders: int, coordinators: int = 1, group_coordinators: int = 1) -> tuple[PlannedNode, ...]:
    """Every role is an actor of its own."""
    return (
        PlannedNode(CONTROLLER_NODE_ID, (ProcessRole.CONTROLLER,)),
        PlannedNode(1, (ProcessRole.ALLOCATOR,)),
        PlannedNode(2, (ProcessRole.MARKERS,)),
        *(PlannedNode(_FIRST_COORDINATOR + place, (ProcessRole.COORDINATOR,)) for place in range(coordinators)),
        *(PlannedNode(_FIRST_GROUPS + place, (ProcessRole.GROUPS,)) for place in range(group_coordinators)),
        *(PlannedNode(_FIRST_LEADER + place, (ProcessRole.LEADER,)) for place in range(leaders)),
    )


def colocated_layout(*, nodes: int) -> tuple[PlannedNode, ...]:
    """An actor for each core, with a share of everything; the first also has the roles of which there is only one."""
    shared = (ProcessRole.COORDINATOR, ProcessRole.MARKERS, ProcessRole.GROUPS, ProcessRole.LEADER)
    first = PlannedNode(CONTROLLER_NODE_ID, (ProcessRole.CONTROLLER, ProcessRole.ALLOCATOR, *shared))
    return first, *(PlannedNode(_FIRST_LEADER + place, shared) for place in range(1, nodes))
