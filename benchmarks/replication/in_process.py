"""What a transaction costs in CPU time, with three replicas and with one: three nodes and a client in this process.

python -m benchmarks.replication.in_process                         # both, in turns
python -m benchmarks.replication.in_process --replicas 3 --profile  # where the time of one of them goes

There is no Ray, and nodes and client share one loop and one core, so nothing here says how much a cluster gets through.
But CPU time depends less than a rate does on who else runs on the machine, and the least of many slices still less.
"""

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from statistics import median

import uvloop

from benchmarks.replication.loads import PARTITIONS
from benchmarks.report import print_table
from eagleray.cli.bench_load import Bench, Load
from eagleray.client.cluster import AsyncCluster
from eagleray.testing import THREE_MACHINES, LocalCluster

TOPIC = "load"
SLICE = 5000
"""Transactions that are measured together."""

_LOOK_S = 0.05
_NO_LIMIT_S = 3600.0
_PROFILED_LINES = 60


class SlicedBench(Bench):
    """A load whose producers are run again and again."""

    async def run_slice(self) -> float:
        """Run one slice; return the microseconds of each of its transactions."""
        self._begun = 0
        began = time.process_time()
        await self.run()
        return (time.process_time() - began) * 1e6 / SLICE


@asynccontextmanager
async def cluster_of(replicas: int) -> AsyncIterator[tuple[LocalCluster, AsyncCluster]]:
    """Start three nodes that keep so many replicas of everything, and a topic that is in sync."""
    least = str(min(replicas, 2))
    settings = {
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": least,
    }
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        async with LocalCluster(directory, THREE_MACHINES, settings) as nodes:
            cluster = nodes.connect()
            configs = {"min.insync.replicas": least}
            await cluster.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=replicas, configs=configs)
            while any(len(each.isr) < replicas for each in nodes.nodes[0].image.topics[TOPIC].partitions):
                await asyncio.sleep(_LOOK_S)
            yield nodes, cluster
            await cluster.close()


def asked_by(nodes: LocalCluster) -> Counter[str]:
    """What the nodes have asked of each other so far, together."""
    asked: Counter[str] = Counter()
    for node in nodes.nodes.values():
        asked.update(node.peers.traffic.as_dict())
    return asked


async def measure(
    replicas: int, producers: int, slices: int, profile: cProfile.Profile | None = None
) -> tuple[list[float], dict[str, float]]:
    """Return the microseconds of a transaction in each slice, and what nodes asked of each other for each."""
    async with cluster_of(replicas) as (nodes, cluster):
        load = Load(topic=TOPIC, producers=producers, seconds=_NO_LIMIT_S, transactions=SLICE)
        bench = SlicedBench(cluster, load)
        await bench.prepare()
        # The first transactions open logs and learn routes; they are not what lasts.
        await bench.run_slice()
        before = asked_by(nodes)
        with profile or nullcontext():
            microseconds = [await bench.run_slice() for _ in range(slices)]
        asked = asked_by(nodes) - before
        await bench.close()
    return microseconds, {name: count / (slices * SLICE) for name, count in asked.items()}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="*", default=[1, 3], choices=(1, 3))
    parser.add_argument("--rounds", type=int, default=5, help="how often each is started, in turns")
    parser.add_argument("--slices", type=int, default=4, help=f"of {SLICE} transactions, in each round")
    parser.add_argument("--producers", type=int, default=1000)
    parser.add_argument("--profile", action="store_true", help="print where the time went, of one round")
    return parser.parse_args()


def print_profiles(arguments: argparse.Namespace) -> None:
    for replicas in arguments.replicas:
        profile = cProfile.Profile()
        uvloop.run(measure(replicas, arguments.producers, arguments.slices, profile))
        pstats.Stats(profile).sort_stats("tottime").print_stats(_PROFILED_LINES)


def print_costs(arguments: argparse.Namespace) -> None:
    found: dict[int, list[float]] = {replicas: [] for replicas in arguments.replicas}
    between: dict[int, dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for replicas in arguments.replicas:
            measured, between[replicas] = uvloop.run(measure(replicas, arguments.producers, arguments.slices))
            found[replicas] += measured
    heading = ["replicas", "CPU µs each, least", "median", "calls between nodes", "frames", "bytes"]
    rows = []
    for replicas, microseconds in found.items():
        asked = between[replicas]
        size_bytes = asked["sent_bytes"] + asked["received_bytes"]
        costs = f"{min(microseconds):.1f}", f"{median(microseconds):.1f}"
        rows.append([str(replicas), *costs, f"{asked['questions']:.2f}", f"{asked['frames']:.3f}", f"{size_bytes:.0f}"])
    print_table("Transactions of one record: three nodes and their client in one process", heading, rows)


def main() -> None:
    arguments = parse_arguments()
    if arguments.profile:
        print_profiles(arguments)
    else:
        print_costs(arguments)


if __name__ == "__main__":
    main()
