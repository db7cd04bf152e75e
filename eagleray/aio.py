"""What an application on an event loop uses: `eagleray.aio.start`, `eagleray.aio.connect`, and what they give."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self, Unpack

from eagleray.actors.cluster.embedded_ray import EmbeddedRay
from eagleray.actors.cluster.ray_origin import task_of_this_thread
from eagleray.actors.cluster.start_cluster import describe_nodes, stop_cluster
from eagleray.actors.lanes.peers import Peers
from eagleray.client.admin.admin import AsyncAdmin as Admin
from eagleray.client.cluster import AsyncCluster
from eagleray.client.consumer.consumer import AsyncConsumer as Consumer
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.branches import AsyncTransaction as Transaction
from eagleray.client.producer.branches import BranchToken, BranchWriter, SealedBranch
from eagleray.client.producer.pool import AsyncTransactionPool as TransactionPool
from eagleray.client.producer.pool import PooledTransaction
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.producer import AsyncProducer as Producer
from eagleray.client.producer.resolver import Outcome, Question, Resolver
from eagleray.client.settings import LaneName, StartSettings
from eagleray.connecting import (
    StartOptions,
    add_machine,
    check_lane,
    join_ray,
    join_ray_of,
    open_client,
    open_located,
    require_ray,
    start_nodes,
)
from eagleray.locating import DEFAULT_NAME, check_ray, locate
from eagleray.location import check_name

__all__ = [
    "Admin",
    "BranchToken",
    "BranchWriter",
    "Cluster",
    "Consumer",
    "Delivery",
    "Outcome",
    "PooledTransaction",
    "PreparedTransaction",
    "Producer",
    "Question",
    "Resolver",
    "SealedBranch",
    "Transaction",
    "TransactionPool",
    "connect",
    "start",
]


class Cluster(AsyncCluster):
    """A running cluster, as a program on an event loop sees it.

        async with await eagleray.aio.connect() as cluster:
            async with cluster.producer(transactional_id="checkout-1") as producer:
                async with producer.transaction():
                    await producer.send("orders", key=b"42", value=b"paid")

    Owns: the lanes to the nodes, and, where it was started here, the cluster itself, which `close` stops.
    """

    def __init__(
        self, name: str, cluster: AsyncCluster, peers: Peers, ray: EmbeddedRay | None, *, is_ours: bool
    ) -> None:
        super().__init__(cluster.runtime)
        self.name = name
        self._peers = peers
        self._ray = ray
        self._is_ours = is_ours
        self._is_closed = False

    async def nodes(self) -> list[dict[str, Any]]:
        """Return what each node says about itself: its roles, its process, where it listens."""
        require_ray(self._ray, "describing the nodes")
        await self.runtime.view.refreshed()
        return await describe_nodes(self.name, self.runtime.view.image)

    async def add_machine(self, address: str, *, wait_s: float = 0.0) -> tuple[int, ...]:
        """Give the cluster nodes on one more Ray node; see `eagleray.Cluster.add_machine`."""
        require_ray(self._ray, "adding a machine")
        return await add_machine(self.name, address, wait_s=wait_s)

    async def close(self) -> None:
        """Let go of the cluster, and stop it where it was started here; repeating it does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        await super().close()
        self._peers.close()
        if self._is_ours:
            stop_cluster(self.name, self.runtime.view.image)
        if self._ray is not None:
            self._ray.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


async def start(
    data_dir: str = "data",
    *,
    name: str = DEFAULT_NAME,
    address: str | None = None,
    config: Mapping[str, str | float | bool] | None = None,
    **options: Unpack[StartSettings],
) -> Cluster:
    """Start a cluster; `eagleray.start` says what the options mean."""
    check_name(name)
    made = StartOptions(name=name, data_dir=data_dir, config=config or {}, **options)
    check_ray(address)
    ray = join_ray(address)
    try:
        credentials = await start_nodes(made)
        peers, cluster = await open_client(name, credentials, made.lane, task=task_of_this_thread())
    except BaseException:
        ray.close()
        raise
    return Cluster(name, cluster, peers, ray, is_ours=True)


async def connect(name: str | None = None, *, address: str | None = None, lane: LaneName = "direct") -> Cluster:
    """Connect to a running cluster; `eagleray.connect` says where it is looked for."""
    check_lane(lane)
    location = await asyncio.to_thread(locate, name, address)
    ray = join_ray_of(location)
    try:
        peers, cluster = await open_located(location, lane, task=task_of_this_thread())
    except BaseException:
        if ray is not None:
            ray.close()
        raise
    return Cluster(location.name, cluster, peers, ray, is_ours=False)
