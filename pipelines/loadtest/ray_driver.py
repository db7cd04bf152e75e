"""Load from Ray: processes with many producers each, which reach the brokers by their handles."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import ray

from eagleray import aio
from eagleray.cli.bench_load import Bench, Load
from eagleray.client.errors import EaglerayError
from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.report import Driven, Sample

_NO_CPU: Final = 0
"""A driver waits for answers most of the time, and Spark's executors may have all that Ray gives."""


class RayDriver:
    """One process of producers; an actor, so that all of them are ready before the first of them begins."""

    def __init__(self, cluster_name: str, plan: LoadPlan, number: int) -> None:
        self._cluster_name = cluster_name
        self._plan = plan
        self._number = number
        self._cluster: aio.Cluster | None = None
        self._bench: Bench | None = None

    async def prepare(self) -> None:
        """Connect, and get every producer its identity."""
        plan = self._plan
        self._cluster = await aio.connect(self._cluster_name)
        load = Load(
            topic=plan.topic,
            producers=plan.producers,
            seconds=plan.seconds,
            rate=plan.rate / plan.ray_tasks or None,
            transactions=max(1, plan.transactions // plan.ray_tasks),
            partitions=plan.partitions,
            records=plan.records,
            size=plan.size,
        )
        self._bench = Bench(self._cluster, load, f"{plan.topic}-{self._number}")
        await self._bench.prepare()

    async def run(self) -> bytes:
        """Put the load on the cluster; return what came of it, as msgspec's bytes, which Ray need not look into."""
        assert self._bench is not None
        error = ""
        try:
            await self._bench.run()
        except EaglerayError as raised:
            error = str(raised)
        report = self._bench.report()
        rows = self._plan.records
        driven = Driven(
            name=f"ray task {self._number + 1}",
            kind="ray",
            samples=[Sample(ended, latency, rows) for ended, latency in self._bench.samples()],
            errors=report.aborted + bool(error),
            missed=report.missed,
            first_error=error,
        )
        return msgspec.msgpack.encode(driven)

    async def close(self) -> None:
        """Close the producers and let go of the cluster."""
        if self._bench is not None:
            await self._bench.close()
        if self._cluster is not None:
            await self._cluster.close()


class RayDrivers:
    """All Ray tasks of a load test.

    Owns: the actors, which `close` ends. On failure: what a driver raises while it gets ready ends the test.
    """

    def __init__(self, cluster_name: str, plan: LoadPlan) -> None:
        actor = ray.remote(num_cpus=_NO_CPU)(RayDriver)
        self._actors: list[Any] = [actor.remote(cluster_name, plan, number) for number in range(plan.ray_tasks)]

    def prepare(self) -> None:
        """Wait until all of them could begin."""
        ray.get([actor.prepare.remote() for actor in self._actors])

    def start(self) -> list[Any]:
        """Have all of them begin; return what `collect` takes."""
        return [actor.run.remote() for actor in self._actors]

    def collect(self, running: list[Any]) -> list[Driven]:
        """Wait for the end of all."""
        return [msgspec.msgpack.decode(found, type=Driven) for found in ray.get(running)]

    def close(self) -> None:
        """End the actors."""
        ray.wait([actor.close.remote() for actor in self._actors], num_returns=len(self._actors), timeout=30)
        for actor in self._actors:
            ray.kill(actor)
