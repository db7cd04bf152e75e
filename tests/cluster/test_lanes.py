"""The lanes: by Ray and direct give the same, and neither stands in for the other."""

import asyncio
import re
import socket

import msgspec
import pytest

import eagleray.aio
from eagleray.client.errors import NodeUnreachable
from eagleray.errors import CannotStart
from tests.support.cluster_load import Load
from tests.support.clusters import (
    SETTINGS,
    client_of,
    closed_port,
    fresh,
    kill,
    nodes_with,
    until_back,
    until_running,
    within_deadline,
)

pytestmark = pytest.mark.slow


class Elsewhere(msgspec.Struct):
    """An address at which nobody listens."""

    host: str
    port: int


def lanes_of(client):
    peers = client._peers
    return {peers.lane_to(node_id) for node_id in peers._closing}


@pytest.mark.parametrize("lane", ["ray", "direct"])
def test_workload_gives_the_same_by_either_lane(cluster, lane):
    async def scenario():
        async with client_of(cluster, lane=lane) as client:
            load = Load(client, producers=8, transactions=5)
            await load.prepare()
            await load.run()
            assert lanes_of(client) == {lane}
            await load.check()
            assert len(load.committed) == 8 * 4 * 2

    within_deadline(scenario())


def test_client_that_knows_wrong_addresses_asks_ray_for_the_right_ones(cluster):
    """Whatever the metadata say, the client believes that nodes are where nobody listens."""

    async def scenario():
        async with client_of(cluster) as client:
            peers, nowhere = client._peers, Elsewhere("127.0.0.1", closed_port())
            learn, known = peers.learn, dict(client.runtime.view.image.nodes)
            peers.learn = lambda nodes: learn(dict.fromkeys(nodes, nowhere))
            peers.learn(known)
            load = Load(client, producers=8, transactions=10)
            await load.prepare()
            await load.run()
            assert lanes_of(client) == {"direct"}
            await load.check()

    within_deadline(scenario())


def test_killed_controller_that_listens_elsewhere_is_found_by_nodes_and_clients(separate):
    """Its port is taken while it is away, so it listens at another, which the metadata cannot tell."""
    (controller,) = nodes_with(separate, "controller")

    async def scenario():
        async with client_of(separate) as client:
            load = Load(client, producers=4, transactions=5)
            await load.prepare()
            await asyncio.to_thread(kill, controller)
            with socket.create_server((controller["host"], controller["port"])):
                # Nodes that connect here find nobody who speaks.
                (back,) = await asyncio.to_thread(until_back, separate, [controller])
                assert back["port"] != controller["port"]
                await load.run()
                # The controller makes a topic, and nodes that follow it serve it.
                after = Load(client, producers=4, transactions=2)
                await after.prepare()
                await after.run()
                assert lanes_of(client) == {"direct"}
                await asyncio.gather(load.check(), after.check())

    within_deadline(scenario())
    until_running(separate)


UNREACHABLE = "127.9.9.9"
"""An address of this machine at which no node listens, where they say that they do."""


async def start_unreachable(folder, lane):
    return await eagleray.aio.start(
        str(folder / lane),
        name=fresh("unreachable"),
        layout="colocated",
        leaders=2,
        lane=lane,
        host="127.0.0.1",
        advertised_host=UNREACHABLE,
        config=SETTINGS,
    )


def test_cluster_whose_ports_cannot_be_reached_does_not_start_and_says_so(ray_here, tmp_path):
    with pytest.raises(CannotStart) as raised:
        within_deadline(start_unreachable(tmp_path, "direct"))
    assert re.match(
        rf"node 31 cannot join: node 0 runs, but cannot be reached at {UNREACHABLE}:\d+ from here \(.*\): "
        r'open the port, or take Ray\'s lane with lane="ray"\.$',
        raised.value.message,
    )


def test_cluster_whose_ports_cannot_be_reached_works_by_the_ray_lane_alone(ray_here, tmp_path):
    async def scenario():
        async with await start_unreachable(tmp_path, "ray") as cluster:
            with pytest.raises(NodeUnreachable, match=rf"cannot be reached at {UNREACHABLE}:\d+ .*lane=\"ray\""):
                await eagleray.aio.connect(cluster.name)
            async with client_of(cluster, lane="ray") as client:
                load = Load(client, producers=4, transactions=5)
                await load.prepare()
                await load.run()
                assert lanes_of(client) == {"ray"}
                await load.check()

    within_deadline(scenario())
