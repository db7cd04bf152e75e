"""The lanes of clients: by Ray and direct give the same, and one stands in for the other."""

import asyncio

import msgspec
import pytest

from tests.support.cluster_load import Load
from tests.support.clusters import client_of, closed_port, until_async, within_deadline

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


def test_refused_connections_fall_back_to_ray_and_come_back(cluster):
    """The client knows only addresses at which nobody listens; later it learns the right ones, in a load."""

    async def scenario():
        async with client_of(cluster) as client:
            peers, nowhere = client._peers, Elsewhere("127.0.0.1", closed_port())
            learn, known = peers.learn, dict(client.runtime.view.image.nodes)
            # Whatever the metadata says, the client believes that the nodes are elsewhere.
            peers.learn = lambda nodes: learn(dict.fromkeys(nodes, nowhere))
            peers.learn(known)
            load = Load(client, producers=8, transactions=10)
            await load.prepare()
            lanes_in_the_middle = []

            def learn_the_truth():
                lanes_in_the_middle.append(lanes_of(client))
                peers.learn = learn
                learn(client.runtime.view.image.nodes)

            load.at(load.total // 2, learn_the_truth)
            await load.run()
            assert lanes_in_the_middle == [{"ray"}]

            async def are_all_direct():
                return lanes_of(client) == {"direct"}

            await until_async(are_all_direct, "every lane is direct again")
            after = Load(client, producers=4, transactions=5)
            await after.prepare()
            await after.run()
            assert lanes_of(client) == {"direct"}
            await asyncio.gather(load.check(), after.check())

    within_deadline(scenario())
