"""What `transaction.v1.guard` costs clients of transaction version 1: on and off in turns, on a node in this process.

python -m benchmarks.connection_guard
"""

import argparse
import tempfile
from statistics import median

import uvloop

from benchmarks.kafka.light_load import LightLoad, Run
from benchmarks.report import print_table
from eagleray.testing import LocalCluster

TOPIC = "load"
GUARDS = ("off", "on")


async def microseconds_each(guard: str, load: LightLoad) -> tuple[float, float]:
    """Return the CPU time of a transaction, of broker and client together, and how many requests were repeated."""
    with tempfile.TemporaryDirectory(prefix="eagleray-bench-") as directory:
        async with LocalCluster(directory, settings={"transaction.v1.guard": guard}) as nodes:
            on = nodes.connect()
            await on.admin.create_topic(TOPIC, partitions=load.partitions)
            measured = await Run(nodes.bootstrap_servers.partition(",")[0], TOPIC, load).measure()
            await on.close()
    return measured["client_us"], measured["retries"]


def main() -> None:
    """Measure with the guard and without it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    load = LightLoad(producers=arguments.producers, version=1, seconds=arguments.seconds)
    found: dict[str, list[tuple[float, float]]] = {guard: [] for guard in GUARDS}
    for _ in range(arguments.rounds):
        for guard in GUARDS:
            found[guard].append(uvloop.run(microseconds_each(guard, load)))
    rows = []
    for guard, measured in found.items():
        microseconds, retries = zip(*measured, strict=True)
        costs = f"{min(microseconds):.1f}", f"{median(microseconds):.1f}", f"{max(microseconds):.1f}"
        rows.append([guard, *costs, f"{median(retries):.3f}"])
    heading = ["guard", "CPU µs a transaction, least", "median", "most", "retries a transaction"]
    title = f"Transactions of version 1, {arguments.producers} producers: broker and light client in one process"
    print_table(title, heading, rows)


if __name__ == "__main__":
    main()
