"""A cluster for threads: its nodes and the core of its clients are on a loop in the background, in real time."""

from collections.abc import Callable, Mapping
from typing import Any, Self

from eagleray.client.cluster import AsyncCluster
from eagleray.client.loop_thread import LoopThread
from eagleray.client.sync_cluster import SyncCluster
from tests.support.cluster_in_memory import TOPICS, ClusterInMemory


class Background:
    """Owns: a thread with a loop, the nodes on it, and the blocking clients of them."""

    def __init__(self, topics: Mapping[str, int] = TOPICS) -> None:
        self.thread = LoopThread()
        self.cluster = SyncCluster(self.thread, self.thread.run(self._make(topics)))

    async def _make(self, topics: Mapping[str, int]) -> AsyncCluster:
        self.world = await ClusterInMemory(topics).__aenter__()
        return AsyncCluster(self.world.runtime())

    def on_loop(self, act: Callable[..., Any], *fields: object) -> Any:
        """Do something on the loop, and give what it returns."""

        async def call() -> Any:
            return act(*fields)

        return self.thread.run(call())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """End the nodes, then the clients, where a test has not done so."""
        if not self.thread._is_closed:
            self.on_loop(self.world.close)
            self.cluster.close()
