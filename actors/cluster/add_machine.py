"""Adding a machine to a running cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import msgspec
import ray

from eagleray.actors.cluster.discovery import find_cluster
from eagleray.actors.cluster.joining import Joining
from eagleray.actors.cluster.machines import (
    CannotAdd,
    CannotStart,
    alive_addresses,
    layout_of,
    machines_of,
    nodes_on,
    one_more,
)
from eagleray.actors.cluster.start_cluster import PlanChanged, announce, bootstrap_nodes
from eagleray.actors.cluster.supervision import ClusterSpec, RaySupervisor, find_actor
from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.lanes.peers import Lane, Peers, Unanswered
from eagleray.broker.controller.events import GetMetadata, MetadataAnswered
from eagleray.broker.controller.planning import shared_nodes
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import PlannedNode
from eagleray.protocol.errors import ErrorCode

_LOOK_S: Final = 0.5
_ANSWER_S: Final = 5.0
_JOIN_S: Final = 150.0


async def add_machine(name: str, address: str, *, wait_s: float = 0.0) -> tuple[int, ...]:
    """Give a running cluster nodes on one more Ray node; return their ids once they have joined.

    The machine gets what every other one has, except for a controller, and nothing is moved to it. All nodes record it,
    so that it is part of the cluster at the next start. If it has not joined Ray yet, `wait_s` is how long to wait for
    it. On failure: CannotAdd, and the cluster is as it was, unless nodes that were started do not come up.
    """
    spec = await _spec_of(name, (await find_cluster(name)).image)
    with closing(Peers(token=spec.token, actor_of=lambda node_id: find_actor(name, node_id), lane=Lane.RAY)) as peers:
        return await _add(spec, ControllerChannel(peers, spec.controllers), address, wait_s)


async def _spec_of(name: str, image: MetadataImage) -> ClusterSpec:
    for node_id in sorted(image.nodes):
        try:
            async with asyncio.timeout(_ANSWER_S):
                spec: ClusterSpec = await find_actor(name, node_id).cluster.remote()
        except (ValueError, TimeoutError, ray.exceptions.RayError):
            continue
        return spec
    raise Unanswered(f"no node of cluster {name!r} answers")


async def _add(spec: ClusterSpec, controller: ControllerChannel, address: str, wait_s: float) -> tuple[int, ...]:
    deadline = time.monotonic() + wait_s
    while address not in (alive := alive_addresses()) and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
    try:
        async with asyncio.timeout(_JOIN_S):
            grown, added = await plan_one_more(spec, controller, address, alive)
            supervisor = RaySupervisor(grown)
            joining = Joining(supervisor)
            supervisor.start_nodes(added)
            await joining.until_joined(added)
    except TimeoutError as error:
        raise CannotAdd(
            f"the nodes on {address} have not all come up within {_JOIN_S:g} s; they are a part of the cluster, as if "
            "their machine had been lost, and join when they can: `eagleray logs --data-dir "
            f"{spec.data_dir}` on that machine shows why they do not"
        ) from error
    except CannotStart as error:
        raise CannotAdd(str(error)) from error
    return tuple(node.node_id for node in added)


async def plan_one_more(
    spec: ClusterSpec, controller: ControllerChannel, address: str, alive: Sequence[str]
) -> tuple[ClusterSpec, tuple[PlannedNode, ...]]:
    """Make the controller plan for one more machine; return the new spec of the cluster, and the nodes to start."""
    while True:
        before = await _plan_of(controller)
        # The node that was asked may not have heard yet of a machine that was added a moment ago; the plan names it.
        machines = machines_of(before) or spec.machines
        machine = one_more(machines, address, alive)
        added = nodes_on(machine, layout_of(before), has_controller=False)
        try:
            await announce(controller, (*before, *added), made_from=before)
        except PlanChanged:
            continue
        # Clients begin at the same port on every machine.
        port = next(iter(spec.ports.values()), 0)
        ports = spec.ports | dict.fromkeys(bootstrap_nodes(added), port)
        return msgspec.structs.replace(spec, machines=(*machines, machine), ports=ports), added


async def _plan_of(controller: ControllerChannel) -> tuple[PlannedNode, ...]:
    """Return the planned nodes, without the dedicated ones of single partitions, which are not planned by hand."""
    answer: MetadataAnswered = await controller.call(GetMetadata)
    if answer.error_code is not ErrorCode.NONE:
        raise Unanswered(f"the controller answered {answer.error_code.name}")
    return shared_nodes(answer.image)
