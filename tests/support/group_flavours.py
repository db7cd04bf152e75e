"""Both flavours of the consumer behind one face, at nodes in a thread of their own: one scenario serves for both."""

import asyncio
from contextlib import contextmanager

from eagleray.actors.lanes.peers import Lane, Peers
from eagleray.client.cluster import AsyncCluster
from eagleray.client.loop_thread import LoopThread
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sync_cluster import SyncCluster
from eagleray.testing import COLOCATED, LocalCluster

QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
}
"""Heartbeats come often, so that a rebalance takes no seconds."""


class AsyncioFace:
    """An asyncio consumer or producer whose coroutines are run on its loop, for a scenario that has none."""

    def __init__(self, thread, client):
        self._thread = thread
        self.client = client

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*fields, **settings):
            async def on_loop():
                answer = method(*fields, **settings)
                return await answer if asyncio.iscoroutine(answer) else answer

            return self._thread.run(on_loop())

        return call

    def __enter__(self):
        self._thread.run(self.client.__aenter__())
        return self

    def __exit__(self, *raised):
        self._thread.run(self.client.__aexit__(*raised))


class Asyncio:
    name = "asyncio"

    def __init__(self, thread, cluster):
        self.thread = thread
        self.cluster = cluster

    def consumer(self, *topics, **settings):
        async def make():
            return await self.cluster.consumer(*topics, **settings).__aenter__()

        return AsyncioFace(self.thread, self.thread.run(make()))

    def inner(self, consumer):
        return consumer.client

    def callback(self, act):
        """A callback of the application: here a coroutine function, which may await the consumer."""

        async def on_partitions(partitions):
            answer = act(partitions)
            if asyncio.iscoroutine(answer):
                await answer

        return on_partitions


class Blocking:
    name = "blocking"

    def __init__(self, thread, cluster):
        self.thread = thread
        self.cluster = SyncCluster(thread, cluster)

    def consumer(self, *topics, **settings):
        return self.cluster.consumer(*topics, **settings)

    def inner(self, consumer):
        return consumer._consumer

    def callback(self, act):
        return act


FLAVOURS = {"asyncio": Asyncio, "blocking": Blocking}


class World:
    """Nodes on a loop of their own, and clients on another."""

    def __init__(self, nodes_thread, nodes, thread, flavour):
        self._nodes_thread = nodes_thread
        self.nodes = nodes
        self.thread = thread
        self.cluster = thread.run(self._connect())
        self.sync = SyncCluster(thread, self.cluster)
        self.flavour = flavour(thread, self.cluster)
        self.consumer = self.flavour.consumer

    async def _connect(self):
        self.peers = Peers(token=self.nodes.token, lane=Lane.DIRECT, timeout_s=10)
        return AsyncCluster(ClientRuntime(self.peers, self.nodes.nodes[0].image, cluster="test"))

    def on_nodes(self, work):
        return self._nodes_thread.run(work)

    def fill(self, topic, records, partitions):
        """Write so many records, spread over the partitions."""
        with self.sync.producer() as producer:
            for number in range(records):
                producer.send(topic, b"%d" % number, partition=number % partitions)

    @contextmanager
    def another_client(self):
        """A client for threads of the same nodes, on a loop of its own."""
        other = World(self._nodes_thread, self.nodes, LoopThread(), Blocking)
        try:
            yield other.sync
        finally:
            other.close()

    def close(self):
        self.thread.run(self.cluster.close())
        self.thread.call_soon(self.peers.close)
        self.thread.close()


@contextmanager
def group_world(directory, flavour, **settings):
    nodes_thread, thread = LoopThread("nodes"), LoopThread()
    nodes = LocalCluster(directory, COLOCATED, QUICK | settings)
    nodes_thread.run(nodes.__aenter__())
    try:
        world = World(nodes_thread, nodes, thread, FLAVOURS[flavour])
        yield world
        world.close()
    finally:
        nodes_thread.run(nodes.__aexit__(None, None, None))
        thread.close()
        nodes_thread.close()
