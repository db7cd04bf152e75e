"""What an idle cluster takes: all topics quiet.

python -m benchmarks.idle --seconds 60         # nodes in this process, without Ray
python -m benchmarks.idle --seconds 60 --ray   # nodes as Ray actors, beside as many actors that do nothing
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import uvloop

import eagleray
from benchmarks.report import print_table
from eagleray.client.settings import LayoutName
from eagleray.testing import COLOCATED, SEPARATE, LocalCluster

SETTLING_SECONDS = 12
"""The first bookmarks of logs are written ten seconds after they were written to."""

LAYOUTS: tuple[LayoutName, ...] = ("colocated", "separate")


async def idle_percentage(layout: dict[int, tuple[str, ...]], seconds: int) -> float:
    """Return the percentage of a core that the nodes of a layout take, all in this process, after a transaction."""
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        async with LocalCluster(directory, layout) as nodes:
            on = nodes.connect()
            await on.admin.create_topic("quiet", partitions=8)
            async with on.producer(transactional_id="idle") as producer, producer.transaction():
                await producer.send("quiet", b"a record")
            await asyncio.sleep(SETTLING_SECONDS)
            began = time.process_time()
            await asyncio.sleep(seconds)
            taken = time.process_time() - began
            await on.close()
    return taken * 100 / seconds


def print_without_ray(seconds: int) -> None:
    """Measure the nodes of both layouts in this process."""
    layouts = {"colocated": COLOCATED, "separate": SEPARATE}
    rows = [
        [name, str(len(layout)), f"{uvloop.run(idle_percentage(layout, seconds)):.3f}"]
        for name, layout in layouts.items()
    ]
    print_table("Idle nodes in one process, without Ray", ["layout", "nodes", "% of a core"], rows)


def taken_ns(pids: Iterable[int]) -> int:
    """Return the time that all threads of some processes have had of the processor so far."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def idle_percentages_on_ray(layout: LayoutName, seconds: int) -> tuple[int, float, float]:
    """Return how many nodes a layout has, what they take as Ray actors, and what as many empty actors take."""
    import ray  # noqa: PLC0415 - the other measurement is one without it

    class Empty:
        async def pid(self) -> int:
            return os.getpid()

    with (
        tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory,
        eagleray.start(directory, layout=layout) as cluster,
    ):
        cluster.admin.create_topic("quiet", partitions=8)
        with cluster.producer(transactional_id="idle") as producer, producer.transaction():
            producer.send("quiet", b"a record")
        nodes = [node["pid"] for node in cluster.nodes()]
        actors = [ray.remote(num_cpus=0, max_concurrency=1000)(Empty).remote() for _ in nodes]
        empty = ray.get([actor.pid.remote() for actor in actors])
        time.sleep(SETTLING_SECONDS)
        before = taken_ns(nodes), taken_ns(empty)
        time.sleep(seconds)
        after = taken_ns(nodes), taken_ns(empty)
    ours, rays = ((end - begin) / (seconds * 1e7) for begin, end in zip(before, after, strict=True))
    return len(nodes), ours, rays


def print_with_ray(seconds: int) -> None:
    """Measure the nodes of both layouts as Ray actors."""
    rows = []
    for layout in LAYOUTS:
        nodes, ours, rays = idle_percentages_on_ray(layout, seconds)
        rows.append([layout, str(nodes), f"{ours:.2f}", f"{rays:.2f}", f"{ours - rays:.2f}"])
    heading = ["layout", "nodes", "% of a core", "as many empty actors, %", "difference"]
    print_table("Idle nodes as Ray actors, all threads of their processes", heading, rows)


def main() -> None:
    """Measure both layouts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--ray", action="store_true", help="the nodes are Ray actors")
    arguments = parser.parse_args()
    if arguments.ray:
        print_with_ray(arguments.seconds)
    else:
        print_without_ray(arguments.seconds)


if __name__ == "__main__":
    main()
