"""What the targets have in common that speak to a cluster: it lives for many inputs, in virtual time."""

import asyncio
from abc import ABC, abstractmethod

from tests.fuzz.cluster import FuzzedCluster
from tests.support.client_clock import VirtualTimeLoop

INPUTS_A_CLUSTER = 50
_RECOVERED_EVERY = 10
_RESTARTED_EVERY = 25
_MOST_SECONDS = 6 * 3600


class ClusterTarget(ABC):
    """Takes inputs; after each the invariants are checked, after some a node is killed, and its disk recovered.

    Owns: the loop and the cluster on it. After a violation, and after some inputs, the next has a new cluster.
    """

    def __init__(self, inputs_a_cluster: int = INPUTS_A_CLUSTER) -> None:
        self._inputs_a_cluster = inputs_a_cluster
        self._runner: asyncio.Runner | None = None
        self._cluster: FuzzedCluster | None = None
        self._inputs = 0
        self.frames = 0

    @abstractmethod
    async def play(self, cluster: FuzzedCluster, data: bytes) -> int:
        """Do what an input says, and return how many frames that were."""

    def __call__(self, data: bytes) -> None:
        """Take one input. Raises Violation."""
        try:
            if self._runner is None:
                self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
                self._cluster = self._runner.run(_begun())
                self._inputs = 0
            self._inputs += 1
            self._runner.run(self._take(data))
        except BaseException:
            self._end(checked=False)
            raise
        if self._inputs >= self._inputs_a_cluster:
            self.close()

    async def _take(self, data: bytes) -> None:
        cluster = self._cluster
        assert cluster is not None
        async with asyncio.timeout(_MOST_SECONDS):
            self.frames += await self.play(cluster, data)
            await cluster.check()
            if self._inputs % _RECOVERED_EVERY == 0 or self._inputs_a_cluster == 1:
                cluster.logs.check_recovery()
            if self._inputs % _RESTARTED_EVERY == 0:
                await cluster.restart(self._inputs // _RESTARTED_EVERY % 2)
                await cluster.check()

    def close(self) -> None:
        """End the cluster, as after the last input."""
        self._end(checked=True)

    def _end(self, *, checked: bool) -> None:
        runner, cluster = self._runner, self._cluster
        self._runner = self._cluster = None
        if runner is None:
            return
        try:
            if cluster is not None:
                runner.run(_ended(cluster, checked=checked))
        finally:
            runner.close()


async def _begun() -> FuzzedCluster:
    return await FuzzedCluster().__aenter__()


async def _ended(cluster: FuzzedCluster, *, checked: bool) -> None:
    if checked:
        cluster.close()
    else:
        cluster.honest.close()
        cluster._end()
