"""The light client's load on a broker, in a process of its own; prints one line of JSON.

python -m benchmarks.kafka.light_load BOOTSTRAP TOPIC '{"producers": 64, "version": 1, ...}'
"""

import asyncio
import gc
import json
import os
import sys
import time
from array import array
from collections import deque

import uvloop
from msgspec import Struct
from msgspec.json import decode

from benchmarks.kafka.frames import VERSION_1, VERSION_2, Place
from benchmarks.kafka.light_client import LightProducer, prepare_all
from benchmarks.kafka.percentiles import percentiles
from benchmarks.measuring import CpuOf

DISPATCH_SECONDS = 0.002
WARM_UP_SECONDS = 0.5
GRACE_SECONDS = 5.0


class LightLoad(Struct, frozen=True, kw_only=True):
    """What is asked of the broker; `rate` is how many transactions arrive each second, 0 for as many as get through."""

    producers: int
    version: int
    seconds: float
    rate: float = 0.0
    partitions: int = 8
    size: int = 100
    broker_pids: tuple[int, ...] = ()


class Run:
    """One run of a load. A producer that fails ends it."""

    def __init__(self, bootstrap: str, topic: str, load: LightLoad) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._bootstrap = (host, int(port))
        self._load = load
        versions = VERSION_1 if load.version == 1 else VERSION_2
        value = bytes(load.size)
        self._producers = [
            LightProducer(f"{topic}-{number}", Place(topic, number % load.partitions), versions, value)
            for number in range(load.producers)
        ]
        self._began_at: dict[LightProducer, float] = {}
        self._idle = deque(self._producers)
        self._waiting: deque[float] = deque()
        self._latencies_ms = array("d")
        self._all_idle = asyncio.Event()
        self._ends_at = 0.0
        self._is_closed_loop = True

    async def measure(self) -> dict[str, float]:
        await prepare_all(self._bootstrap, self._producers)
        # The first transactions open logs and learn what is needed; they are not what lasts.
        await self._run(WARM_UP_SECONDS, rate=0.0)
        gc.collect()
        gc.freeze()
        self._latencies_ms = array("d")
        retries_before = self._retries()
        cpu = CpuOf({"client": [os.getpid()], "broker": list(self._load.broker_pids)})
        began = time.perf_counter()
        missed = await self._run(self._load.seconds, self._load.rate)
        seconds = time.perf_counter() - began
        count = len(self._latencies_ms)
        spent = cpu.microseconds_each(count)
        for producer in self._producers:
            producer.close()
        return {
            "rate": count / seconds,
            **percentiles(self._latencies_ms),
            "missed": float(missed),
            "retries": (self._retries() - retries_before) / max(count, 1),
            "client_us": spent["client"],
            "client_share": 100 * spent["client"] / max(sum(spent.values()), 1e-9),
            "broker_us": spent["broker"],
        }

    def _retries(self) -> int:
        return sum(each.retries for each in self._producers)

    async def _run(self, seconds: float, rate: float) -> int:
        """Run for a time and until every producer is idle again; return how many arrivals found none in time."""
        self._is_closed_loop = not rate
        began = time.perf_counter()
        self._ends_at = began + seconds
        if rate:
            await self._dispatch(began, rate)
        else:
            while self._idle:
                self._start(began)
        await asyncio.wait_for(self._until_all_idle(), GRACE_SECONDS + seconds)
        missed = len(self._waiting)
        self._waiting.clear()
        return missed

    async def _dispatch(self, began: float, rate: float) -> None:
        arrived = 0
        while (now := time.perf_counter()) < self._ends_at:
            due = int((now - began) * rate)
            self._waiting.extend(began + place / rate for place in range(arrived, due))
            arrived = max(arrived, due)
            while self._waiting and self._idle:
                self._start(self._waiting.popleft())
            await asyncio.sleep(DISPATCH_SECONDS)

    async def _until_all_idle(self) -> None:
        self._all_idle.clear()
        if len(self._idle) < len(self._producers):
            await self._all_idle.wait()
        failures = {each.failure for each in self._producers if each.failure}
        if failures:
            raise RuntimeError(f"producers have failed: {sorted(failures)}")

    def _start(self, arrived: float) -> None:
        producer = self._idle.popleft()
        self._began_at[producer] = arrived
        producer.transact(self._done)

    def _done(self, producer: LightProducer) -> None:
        now = time.perf_counter()
        self._idle.append(producer)
        if producer.failure is None:
            self._latencies_ms.append((now - self._began_at[producer]) * 1000)
            if now < self._ends_at:
                self._go_on(now)
        if len(self._idle) == len(self._producers):
            self._all_idle.set()

    def _go_on(self, now: float) -> None:
        if self._waiting:
            self._start(self._waiting.popleft())
        elif self._is_closed_loop:
            self._start(now)


async def main() -> None:
    bootstrap, topic, options = sys.argv[1:]
    run = Run(bootstrap, topic, decode(options, type=LightLoad))
    print(json.dumps(await run.measure()))


if __name__ == "__main__":
    uvloop.run(main())
