"""What an application without an event loop uses: `start`, `connect`, and the cluster that they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from eagleray.actors.cluster.embedded_ray import EmbeddedRay
from eagleray.actors.cluster.machines import MachineCount
from eagleray.actors.cluster.ray_origin import task_of_this_thread
from eagleray.actors.cluster.start_cluster import describe_nodes, stop_cluster
from eagleray.actors.lanes.peers import Peers
from eagleray.client.cluster import AsyncCluster
from eagleray.client.loop_thread import LoopThread
from eagleray.client.settings import LaneName, LayoutName
from eagleray.client.sync_cluster import SyncCluster
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


class Cluster(SyncCluster):
    """A running cluster, as a program sees it.

        with eagleray.start(data_dir="data") as cluster:
            cluster.admin.create_topic("orders", partitions=8)
            with cluster.producer(transactional_id="checkout-1") as producer:
                with producer.transaction():
                    producer.send("orders", key=b"42", value=b"paid")

    Owns: a loop on a thread of its own, the lanes to the nodes, and, where it was started here, the cluster itself,
    which `close` stops in good order. What the cluster holds stays in its data directory.
    """

    def __init__(
        self,
        name: str,
        thread: LoopThread,
        cluster: AsyncCluster,
        peers: Peers,
        ray: EmbeddedRay | None,
        *,
        is_ours: bool,
    ) -> None:
        super().__init__(thread, cluster)
        self.name = name
        self._peers = peers
        self._ray = ray
        self._is_ours = is_ours
        self._is_closed = False

    def nodes(self) -> list[dict[str, Any]]:
        """Return what each node says about itself: its roles, its process, where it listens."""
        require_ray(self._ray, "describing the nodes")

        async def describe() -> list[dict[str, Any]]:
            await self._cluster.runtime.view.refreshed()
            return await describe_nodes(self.name, self._cluster.runtime.view.image)

        return self._thread.run(describe())

    def add_machine(self, address: str, *, wait_s: float = 0.0) -> tuple[int, ...]:
        """Give the running cluster nodes on one more Ray node; return their ids once they have joined.

        If the Ray node has not joined Ray yet, `wait_s` is how long to wait for it. Existing partitions stay where they
        are; new partitions may be placed there, and those of nodes that are drained. Raises eagleray.errors.CannotAdd.
        """
        require_ray(self._ray, "adding a machine")
        return self._thread.run(add_machine(self.name, address, wait_s=wait_s))

    def stop(self) -> None:
        """Stop the cluster for all programs; its data stay where they are."""
        require_ray(self._ray, "stopping the cluster")
        stop_cluster(self.name, self._cluster.runtime.view.image)

    def close(self) -> None:
        """Let go of the cluster, and stop it where it was started here; repeating it does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._thread.run(self._cluster.close())
        self._thread.call_soon(self._peers.close)
        super().close()
        if self._is_ours:
            self.stop()
        if self._ray is not None:
            self._ray.close()

    def __enter__(self) -> Self:
        return self


def start(
    data_dir: str = "data",
    *,
    name: str = DEFAULT_NAME,
    address: str | None = None,
    layout: LayoutName = "separate",
    leaders: int | None = None,
    coordinators: int | None = None,
    group_coordinators: int = 1,
    lane: LaneName = "direct",
    config: Mapping[str, str | float | bool] | None = None,
    host: str | None = None,
    port: int = 0,
    machines: MachineCount = None,
) -> Cluster:
    """Start a cluster with what `data_dir` holds, on the Ray cluster at `address` or on one of its own.

    Where this process has joined a Ray cluster before, the cluster is started there.

    `layout` is "separate", with an actor for each role, or "colocated", with an actor for each core that has a share of
    all of them. `config` takes Kafka's settings by their names, such as {"transactional.id.expiration.ms": "3600000"}.
    `lane` is how nodes reach each other and this program reaches them: "direct", by connections to their ports, or
    "ray", by actor calls, which are slower.

    `machines` is how many nodes of the Ray cluster it is spread over, this one first, or "all"; each has the actors of
    the layout, and a folder in `data_dir` on its own disk. By default there are as many as `data_dir` was used with.
    """
    options = StartOptions(
        name=name,
        data_dir=data_dir,
        layout=layout,
        leaders=leaders,
        coordinators=coordinators,
        group_coordinators=group_coordinators,
        lane=lane,
        config=config or {},
        host=host,
        port=port,
        machines=machines,
    )
    check_name(name)
    check_ray(address)
    ray = join_ray(address)
    thread = LoopThread()
    try:
        credentials = thread.run(start_nodes(options))
        peers, cluster = thread.run(open_client(name, credentials, lane, task=task_of_this_thread()))
    except BaseException:
        thread.close()
        ray.close()
        raise
    return Cluster(name, thread, cluster, peers, ray, is_ours=True)


def connect(name: str | None = None, *, address: str | None = None, lane: LaneName = "direct") -> Cluster:
    """Connect to a running cluster.

        with eagleray.connect() as cluster:  # the one that there is
            print(cluster.admin.list_topics())

    It is looked for at `address`: HOST:PORT of the head of a Ray cluster, "auto" for the Ray of this machine, or the
    path of a file that `eagleray contact` has written, with which a program needs no Ray. Without an address it is
    looked for on the Ray cluster that this process has joined; at the address in EAGLERAY_ADDRESS or RAY_ADDRESS; among
    the clusters that `eagleray start` has started on this machine; and on the Ray cluster of which `ray start` has made
    this machine a part. Commands of `eagleray` follow the same rule.

    `lane` is "direct", by connections to the nodes' ports, or "ray", by actor calls, which are slower.

    Raises ClusterNotFound where there is none, and where more than one may be meant: `name` and `address` choose; and
    NodeUnreachable where the ports of its nodes cannot be reached.
    """
    check_lane(lane)
    location = locate(name, address)
    ray = join_ray_of(location)
    thread = LoopThread()
    try:
        peers, cluster = thread.run(open_located(location, lane, task=task_of_this_thread()))
    except BaseException:
        thread.close()
        if ray is not None:
            ray.close()
        raise
    return Cluster(location.name, thread, cluster, peers, ray, is_ours=False)
