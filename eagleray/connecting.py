"""How a program connects to a cluster: its location, Ray, then the cluster's token and metadata, then the lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from eagleray.actors.cluster import add_machine as adding
from eagleray.actors.cluster import machines as ray_machines
from eagleray.actors.cluster.discovery import NoSuchCluster, find_cluster
from eagleray.actors.cluster.embedded_ray import EmbeddedRay
from eagleray.actors.cluster.joining import Progress, say_nothing
from eagleray.actors.cluster.machines import MachineCount
from eagleray.actors.cluster.ray_origin import namespace_in_ray, origin_in_ray
from eagleray.actors.cluster.start_cluster import plan_of, start_cluster
from eagleray.actors.cluster.supervision import find_actor
from eagleray.actors.lanes.peers import Lane, Peers, Unanswered, Unreachable
from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.actors.process.ports import PortRange
from eagleray.client import validation
from eagleray.client.cluster import AsyncCluster
from eagleray.client.config import check_choice
from eagleray.client.errors import CannotAdd, CannotStart, ClusterNotFound, NodeUnreachable, NotConnected, RefusedError
from eagleray.client.runtime import ClientRuntime, client_id
from eagleray.client.settings import LaneName, LayoutName
from eagleray.locating import DEFAULT_NAME, Location

_ANSWER_S: Final = 30.0
_ASK_AGAIN_S: Final = 0.5


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster is started with."""

    name: str = DEFAULT_NAME
    data_dir: str = "data"
    layout: str = "separate"
    leaders: int | None = None
    coordinators: int | None = None
    group_coordinators: int = 1
    lane: str = Lane.DIRECT
    config: Mapping[str, str | float | bool] = {}
    host: str | None = None
    advertised_host: str | None = None
    port: int = 0
    port_range: PortRange | None = None
    machines: MachineCount = None
    without: tuple[str, ...] = ()
    """Machines of the cluster that are gone, and that it is to start without."""

    wait_s: float = 0.0
    """How long to wait for machines that have not joined Ray yet."""

    progress: Progress = say_nothing
    """Is told what is being done."""

    def __post_init__(self) -> None:
        check_choice("layout", self.layout, get_args(LayoutName))
        check_lane(self.lane)


def check_lane(lane: str) -> None:
    """Raise InvalidConfig for an unknown lane, before a Ray cluster is joined or started for it."""
    check_choice("lane", str(lane), get_args(LaneName))


def join_ray(address: str | None) -> EmbeddedRay:
    """Join a Ray cluster, or start one for this program alone where `address` is None."""
    return EmbeddedRay(address)


def join_ray_of(location: Location) -> EmbeddedRay | None:
    """Join the Ray cluster that a cluster is on; None where there are credentials, and no need for Ray."""
    if location.credentials is not None:
        return None
    try:
        return join_ray(location.address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterNotFound(f"cannot join the Ray cluster at {location.address}: {error}.") from error


def require_ray(ray: EmbeddedRay | None, doing: str) -> None:
    """Refuse what a program can do only where it has joined the Ray cluster of the broker."""
    if ray is None:
        raise RefusedError(f"{doing} needs Ray, and this program has connected with a contact file.")


async def start_nodes(options: StartOptions) -> ClusterCredentials:
    """Start the nodes of a cluster; return when all of them have joined. Raises CannotStart of `eagleray.errors`."""
    plan = plan_of(
        options.layout,
        leaders=options.leaders,
        coordinators=options.coordinators,
        group_coordinators=options.group_coordinators,
    )
    try:
        return await start_cluster(
            options.name,
            options.data_dir,
            plan,
            settings=validation.configs(options.config),
            lane=Lane(options.lane),
            host=options.host,
            advertised_host=options.advertised_host,
            port=options.port,
            port_range=options.port_range,
            machines=options.machines,
            without=options.without,
            wait_s=options.wait_s,
            progress=options.progress,
        )
    except ray_machines.CannotStart as error:
        raise CannotStart(f"{error}.") from error


async def add_machine(name: str, address: str, *, wait_s: float) -> tuple[int, ...]:
    """Give a cluster nodes on one more Ray node; return their ids. Raises CannotAdd of `eagleray.errors`."""
    try:
        return await adding.add_machine(name, address, wait_s=wait_s)
    except ray_machines.CannotAdd as error:
        raise CannotAdd(f"{error}.") from error


async def find(name: str, lane: str) -> ClusterCredentials:
    """Find a cluster on the Ray cluster that was joined, by the lane that its clients are to take.

    While Ray starts nodes anew, none may answer for seconds: then they are asked again, for half a minute in all.
    Raises ClusterNotFound, NotConnected, and NodeUnreachable where the lane does not lead there.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _ANSWER_S
    while True:
        try:
            return await find_cluster(name, Lane(lane))
        except NoSuchCluster as error:
            raise ClusterNotFound(f"{error}.") from error
        except Unreachable as error:
            raise NodeUnreachable(f"{error}.") from error
        except Unanswered as error:
            if loop.time() >= deadline_s:
                raise NotConnected(f"{error}.") from error
        await asyncio.sleep(_ASK_AGAIN_S)


async def open_client(
    name: str, credentials: ClusterCredentials, lane: str, *, has_ray: bool = True, task: str = ""
) -> tuple[Peers, AsyncCluster]:
    """Open the lanes to a cluster, on the loop that this runs on; `task` is the one of Ray that asks for it."""
    actor_of = (lambda node_id: find_actor(name, node_id)) if has_ray else None
    peers = Peers(token=credentials.token, actor_of=actor_of, lane=Lane(lane))
    origin = origin_in_ray(client_id(), task) if has_ray else None
    namespace = namespace_in_ray() if has_ray else ""
    runtime = ClientRuntime(peers, credentials.image, cluster=name, origin=origin, ray_namespace=namespace)
    return peers, AsyncCluster(runtime)


async def open_located(location: Location, lane: str, *, task: str = "") -> tuple[Peers, AsyncCluster]:
    """Open the lanes to a cluster that was located, and whose Ray was joined unless there are credentials."""
    if location.credentials is None:
        return await open_client(location.name, await find(location.name, lane), lane, task=task)
    peers, cluster = await open_client(location.name, location.credentials, Lane.DIRECT, has_ray=False)
    try:
        async with asyncio.timeout(_ANSWER_S):
            while not cluster.runtime.view.image.version:
                await cluster.runtime.view.refreshed()
    except TimeoutError:
        await cluster.close()
        peers.close()
        nodes = ", ".join(f"{node.host}:{node.port}" for node in location.credentials.image.nodes.values())
        raise NotConnected(f"no node answers at {nodes}, where they were when the contact file was written.") from None
    return peers, cluster
