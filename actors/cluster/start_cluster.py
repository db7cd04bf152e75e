"""Starting and stopping a whole cluster, and asking its nodes for their status."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import ray

from eagleray.actors.cluster.discovery import find_cluster
from eagleray.actors.cluster.embedded_ray import address_of_this_node
from eagleray.actors.cluster.joining import Joining, Progress, all_of, say_nothing
from eagleray.actors.cluster.machines import (
    CannotStart,
    Machine,
    MachineCount,
    MachinesMissing,
    alive_addresses,
    choose,
    controllers_among,
    controllers_of,
    data_dir_of,
    has_been_used,
    known_machines,
    locks_of,
    remember,
    spread,
    token_of,
)
from eagleray.actors.cluster.supervision import (
    ClusterSpec,
    RaySupervisor,
    colocated_layout,
    find_actor,
    running_nodes,
    separate_layout,
)
from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.common.settings import check_settings
from eagleray.actors.lanes.peers import HOW_TO_REACH, Lane, Peers, Unanswered, Unreachable
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.actors.process.ports import PortRange
from eagleray.actors.storage.data_directory import format_directory
from eagleray.actors.storage.disk import DirectoryLock, PartitionLocked
from eagleray.broker.controller.events import PlanAnswered, PlanNodes
from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import PlannedNode, ProcessRole
from eagleray.protocol.errors import ErrorCode

_RETRY_S: Final = 0.02
_LOOK_S: Final = 0.5
_DESCRIBE_S: Final = 3.0
_START_S: Final = 150.0
_COORDINATORS: Final = 4

EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - a user who asks for it gets it
"""To listen at one of these is to listen at every address of the machine; clients elsewhere cannot connect to it."""


def plan_of(
    layout: str, *, leaders: int | None = None, coordinators: int | None = None, group_coordinators: int = 1
) -> tuple[PlannedNode, ...]:
    """The nodes of a layout, `separate` or `colocated`.

    By default there is a leader for each core, and in the separate layout a coordinator for each, up to four: one
    coordinator alone leaves cores idle while all others wait for it.
    """
    cores = len(os.sched_getaffinity(0))
    count = leaders if leaders is not None else cores
    if layout == "separate":
        coordinator_count = coordinators if coordinators is not None else min(cores, _COORDINATORS)
        return separate_layout(leaders=count, coordinators=coordinator_count, group_coordinators=group_coordinators)
    if layout == "colocated":
        return colocated_layout(nodes=count)
    raise CannotStart(f"the layout is {layout!r}; expected separate or colocated")


def bootstrap_nodes(plan: Iterable[PlannedNode]) -> tuple[int, ...]:
    """The nodes whose addresses are given to clients that know no other: on each machine the first that leads
    partitions.

    Dedicated nodes, which lead one partition each, are not among them.
    """
    first: dict[str, int] = {}
    for node in plan:
        if ProcessRole.LEADER in node.roles and node.dedicated_to is None:
            first[node.machine] = min(node.node_id, first.get(node.machine, node.node_id))
    return tuple(sorted(first.values()))


async def start_cluster(
    name: str,
    data_dir: str,
    layout: tuple[PlannedNode, ...],
    *,
    settings: Mapping[str, str],
    machines: MachineCount = None,
    without: Sequence[str] = (),
    wait_s: float = 0.0,
    lane: Lane = Lane.DIRECT,
    host: str | None = None,
    advertised_host: str | None = None,
    port: int = 0,
    port_range: PortRange | None = None,
    progress: Progress = say_nothing,
) -> ClusterCredentials:
    """Start the nodes of a cluster with what its data directory holds; return when all have joined.

    They run on this Ray node alone, or on so many `machines`, each with the nodes of the layout; then `data_dir` is a
    path on each of them. For machines that have not joined Ray yet it waits during `wait_s`, except for those in
    `without`: their nodes start when they join. `host` is the address that all nodes listen at, by default that of
    their machine. `advertised_host` is what clients and other nodes are told, by default the same, or the machine's
    where nodes listen at every address. `port` is where the bootstrap node of each machine listens; with 0 it is the
    one of its last incarnation, or any that is free. `port_range` is for the other nodes, and for those that have no
    port of their own. `progress` is told what is being done.
    On failure: CannotStart, with the cause.
    """
    check_settings(settings)
    _check_enough(port_range, len(layout))
    data_dir = os.path.abspath(data_dir)
    chosen = await _choose_in_time(machines, known_machines(data_dir), without, wait_s)
    _check_hosts(chosen, host, advertised_host)
    plan = spread(layout, chosen, controllers=controllers_among(len(chosen)))
    _check_is_free(name, data_dir, locks_of(data_dir, chosen, plan))
    _format_if_new(data_dir, chosen, plan)
    remember(data_dir, chosen)
    spec = ClusterSpec(
        name=name,
        data_dir=data_dir,
        host=advertised_host or advertised_for(host),
        bind_host=host or "",
        token=token_of(data_dir),
        settings=dict(settings),
        lane=lane,
        machines=chosen,
        controllers=controllers_of(plan),
        ports=dict.fromkeys(bootstrap_nodes(plan), port),
        port_range=None if port_range is None else (port_range.low, port_range.high),
    )
    supervisor = RaySupervisor(spec)
    joining = Joining(supervisor, progress)
    progress(_described(len(plan), len(chosen)))
    try:
        supervisor.start_first(plan[0])
    except ValueError as error:
        # Another program has started it meanwhile, and the cluster is that program's to stop.
        raise _name_taken(name) from error
    try:
        # All at once: the nodes wait for the controller to know them, and starting processes takes the longest.
        supervisor.start_nodes(plan[1:])
        async with asyncio.timeout(_START_S):
            await _bring_up(joining, supervisor, plan, without)
            return await find_cluster(name, lane)
    except BaseException as error:
        _stop_all(supervisor, plan)
        if isinstance(error, TimeoutError):
            raise CannotStart(joining.not_in_time(_START_S)) from error
        if isinstance(error, Unreachable):
            raise CannotStart(f"{error}: {HOW_TO_REACH}") from error
        raise


def _described(nodes: int, machines: int) -> str:
    where = "" if machines == 1 else f" on {machines} machines"
    return f"1 node{where}" if nodes == 1 else f"{nodes} nodes{where}"


async def _bring_up(
    joining: Joining, supervisor: RaySupervisor, plan: tuple[PlannedNode, ...], without: Sequence[str]
) -> None:
    spec = supervisor.cluster

    def awaited(nodes: Iterable[PlannedNode]) -> tuple[PlannedNode, ...]:
        return tuple(node for node in nodes if node.machine not in without)

    async def plan_them(peers: Peers) -> None:
        planned = await announce(ControllerChannel(peers, spec.controllers), plan)
        more = tuple(node for node in planned if node not in plan)
        supervisor.start_nodes(more)
        await joining.until_joined(awaited(more))

    with closing(Peers(token=spec.token, actor_of=supervisor.actor_of, lane=Lane.RAY)) as peers:
        # Side by side: it may be the controller that cannot start.
        await all_of(joining.until_joined(awaited(plan)), plan_them(peers))


async def _choose_in_time(
    wanted: MachineCount, known: tuple[str, ...], without: Sequence[str], wait_s: float
) -> tuple[Machine, ...]:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return choose(wanted, known, alive_addresses(), without)
        except MachinesMissing:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_LOOK_S)


def advertised_for(host: str | None) -> str:
    """The address that others connect to, where nodes listen at this one."""
    return address_of_this_node() if not host or host in EVERY_ADDRESS else host


def _check_hosts(machines: tuple[Machine, ...], host: str | None, advertised_host: str | None) -> None:
    if len(machines) == 1:
        return
    if host and host not in EVERY_ADDRESS:
        raise CannotStart(
            f"{len(machines)} machines cannot all listen at {host}; name no address, or one that stands for all of a "
            "machine's, such as 0.0.0.0"
        )
    if advertised_host:
        raise CannotStart(
            f"{len(machines)} machines cannot all be told of as {advertised_host}; each has its own address"
        )


def _check_enough(ports: PortRange | None, node_count: int) -> None:
    if ports is not None and len(ports) < node_count:
        raise CannotStart(
            f"the ports {ports.low}-{ports.high} are too few for {node_count} nodes; give each of them one, "
            "and some more for topics whose partitions have a node of their own"
        )


def _check_is_free(name: str, data_dir: str, locks: list[str]) -> None:
    """Raise CannotStart where the directory is in use, instead of waiting for ever until it is not."""
    try:
        os.makedirs(data_dir, exist_ok=True)
        for path in locks:
            # The other machines mostly have disks of their own.
            if len(locks) == 1 or os.path.exists(path):
                DirectoryLock(path).release()
    except PartitionLocked:
        raise CannotStart(
            f"the data directory {data_dir} is in use by a running cluster; connect to it, stop it, or choose another"
        ) from None
    except OSError as error:
        raise CannotStart(f"the data directory {data_dir} cannot be used: {error}; choose another") from error
    if running_nodes(name):
        raise _name_taken(name)


def _format_if_new(data_dir: str, machines: Sequence[Machine], plan: tuple[PlannedNode, ...]) -> None:
    """Prepare the directory of the voter on this machine, where the cluster is new.

    A directory that has a token was used before: what is missing there is lost, and not new.
    """
    if has_been_used(data_dir):
        return
    machine, voter = _founder(machines, plan)
    try:
        format_directory(LocalFileSystem(), data_dir_of(data_dir, machine, len(machines)), voter)
    except (DirectoryRefused, OSError) as error:
        raise CannotStart(f"the data directory {data_dir} cannot be used: {error}") from error


def _founder(machines: Sequence[Machine], plan: tuple[PlannedNode, ...]) -> tuple[Machine, int]:
    """The voter with which a new cluster begins: the one on this machine, whose disk can be seen from here."""
    if len(machines) == 1:
        return machines[0], controllers_of(plan)[0]
    here = alive_addresses()[0]
    for node in plan:
        if node.machine == here and ProcessRole.CONTROLLER in node.roles:
            return next(each for each in machines if each.address == here), node.node_id
    deciding = ", ".join(node.machine for node in plan if ProcessRole.CONTROLLER in node.roles)
    raise CannotStart(
        f"a new cluster is started on a machine that keeps its metadata, one of {deciding}, and not on {here}; start "
        "it there, or give this machine one of the first places"
    )


def _name_taken(name: str) -> CannotStart:
    return CannotStart(
        f"a cluster named {name!r} is running on this Ray cluster already; connect to it, or choose another name"
    )


class PlanChanged(Exception):
    """Another call has changed the plan; read it again, and decide again."""


async def announce(
    controller: ControllerChannel, plan: tuple[PlannedNode, ...], made_from: tuple[PlannedNode, ...] | None = None
) -> tuple[PlannedNode, ...]:
    """Give the controller the plan, and return the one that holds now, dedicated nodes included.

    Raises PlanChanged where the plan is no longer the one that this one was made from; then nothing is done.
    """
    while True:
        try:
            answer: PlanAnswered = await controller.call(PlanNodes, plan, made_from)
        except Unanswered:
            await asyncio.sleep(_RETRY_S)
            continue
        if answer.error_code.is_retriable:
            await asyncio.sleep(_RETRY_S)
        elif answer.error_code is ErrorCode.INVALID_UPDATE_VERSION:
            raise PlanChanged
        elif answer.error_code is not ErrorCode.NONE:
            raise CannotStart(answer.message or answer.error_code.name)
        else:
            return answer.nodes


async def describe_nodes(name: str, image: MetadataImage) -> list[dict[str, Any]]:
    """The status of each node, in the order of their ids; of one that does not answer, only its id."""

    async def describe(node_id: int) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_DESCRIBE_S):
                described: dict[str, Any] = await find_actor(name, node_id).describe.remote()
        except (ValueError, TimeoutError, ray.exceptions.RayError):
            planned = image.plan[node_id]
            return {
                "node_id": node_id,
                "roles": list(planned.roles),
                "machine": planned.machine,
                "registered": False,
            }
        return described

    return list(await asyncio.gather(*map(describe, sorted(image.plan))))


def stop_cluster(name: str, image: MetadataImage) -> None:
    """Stop every node in good order, those that others ask last; also nodes that the image does not know of."""
    supervisor = RaySupervisor(ClusterSpec(name=name, data_dir="", host="", token=b"", settings={}))
    _stop_all(supervisor, image.plan.values())


def _stop_all(supervisor: RaySupervisor, known: Iterable[PlannedNode]) -> None:
    """Stop these nodes and all others of the cluster, such as those that the controller has started by itself."""
    node_ids = {*(node.node_id for node in known), *running_nodes(supervisor.cluster.name)}
    supervisor.stop_nodes(tuple(sorted(node_ids, reverse=True)))
    supervisor.stop_resolver_caller()
