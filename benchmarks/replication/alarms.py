"""Nodes that are taken for dead although they only have to wait for a processor.

Busy loops, each as important to the kernel as the broker, take the processors away from it, while a client runs
transactions. Every session that ends is a false alarm: no node was killed.
"""

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from benchmarks.replication.clusters import MACHINES, cluster_on, until_whole
from benchmarks.replication.failover import Prober
from benchmarks.report import markdown_table, print_table
from eagleray import aio
from eagleray.broker.metadata.image import MetadataImage
from tests.support.machines import Machines

TOPIC = "failover"
_LOOPS_A_CORE = (0, 1, 4, 16)
_SETTLE_S = 2.0


class Strain(Struct, frozen=True):
    """What a cluster did while other processes had the processors."""

    loops: int
    commits_s: float
    longest_gap_s: float
    given_up: int
    new_leaders: int


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep processors busy with this many processes, and end them."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def strain(cluster: aio.Cluster, loops: int, seconds: float) -> Strain:
    """Run transactions beside busy loops, and see who is given up."""
    await until_whole(cluster)
    before = cluster.runtime.view.image
    prober = Prober(cluster, max(before.nodes))
    await prober.start()
    with busy_loops(loops):
        await asyncio.sleep(seconds)
    await asyncio.sleep(_SETTLE_S)
    await prober.stop()
    await cluster.runtime.view.refreshed()
    after = cluster.runtime.view.image
    gaps = [later - earlier for earlier, later in itertools.pairwise(prober.committed_at)]
    return Strain(
        loops,
        len(prober.committed_at) / (seconds + _SETTLE_S),
        max(gaps, default=seconds),
        sum(after.incarnations.get(node_id) != incarnation for node_id, incarnation in before.incarnations.items()),
        sum(_leader_epochs(after)) - sum(_leader_epochs(before)),
    )


def _leader_epochs(image: MetadataImage) -> Iterator[int]:
    return (partition.leader_epoch for topic in image.topics.values() for partition in topic.partitions)


HEADING = ["busy loops", "commits/s of one client", "longest wait s", "nodes given up", "new leaders"]


async def alarms(machines: Machines, seconds: float) -> None:
    """Print how many nodes are given up beside more and more busy loops."""
    async with cluster_on(machines) as cluster:
        await cluster.admin.create_topic(
            TOPIC, partitions=12, replication_factor=MACHINES, configs={"min.insync.replicas": "2"}
        )
        strains = [await strain(cluster, each * (os.cpu_count() or 1), seconds) for each in _LOOPS_A_CORE]
    rows = [
        [
            str(each.loops),
            f"{each.commits_s:.0f}",
            f"{each.longest_gap_s:.2f}",
            str(each.given_up),
            str(each.new_leaders),
        ]
        for each in strains
    ]
    print_table(f"Three machines beside busy loops, {seconds:.0f} s each: false alarms", HEADING, rows)
    print(markdown_table(HEADING, rows))
