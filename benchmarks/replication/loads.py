"""Loads on a cluster over three machines: by handles from this process, and on the wire from one of librdkafka's."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from typing import Any

from benchmarks.kafka.parts import MEGABYTES, MISSED, P50, P99, RATE, Metric, Part
from benchmarks.kafka.percentiles import percentiles
from benchmarks.measuring import CpuOf
from benchmarks.replication.clusters import MACHINES, NODES_OF_A_MACHINE
from eagleray import aio
from eagleray.cli.bench_load import Bench, Load
from eagleray.client.producer.producer import AsyncProducer

PARTITIONS = 8
PLAIN_PRODUCERS = 1000
STREAMS = 4
_GRACE_S = 120
_WARM_UP_S = 0.5

NODES = [machine * NODES_OF_A_MACHINE for machine in range(MACHINES)]
CPU = (
    Metric("client_us", "client's CPU µs each", "neither", 0),
    *(Metric(f"node_{node_id}_us", f"CPU µs each of node {node_id}", "neither", 0) for node_id in NODES),
)
BETWEEN = (
    Metric("questions", "calls between nodes, each", "neither", 2),
    Metric("frames", "frames that carried them, each", "neither", 3),
    Metric("bytes", "bytes between nodes, each", "neither", 0),
)
RECORDS = Metric("rate", "records/s", "more", 0)

PARTS = (
    Part("closed", "1,000 producers, transactions, by handles", (), (RATE, P50, P99, *CPU, *BETWEEN), {}),
    Part("offered", "transactions offered, by handles", (), (RATE, P50, P99, MISSED, *CPU, *BETWEEN), {}),
    Part("plain", "1,000 producers, acks=all, by handles", (), (RECORDS, P50, P99, *CPU, *BETWEEN), {}),
    Part("stream", f"acks=all, 1 KB, {STREAMS} producers, by handles", (), (MEGABYTES, *CPU), {}),
    Part("wire-txn", "16 producers, transactions, librdkafka", ("transactions",), (RATE, P50, P99), {"producers": 16}),
    Part("wire-produce", "acks=all, 1 KB, librdkafka", ("produce",), (MEGABYTES,), {"size": 1000}),
)


BULKY = {"stream", "wire-produce"}
ROOM_BYTES = 20 * 1024**3
"""What has to be free for loads that write as fast as they can, to three logs, for some seconds."""


class NoRoom(Exception):
    """A load could fill the disk, which others use as well."""


def _check_room(part: Part) -> None:
    free_bytes = shutil.disk_usage(tempfile.gettempdir()).free
    if part.name in BULKY and free_bytes < ROOM_BYTES:
        raise NoRoom(f"{free_bytes / 1024**3:.1f} GB are free; it takes {ROOM_BYTES / 1024**3:.0f} to be safe")


class Loads:
    """Puts loads on one cluster, each on a topic of its own.

    Owns: nothing but the topics that it makes, which go with the cluster.
    """

    def __init__(self, cluster: aio.Cluster, replicas: int, *, seconds: float, rate: float) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._seconds = seconds
        self._rate = rate

    async def run(self, part: Part) -> dict[str, float]:
        """Run one load, and return its figures."""
        _check_room(part)
        topic = f"{part.name}-{time.monotonic_ns()}"
        configs = {"min.insync.replicas": "2"} if self._replicas > 2 else {}
        await self._cluster.admin.create_topic(
            topic, partitions=PARTITIONS, replication_factor=self._replicas, configs=configs
        )
        try:
            return await self._load(part, topic)
        finally:
            # What one load has written is not to fill the disk of the next.
            await self._cluster.admin.delete_topic(topic)

    async def _load(self, part: Part, topic: str) -> dict[str, float]:
        if part.command:
            return await self._on_the_wire(part, topic)
        return await {
            "closed": self._transactions,
            "offered": self._offered,
            "plain": self._plain,
            "stream": self._stream,
        }[part.name](topic)

    # By handles

    async def _transactions(self, topic: str, rate: float | None = None) -> dict[str, float]:
        load = Load(topic=topic, seconds=self._seconds, partitions=PARTITIONS, rate=rate)
        bench = Bench(self._cluster, load)
        try:
            await bench.prepare()
            await asyncio.sleep(_WARM_UP_S)
            costs = await Costs.begun(self._cluster)
            report = await bench.run()
            each = await costs.of_each(report.transactions)
        finally:
            await bench.close()
        latencies = {"p50_ms": report.p50_ms, "p99_ms": report.p99_ms}
        return {"rate": report.transactions_per_second, "missed": report.missed, **latencies, **each}

    async def _offered(self, topic: str) -> dict[str, float]:
        return await self._transactions(topic, self._rate)

    async def _plain(self, topic: str) -> dict[str, float]:
        """Producers without transactions, each with one record on its way."""
        producers = [self._cluster.producer() for _ in range(PLAIN_PRODUCERS)]
        latencies_ms = array("d")
        value = bytes(100)

        async def produce(number: int, producer: AsyncProducer, until: float) -> None:
            while (now := time.perf_counter()) < until:
                await (await producer.send(topic, value, partition=number % PARTITIONS))
                latencies_ms.append((time.perf_counter() - now) * 1000)

        async def all_until(until: float) -> None:
            await asyncio.gather(*(produce(number, producer, until) for number, producer in enumerate(producers)))

        await all_until(time.perf_counter() + _WARM_UP_S)
        costs, latencies_ms = await Costs.begun(self._cluster), array("d")
        began = time.perf_counter()
        await all_until(began + self._seconds)
        seconds = time.perf_counter() - began
        each = await costs.of_each(len(latencies_ms))
        await asyncio.gather(*(producer.close() for producer in producers))
        return {"rate": len(latencies_ms) / seconds, **percentiles(latencies_ms), **each}

    async def _stream(self, topic: str) -> dict[str, float]:
        """Few producers that send as fast as their buffers take it."""
        producers = [self._cluster.producer() for _ in range(STREAMS)]
        value = bytes(1000)

        async def produce(number: int, producer: AsyncProducer, until: float) -> int:
            count = 0
            while time.perf_counter() < until:
                for place in range(100):
                    await producer.send(topic, value, partition=(number + place) % PARTITIONS)
                count += 100
                await asyncio.sleep(0)
            await producer.flush()
            return count

        async def all_until(until: float) -> int:
            return sum(await asyncio.gather(*(produce(*each, until) for each in enumerate(producers))))

        await all_until(time.perf_counter() + _WARM_UP_S)
        costs = await Costs.begun(self._cluster)
        began = time.perf_counter()
        count = await all_until(began + self._seconds)
        seconds = time.perf_counter() - began
        each = await costs.of_each(count)
        await asyncio.gather(*(producer.close() for producer in producers))
        return {"mb_per_second": count * len(value) / seconds / 1e6, **each}

    # On the wire

    async def _on_the_wire(self, part: Part, topic: str) -> dict[str, float]:
        nodes = await self._cluster.nodes()
        bootstrap = ",".join(f"{node['host']}:{node['port']}" for node in nodes)
        options = json.dumps({**part.options, "seconds": self._seconds})
        command = [sys.executable, "-m", "benchmarks.kafka.librdkafka_load", *part.command, bootstrap, topic, options]
        ended = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=_GRACE_S, check=False
        )
        if ended.returncode != 0:
            raise RuntimeError((ended.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return dict(json.loads(ended.stdout.splitlines()[-1]))


class Costs:
    """CPU time of the client and of each node, and what nodes have asked of each other, from a moment on."""

    def __init__(self, cluster: aio.Cluster, nodes: list[dict[str, Any]]) -> None:
        self._cluster = cluster
        self._asked = _asked_by(nodes)
        self._cpu = CpuOf(
            {"client_us": [os.getpid()]} | {f"node_{node['node_id']}_us": [node["pid"]] for node in nodes}
        )

    @classmethod
    async def begun(cls, cluster: aio.Cluster) -> "Costs":
        return cls(cluster, await cluster.nodes())

    async def of_each(self, count: int) -> dict[str, float]:
        """What each of `count` things has cost since the beginning."""
        cpu = self._cpu.microseconds_each(count)
        asked = _asked_by(await self._cluster.nodes())
        spent = {name: (value - self._asked[name]) / max(count, 1) for name, value in asked.items()}
        size_bytes = spent.pop("sent_bytes") + spent.pop("received_bytes")
        return cpu | spent | {"bytes": size_bytes}


def _asked_by(nodes: list[dict[str, Any]]) -> dict[str, int]:
    """What all nodes have asked of others, together."""
    counted = [node["asked_others"] for node in nodes]
    return {name: sum(each[name] for each in counted) for name in counted[0]}
