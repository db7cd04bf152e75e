"""What an application on an event loop uses: `eagleray.aio.start`, `eagleray.aio.connect`, and what they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from eagleray.actors.embedded_ray import EmbeddedRay
from eagleray.actors.growing import add_machine
from eagleray.actors.lanes.peers import Peers
from eagleray.actors.starting import describe_nodes, stop_cluster
from eagleray.client.cluster import AsyncCluster
from eagleray.connecting import DEFAULT_NAME, StartOptions, join_ray, open_client, start_nodes


class Cluster(AsyncCluster):
    """A running cluster, as a program on an event loop sees it.

        async with await eagleray.aio.connect() as cluster:
            async with cluster.producer(transactional_id="checkout-1") as producer:
                async with producer.transaction():
                    await producer.send("orders", key=b"42", value=b"paid")

    Owns: the lanes to the nodes, and, where it was started here, the cluster itself, which `close` stops.
    """

    def __init__(self, name: str, cluster: AsyncCluster, peers: Peers, ray: EmbeddedRay, *, is_ours: bool) -> None:
        super().__init__(cluster.runtime)
        self.name = name
        self._peers = peers
        self._ray = ray
        self._is_ours = is_ours
        self._is_closed = False

    async def nodes(self) -> list[dict[str, Any]]:
        """Return what each node says about itself: its roles, its process, where it listens."""
        await self.runtime.view.refreshed()
        return await describe_nodes(self.name, self.runtime.view.image)

    async def add_machine(self, address: str, *, wait_s: float = 0.0) -> tuple[int, ...]:
        """Let the cluster have nodes on one Ray node more; `eagleray.Cluster.add_machine` says how."""
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
    config: Mapping[str, str] | None = None,
    **options: Any,  # noqa: ANN401 - as `eagleray.start` has them
) -> Cluster:
    """Start a cluster; `eagleray.start` says what the options mean."""
    ray = join_ray(address)
    try:
        made = StartOptions(name=name, data_dir=data_dir, config=config or {}, **options)
        contact = await start_nodes(made)
        peers, cluster = await open_client(name, contact, made.lane)
    except BaseException:
        ray.close()
        raise
    return Cluster(name, cluster, peers, ray, is_ours=True)


async def connect(name: str = DEFAULT_NAME, *, address: str | None = "auto", lane: str = "direct") -> Cluster:
    """Connect to a running cluster by its name."""
    ray = join_ray(address)
    try:
        peers, cluster = await open_client(name, None, lane)
    except BaseException:
        ray.close()
        raise
    return Cluster(name, cluster, peers, ray, is_ours=False)
