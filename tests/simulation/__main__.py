"""Run many simulated worlds, or one again: `python -m tests.simulation --seeds 10000`, `--seed 42`.

`cluster` is whole nodes, with their roles and lanes, on simulated disks, clocks and networks. `--world partition` runs
the machines of one replicated partition, and `--world quorum` the quorum that keeps the metadata: they know less, are
faster, and go deeper.
"""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Callable

from tests.simulation.cluster.coverage import empty_cells, table
from tests.simulation.cluster.world import simulate_cluster
from tests.simulation.partition.world import simulate
from tests.simulation.quorum.quorum_world import simulate_quorum
from tests.simulation.schedule import Violation

WORLDS: dict[str, Callable[[int], Counter[str]]] = {
    "cluster": simulate_cluster,
    "partition": simulate,
    "quorum": simulate_quorum,
}


def main() -> int:
    """Run the seeds, tell those that fail and how to replay them, and what went wrong in the worlds, how often."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--seed", type=int, help="run this one world alone")
    parser.add_argument("--world", choices=list(WORLDS), default="cluster", help="what to simulate")
    arguments = parser.parse_args()
    # Nodes complain of their disks all the time here.
    logging.disable(logging.CRITICAL)
    try:
        return run(arguments)
    finally:
        logging.disable(logging.NOTSET)


def run(arguments: argparse.Namespace) -> int:
    """Run what is asked for."""
    simulate_one = WORLDS[arguments.world]
    if arguments.seed is not None:
        print_counts(simulate_one(arguments.seed), arguments.world)
        return 0
    fired: Counter[str] = Counter()
    failed = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        try:
            fired += simulate_one(seed)
        except Violation as violation:
            failed += 1
            print(f"FAILED {violation}\n  replay it: {replay_command(seed, arguments.world)}", flush=True)
    print_counts(fired, arguments.world)
    print(f"{arguments.seeds} seeds from {arguments.first} on, {failed} failed")
    return 1 if failed else 0


def replay_command(seed: int, world: str) -> str:
    """Return the command that runs one world again."""
    return f"make simulate SEED={seed}" + ("" if world == "cluster" else f" WORLD={world}")


def print_counts(fired: Counter[str], world: str) -> None:
    """Print how often each thing of interest happened, and what nodes were when something went wrong with them."""
    for name, times in sorted(fired.items()):
        if "|" not in name:
            print(f"{times:9} {name}")
    if world == "cluster":
        print(table(fired))
        print(f"{len(empty_cells(fired))} cells of the table are empty")


if __name__ == "__main__":
    sys.exit(main())
