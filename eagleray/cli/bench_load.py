"""The load of `eagleray bench txn`: many producers on one loop, each with one transaction after the other."""

from __future__ import annotations

import asyncio
import sys
from array import array
from typing import Final

import msgspec

from eagleray.actors.process.memory import collect_garbage_rarely
from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import AbortableError
from eagleray.client.producer.producer import AsyncProducer

_INITS_AT_ONCE: Final = 100
_DISPATCH_S: Final = 0.002
_RECENT: Final = 2000


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load to put on the cluster."""

    topic: str
    producers: int = 1000
    seconds: float = 10.0
    rate: float | None = None
    """Transactions that arrive each second; None for as many as get through."""

    transactions: int = sys.maxsize
    """End after so many, even where there is time left."""

    partitions: int = 8
    records: int = 1
    size: int = 100


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Latencies are in milliseconds, from the arrival of a transaction until it was committed."""

    producers: int
    seconds: float
    transactions: int
    transactions_per_second: float
    records_per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    aborted: int
    missed: int
    """Arrivals for which no producer was free before the end."""


class Bench:
    """One run.

    Owns: the producers. On failure: a transaction that has to be aborted is counted; any other error ends the run.
    """

    def __init__(self, cluster: AsyncCluster, load: Load, prefix: str | None = None) -> None:
        """Make the producers; their transactional ids begin with `prefix`, by default with the name of the topic."""
        self.load = load
        self._loop = asyncio.get_running_loop()
        ids = (f"{prefix or load.topic}-{number}" for number in range(load.producers))
        self._producers = [cluster.producer(transactional_id=transactional_id) for transactional_id in ids]
        self._value = bytes(load.size)
        self._arrivals: asyncio.Queue[float] = asyncio.Queue()
        self._latencies_ms = array("d")
        self._ended_at = array("d")
        self._aborted = 0
        self._arrived = 0
        self._begun = 0
        self._began = self._ended = 0.0

    async def prepare(self) -> None:
        """Get every producer its identity, so that the run measures nothing but transactions."""
        for first in range(0, len(self._producers), _INITS_AT_ONCE):
            await asyncio.gather(*(producer.init() for producer in self._producers[first : first + _INITS_AT_ONCE]))
        # The load shares its cores with the cluster: what it wastes is missing there.
        collect_garbage_rarely()

    async def run(self) -> Report:
        """Put the load on the cluster for as long as it says."""
        work = self._closed if self.load.rate is None else self._offered
        self._began = self._loop.time()
        self._ended = self._began + self.load.seconds
        tasks = [self._loop.create_task(work(number, each)) for number, each in enumerate(self._producers)]
        try:
            if self.load.rate is not None:
                await self._dispatch(self.load.rate, tasks)
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self.report()

    # Closed loop: the next transaction begins when the last one has ended

    async def _closed(self, number: int, producer: AsyncProducer) -> None:
        while (now := self._loop.time()) < self._ended and self._begun < self.load.transactions:
            await self._transact(number, producer, now)

    # Offered rate: transactions arrive, whether or not a producer is free

    async def _offered(self, number: int, producer: AsyncProducer) -> None:
        while True:
            arrived = await self._arrivals.get()
            if arrived < 0 or self._loop.time() >= self._ended:
                return
            await self._transact(number, producer, arrived)

    async def _dispatch(self, rate: float, tasks: list[asyncio.Task[None]]) -> None:
        arrived = 0
        while (now := self._loop.time()) < self._ended and not any(task.done() for task in tasks):
            due = min(int((now - self._began) * rate), self.load.transactions)
            for place in range(arrived, due):
                self._arrivals.put_nowait(self._began + place / rate)
            arrived = max(arrived, due)
            if arrived == self.load.transactions:
                break
            await asyncio.sleep(_DISPATCH_S)
        self._arrived = arrived
        for _ in tasks:
            self._arrivals.put_nowait(-1.0)

    async def _transact(self, number: int, producer: AsyncProducer, arrived: float) -> None:
        load = self.load
        self._begun += 1
        producer.begin()
        try:
            for place in range(load.records):
                await producer.send(load.topic, self._value, partition=(number + place) % load.partitions)
            await producer.commit()
        except AbortableError:
            self._aborted += 1
            await producer.abort()
        else:
            now = self._loop.time()
            self._latencies_ms.append((now - arrived) * 1000)
            self._ended_at.append(now - self._began)

    # What came of it

    def samples(self) -> list[tuple[float, float]]:
        """When each transaction was committed, in seconds from the beginning, and how many milliseconds it took."""
        return list(zip(self._ended_at, self._latencies_ms, strict=True))

    def report(self) -> Report:
        """Say how it went, so far or in all."""
        done = len(self._latencies_ms)
        seconds = max(self._loop.time() - self._began, 1e-9)
        is_over = self._loop.time() >= self._ended or done == self.load.transactions
        sample = sorted(self._latencies_ms if is_over else self._latencies_ms[-_RECENT:])
        return Report(
            producers=self.load.producers,
            seconds=round(seconds, 2),
            transactions=done,
            transactions_per_second=round(done / seconds, 1),
            records_per_second=round(done * self.load.records / seconds, 1),
            p50_ms=percentile(sample, 0.50),
            p99_ms=percentile(sample, 0.99),
            max_ms=percentile(sample, 1.0),
            aborted=self._aborted,
            missed=max(self._arrived - done - self._aborted, 0),
        )

    async def close(self) -> None:
        """Close the producers."""
        await asyncio.gather(*(producer.close() for producer in self._producers))


def percentile(ordered: list[float], share: float) -> float:
    """The value that this share of all values does not exceed; 0 where there are none."""
    if not ordered:
        return 0.0
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2)
