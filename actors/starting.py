"""Starting, finding and stopping a whole cluster."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from typing import Any, Final

import ray

from eagleray.actors.contact import Contact
from eagleray.actors.controller_finder import ControllerFinder
from eagleray.actors.embedded_ray import address_of_this_node
from eagleray.actors.lanes.frames import TOKEN_BYTES
from eagleray.actors.lanes.peers import Lane, Peers, Unanswered
from eagleray.actors.logs import DirectoryLock, PartitionLocked
from eagleray.actors.ports import PortRange
from eagleray.actors.settings import check_settings
from eagleray.actors.spec import CONTROLLER_NODE_ID
from eagleray.actors.supervision import (
    ClusterSpec,
    RaySupervisor,
    colocated_layout,
    find_actor,
    find_controllers,
    separate_layout,
)
from eagleray.broker.controller.events import GetMetadata, PlanAnswered, PlanNodes
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import PlannedNode, Role
from eagleray.protocol.errors import ErrorCode

_RETRY_S: Final = 0.02
_DESCRIBE_S: Final = 3.0
_START_S: Final = 150.0
_COORDINATORS: Final = 4

EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - whoever asks for it gets it
"""To listen at these is to listen at every address of the machine; nobody can connect to them from elsewhere."""


class ClusterNotFound(Exception):
    """There is no cluster of this name on this Ray cluster."""


class CannotStart(Exception):
    """A cluster cannot be started as it was asked for; the text says why and what to do."""


def plan_of(
    layout: str, *, leaders: int | None = None, coordinators: int | None = None, group_coordinators: int = 1
) -> tuple[PlannedNode, ...]:
    """The nodes of a layout, `separate` or `colocated`.

    By default there is a leader for each core, and in the separate layout a coordinator for each, up to four: one
    coordinator alone leaves cores idle while everybody waits for it.
    """
    cores = len(os.sched_getaffinity(0))
    count = leaders if leaders is not None else cores
    if layout == "separate":
        coordinator_count = coordinators if coordinators is not None else min(cores, _COORDINATORS)
        return separate_layout(leaders=count, coordinators=coordinator_count, group_coordinators=group_coordinators)
    if layout == "colocated":
        return colocated_layout(nodes=count)
    raise CannotStart(f"the layout is {layout!r}; expected separate or colocated")


def controllers_of(plan: tuple[PlannedNode, ...]) -> tuple[int, ...]:
    """The nodes of which one is the controller."""
    return tuple(sorted(node.node_id for node in plan if Role.CONTROLLER in node.roles))


def bootstrap_node(plan: tuple[PlannedNode, ...]) -> int:
    """The node whose address is given to clients that know no other: the first that leads partitions."""
    return min(node.node_id for node in plan if Role.LEADER in node.roles)


async def start_cluster(
    name: str,
    data_dir: str,
    plan: tuple[PlannedNode, ...],
    *,
    settings: Mapping[str, str],
    lane: Lane = Lane.DIRECT,
    host: str | None = None,
    advertised_host: str | None = None,
    port: int = 0,
    port_range: PortRange | None = None,
) -> Contact:
    """Start the nodes of a cluster on this Ray node, with what its data directory holds; return when all have joined.

    `host` is the address that all nodes listen at, by default that of the Ray node; `advertised_host` is what clients
    and other nodes are told, by default the same, or the Ray node's where nodes listen at every address. `port` is
    where the bootstrap node listens; with 0 it is the one of its last life, or any that is free. `port_range` is where
    the others listen, and the bootstrap node too where it has no port of its own.
    """
    check_settings(settings)
    _check_enough(port_range, len(plan))
    data_dir = os.path.abspath(data_dir)
    _check_is_free(name, data_dir)
    spec = ClusterSpec(
        name=name,
        data_dir=data_dir,
        host=advertised_host or advertised_for(host),
        bind_host=host or "",
        token=_token(data_dir),
        settings=dict(settings),
        lane=lane,
        ray_node=ray.get_runtime_context().get_node_id(),
        controllers=controllers_of(plan),
        ports={bootstrap_node(plan): port},
        port_range=None if port_range is None else (port_range.low, port_range.high),
    )
    supervisor = RaySupervisor(spec)
    # All at once: the nodes wait for the controller to know them, and starting processes takes the longest.
    supervisor.start_nodes(plan)
    peers = Peers(token=spec.token, actor_of=supervisor.actor_of, lane=Lane.RAY)
    controller = ControllerFinder(peers, spec.controllers)
    try:
        async with asyncio.timeout(_START_S):
            planned = await _plan(controller, plan)
            supervisor.start_nodes(tuple(node for node in planned if node not in plan))
            await _until_joined(supervisor, planned)
            answer = await controller.call(GetMetadata)
            return Contact(spec.token, answer.image)
    except BaseException as error:
        supervisor.stop_nodes(tuple(node.node_id for node in plan))
        if isinstance(error, TimeoutError):
            raise CannotStart(
                f"the nodes have not all come up within {_START_S:g} s; the logs of their Ray workers say why"
            ) from error
        raise
    finally:
        peers.close()


def advertised_for(host: str | None) -> str:
    """What others connect to, where nodes listen at this address."""
    return address_of_this_node() if not host or host in EVERY_ADDRESS else host


def _check_enough(ports: PortRange | None, node_count: int) -> None:
    if ports is not None and len(ports) < node_count:
        raise CannotStart(
            f"the ports {ports.low}-{ports.high} are too few for {node_count} nodes; give each of them one, "
            "and some more for topics whose partitions have a node of their own"
        )


def _check_is_free(name: str, data_dir: str) -> None:
    """Raise CannotStart where the directory cannot be had, instead of waiting for ever until it can."""
    try:
        os.makedirs(data_dir, exist_ok=True)
        DirectoryLock(f"{data_dir}/nodes/{CONTROLLER_NODE_ID}.lock").release()
    except PartitionLocked:
        raise CannotStart(
            f"the data directory {data_dir} is in use by a running cluster; connect to it, stop it, or choose another"
        ) from None
    except OSError as error:
        raise CannotStart(f"the data directory {data_dir} cannot be used: {error}; choose another") from error
    try:
        find_controllers(name)
    except ValueError:
        return
    raise CannotStart(
        f"a cluster named {name!r} is running on this Ray cluster already; connect to it, or choose another name"
    )


def _token(data_dir: str) -> bytes:
    """The token of a cluster, drawn when its data directory is first used."""
    path = f"{data_dir}/token"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        with open(path, "rb") as file:
            return file.read()
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(TOKEN_BYTES))
    return _token(data_dir)


async def _plan(controller: ControllerFinder, plan: tuple[PlannedNode, ...]) -> tuple[PlannedNode, ...]:
    while True:
        try:
            answer: PlanAnswered = await controller.call(PlanNodes, plan)
        except Unanswered:
            await asyncio.sleep(_RETRY_S)
            continue
        if answer.error_code is not ErrorCode.NONE:
            raise CannotStart(answer.message or answer.error_code.name)
        return answer.nodes


async def _until_joined(supervisor: RaySupervisor, planned: tuple[PlannedNode, ...]) -> None:
    """Wait until every node has registered in this life of the cluster."""
    for node in planned:
        while not (await supervisor.actor_of(node.node_id).describe.remote())["registered"]:
            await asyncio.sleep(_RETRY_S)


async def find_cluster(name: str) -> Contact:
    """Find a running cluster by its name; raises ClusterNotFound."""
    try:
        actors = find_controllers(name)
        token = await _token_from(tuple(actors.values()))
    except (ValueError, ray.exceptions.RayActorError) as error:
        raise ClusterNotFound(
            f"there is no Eagleray cluster named {name!r} on this Ray cluster; "
            "start one with eagleray.start() or `eagleray start`"
        ) from error
    peers = Peers(token=token, actor_of=lambda node_id: find_actor(name, node_id), lane=Lane.RAY)
    try:
        answer = await ControllerFinder(peers, tuple(actors)).call(GetMetadata)
    finally:
        peers.close()
    return Contact(token, answer.image)


async def _token_from(actors: tuple[Any, ...]) -> bytes:
    """Ask the actors that could be the controller, of which some may be on machines that are gone."""
    *others, last = actors
    for actor in others:
        try:
            async with asyncio.timeout(_DESCRIBE_S):
                _, _, token = await actor.contact.remote()
        except (TimeoutError, ray.exceptions.RayActorError):
            continue
        return bytes(token)
    _, _, token = await last.contact.remote()
    return bytes(token)


async def describe_nodes(name: str, image: MetadataImage) -> list[dict[str, Any]]:
    """What each node says about itself, in the order of their numbers; of one that does not answer, only its number."""

    async def describe(node_id: int) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_DESCRIBE_S):
                described: dict[str, Any] = await find_actor(name, node_id).describe.remote()
        except (ValueError, TimeoutError, ray.exceptions.RayError):
            return {"node_id": node_id, "roles": list(image.plan[node_id].roles), "registered": False}
        return described

    return list(await asyncio.gather(*map(describe, sorted(image.plan))))


def stop_cluster(name: str, image: MetadataImage) -> None:
    """Stop every node in good order: those that others ask last."""
    supervisor = RaySupervisor(ClusterSpec(name=name, data_dir="", host="", token=b"", settings={}))
    supervisor.stop_nodes(tuple(sorted(image.plan, reverse=True)))
