"""`make bench-txn`: transactions by handles, through real actors on a local Ray cluster, on the cores of the load.

python -m benchmarks.transactions                 # everything, some minutes
python -m benchmarks.transactions lanes flush     # some of it
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import ray
import uvloop

from benchmarks.measuring import CpuOf, resident_mb
from benchmarks.report import print_table
from eagleray import aio
from eagleray.broker.transactions.events import InitProducerId
from eagleray.cli.bench_load import Bench, Load, Report
from eagleray.client.producer.producer import AsyncProducer

SECONDS = 8.0
CLIENT_PROCESSES = 8
RECOVERED_IDS = 100_000
OPEN_TRANSACTIONS = 10_000
KILLS = 5
SETTLE_SECONDS = 6.0


@asynccontextmanager
async def cluster(
    layout: str = "separate", lane: str = "direct", coordinators: int | None = None, **config: str
) -> AsyncIterator[aio.Cluster]:
    """Start a cluster with an empty data directory, and end it."""
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        started = await aio.start(directory, layout=layout, lane=lane, coordinators=coordinators, config=config)
        async with started:
            yield started


async def measure(on: aio.Cluster, **options: object) -> tuple[Report, dict[str, float]]:
    """Run a load; return what came of it, and the CPU time of a transaction by role."""
    load = Load(**({"topic": f"load-{time.monotonic_ns()}", "seconds": SECONDS} | options))  # type: ignore[arg-type]
    await on.admin.create_topic(load.topic, partitions=load.partitions)
    bench = Bench(on, load)
    try:
        await bench.prepare()
        # The first transactions open logs and learn routes; they are not what lasts.
        await asyncio.sleep(0.5)
        cpu = CpuOf(await processes(on))
        report = await bench.run()
        return report, cpu.microseconds_each(report.transactions)
    finally:
        await bench.close()


async def processes(on: aio.Cluster) -> dict[str, list[int]]:
    """The processes of a cluster by role, and this one as the client."""
    pids: dict[str, list[int]] = {"client": [os.getpid()]}
    for node in await on.nodes():
        name = node["roles"][0] if len(node["roles"]) == 1 else "all roles"
        pids.setdefault(name, []).append(node["pid"])
    return pids


# Lanes and layouts


async def lanes() -> None:
    """Closed loop, 1,000 producers, every layout by every lane."""
    rows = []
    for layout in ("separate", "colocated"):
        for lane in ("direct", "ray"):
            async with cluster(layout, lane) as on:
                report, cpu = await measure(on)
            rows.append([layout, lane, *_throughput(report), *_by_role(cpu)])
    heading = ["layout", "lane", "transactions/s", "p50 ms", "p99 ms", "CPU µs a transaction", "of which"]
    print_table("Closed loop: 1,000 producers in one process, one 100-byte record each, 8 partitions", heading, rows)


def _throughput(report: Report) -> list[str]:
    return [f"{report.transactions_per_second:,.0f}", f"{report.p50_ms:.1f}", f"{report.p99_ms:.1f}"]


def _by_role(cpu: dict[str, float]) -> list[str]:
    parts = ", ".join(f"{name} {spent:.0f}" for name, spent in cpu.items() if spent >= 1)
    return [f"{sum(cpu.values()):.0f}", parts]


# Offered rates


async def offered() -> None:
    """10,000 transactions arrive each second, for one client process and for eight."""
    rows = []
    for layout in ("separate", "colocated"):
        async with cluster(layout) as on:
            report, cpu = await measure(on, rate=10_000.0)
            rows.append([layout, "1", *_throughput(report), str(report.missed), *_by_role(cpu)])
            rows.append([layout, str(CLIENT_PROCESSES), *await _from_many_processes(on, 10_000.0)])
    heading = ["layout", "client processes", "transactions/s", "p50 ms", "p99 ms", "missed", "CPU µs", "of which"]
    print_table("Offered: 10,000 transactions a second, 1,000 producers", heading, rows)


async def _from_many_processes(on: aio.Cluster, rate: float) -> list[str]:
    """Let processes of their own offer a share of the rate each; the worst of their p99s counts."""
    topic = f"many-{time.monotonic_ns()}"
    await on.admin.create_topic(topic, partitions=8)
    begin_at = time.time() + 45
    command = [sys.executable, "-m", "benchmarks.transactions", "--client", ray.get_runtime_context().gcs_address]
    clients = [
        subprocess.Popen(
            [*command, topic, str(rate / CLIENT_PROCESSES), str(begin_at), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(CLIENT_PROCESSES)
    ]
    outputs = await asyncio.gather(*(asyncio.to_thread(client.communicate) for client in clients))
    reports = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
    return [
        f"{sum(report['transactions_per_second'] for report in reports):,.0f}",
        f"{max(report['p50_ms'] for report in reports):.1f}",
        f"{max(report['p99_ms'] for report in reports):.1f}",
        str(sum(report["missed"] for report in reports)),
        "",
        "",
    ]


async def client(address: str, topic: str, rate: float, begin_at: float, number: int) -> None:
    """Be one of many client processes."""
    async with await aio.connect(address=address) as on:
        producers = 1000 // CLIENT_PROCESSES
        bench = Bench(on, Load(topic=topic, producers=producers, seconds=SECONDS, rate=rate), f"{topic}-{number}")
        await bench.prepare()
        await asyncio.sleep(max(0.0, begin_at - time.time()))
        report = await bench.run()
        await bench.close()
    print(json.dumps({name: getattr(report, name) for name in report.__struct_fields__}))


async def flush() -> None:
    """5,000 transactions arrive each second, and nothing is acknowledged before it is on the disk."""
    rows = []
    for layout in ("separate", "colocated"):
        async with cluster(layout, flush="commit") as on:
            report, cpu = await measure(on, rate=5_000.0)
        rows.append([layout, *_throughput(report), str(report.missed), *_by_role(cpu)])
    heading = ["layout", "transactions/s", "p50 ms", "p99 ms", "missed", "CPU µs a transaction", "of which"]
    print_table("flush=commit: 5,000 transactions a second offered", heading, rows)


async def single() -> None:
    """One producer, one transaction after the other."""
    rows = []
    for layout in ("separate", "colocated"):
        for lane in ("direct", "ray"):
            async with cluster(layout, lane) as on:
                report, _ = await measure(on, producers=1, seconds=4.0)
            rows.append([layout, lane, *_throughput(report)])
    print_table("One producer, back to back", ["layout", "lane", "transactions/s", "p50 ms", "p99 ms"], rows)


# Growth


async def growth() -> None:
    """What a transaction costs with more producers, and with more partitions, than usual."""
    rows = []
    async with cluster("separate") as on:
        await measure(on, seconds=2.0)
        shapes = [(10, 8), (100, 8), (1_000, 8), (10_000, 8), (1_000, 1), (1_000, 50), (1_000, 200)]
        for producers, partitions in shapes:
            report, cpu = await measure(on, producers=producers, partitions=partitions)
            rows.append([f"{producers:,}", str(partitions), *_throughput(report), *_by_role(cpu)])
    heading = ["producers", "partitions", "transactions/s", "p50 ms", "p99 ms", "CPU µs a transaction", "of which"]
    print_table("Growth, closed loop, layout separate", heading, rows)


async def memory() -> None:
    """What transactions that are open cost their coordinator."""
    async with cluster("separate") as on:
        coordinators = (await processes(on))["coordinator"]
        await on.admin.create_topic("open", partitions=8)
        before_mb = sum(map(resident_mb, coordinators))
        producers = [on.producer(transactional_id=f"open-{number}") for number in range(OPEN_TRANSACTIONS)]
        for first in range(0, len(producers), 500):
            await asyncio.gather(*(_open(producer) for producer in producers[first : first + 500]))
        count = len(await on.admin.list_transactions(states=["Ongoing"]))
        after_mb = sum(map(resident_mb, coordinators))
        rows = [[f"{count:,}", f"{before_mb:.0f}", f"{after_mb:.0f}", f"{after_mb - before_mb:.0f}"]]
        print_table(
            f"Memory of {len(coordinators)} coordinators",
            ["ongoing transactions", "idle MB", "then MB", "more MB"],
            rows,
        )


async def _open(producer: AsyncProducer) -> None:
    await producer.init()
    producer.begin()
    await producer.send("open", bytes(100))
    await producer.flush()


async def recovery() -> None:
    """How long a coordinator with many ids is away after kill -9: one that has all of them."""
    async with cluster("separate", coordinators=1) as on:
        await on.admin.create_topic("after", partitions=8)
        await _make_ids(on, RECOVERED_IDS)
        async with on.producer(transactional_id="survivor") as producer:
            await _commit_one(producer)
            seconds = []
            for _ in range(KILLS):
                # Kills are not so near to each other that the machine still has to do with the last one.
                await asyncio.sleep(SETTLE_SECONDS)
                (coordinator,) = (await processes(on))["coordinator"]
                os.kill(coordinator, signal.SIGKILL)
                began = time.perf_counter()
                await _commit_one(producer)
                seconds.append(time.perf_counter() - began)
    rows = [[f"{RECOVERED_IDS:,}", " / ".join(f"{each:.2f}" for each in seconds)]]
    print_table("kill -9 of the coordinator until the next commit", ["transactional ids in its log", "seconds"], rows)


async def _make_ids(on: aio.Cluster, count: int) -> None:
    view, peers = on.runtime.view, on.runtime.peers
    for first in range(0, count, 1000):
        names = [f"id-{number}" for number in range(first, first + 1000)]
        while names:
            replies = await asyncio.gather(
                *(peers.call(view.transaction_coordinator(name), InitProducerId, name) for name in names)
            )
            names = [name for name, reply in zip(names, replies, strict=True) if reply.error_code]


async def _commit_one(producer: AsyncProducer) -> None:
    async with producer.transaction():
        await producer.send("after", b"one")


SECTIONS: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    section.__name__: section for section in (lanes, offered, flush, single, growth, memory, recovery)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="which parts; all by default")
    parser.add_argument("--client", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        address, topic, rate, begin_at, number = arguments.client
        uvloop.run(client(address, topic, float(rate), float(begin_at), int(number)))
        return
    for name in arguments.sections or SECTIONS:
        uvloop.run(SECTIONS[name]())


if __name__ == "__main__":
    main()
