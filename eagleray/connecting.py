"""How a program gets hold of a cluster: Ray, then the cluster's token and metadata, then the lanes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from eagleray.actors.contact import Contact
from eagleray.actors.embedded_ray import EmbeddedRay
from eagleray.actors.finding import find_cluster
from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.actors.machines import MachineCount
from eagleray.actors.ports import PortRange
from eagleray.actors.starting import plan_of, start_cluster
from eagleray.actors.supervision import find_actor
from eagleray.client.cluster import AsyncCluster
from eagleray.client.runtime import ClientRuntime

DEFAULT_NAME = "default"


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster is started with."""

    name: str = DEFAULT_NAME
    data_dir: str = "data"
    layout: str = "separate"
    leaders: int | None = None
    coordinators: int | None = None
    group_coordinators: int = 1
    lane: str = Lane.DIRECT
    config: Mapping[str, str] = {}
    host: str | None = None
    advertised_host: str | None = None
    port: int = 0
    port_range: PortRange | None = None
    machines: MachineCount = None
    without: tuple[str, ...] = ()
    """Machines of the cluster that are gone, and that it is to start without."""

    wait_s: float = 0.0
    """How long to wait for machines that have not joined Ray yet."""


def join_ray(address: str | None) -> EmbeddedRay:
    """Join a Ray cluster, or start one for this program alone where `address` is None."""
    return EmbeddedRay(address)


async def start_nodes(options: StartOptions) -> Contact:
    """Start the nodes of a cluster; return when all of them have joined."""
    plan = plan_of(
        options.layout,
        leaders=options.leaders,
        coordinators=options.coordinators,
        group_coordinators=options.group_coordinators,
    )
    settings = {key: str(value) for key, value in options.config.items()}
    return await start_cluster(
        options.name,
        options.data_dir,
        plan,
        settings=settings,
        lane=Lane(options.lane),
        host=options.host,
        advertised_host=options.advertised_host,
        port=options.port,
        port_range=options.port_range,
        machines=options.machines,
        without=options.without,
        wait_s=options.wait_s,
    )


async def open_client(name: str, contact: Contact | None, lane: str) -> tuple[Peers, AsyncCluster]:
    """Open the lanes to a cluster, on the loop that this runs on."""
    if contact is None:
        contact = await find_cluster(name)
    peers = Peers(token=contact.token, actor_of=lambda node_id: find_actor(name, node_id), lane=Lane(lane))
    return peers, AsyncCluster(ClientRuntime(peers, contact.image, cluster=name))
