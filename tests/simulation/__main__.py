"""Run many simulated worlds, or one again: `python -m tests.simulation --seeds 10000`, `--seed 42`.

`--world quorum` runs the quorum that keeps the metadata, instead of a cluster with a replicated partition.
"""

import argparse
import sys
from collections import Counter

from tests.simulation.quorum.quorum_world import simulate_quorum
from tests.simulation.schedule import Violation
from tests.simulation.world import simulate


def main() -> int:
    """Run the seeds, tell those that fail and how to replay them, and what went wrong in the worlds, how often."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--seed", type=int, help="run this one world alone")
    parser.add_argument("--world", choices=["cluster", "quorum"], default="cluster", help="what to simulate")
    arguments = parser.parse_args()
    run = simulate_quorum if arguments.world == "quorum" else simulate
    if arguments.seed is not None:
        print_table(run(arguments.seed))
        return 0
    fired: Counter[str] = Counter()
    failed = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        try:
            fired += run(seed)
        except Violation as violation:
            failed += 1
            print(f"FAILED {violation}\n  replay it: {replay_command(seed, arguments.world)}", flush=True)
    print_table(fired)
    print(f"{arguments.seeds} seeds from {arguments.first} on, {failed} failed")
    return 1 if failed else 0


def replay_command(seed: int, world: str) -> str:
    """Return the command that runs one world again."""
    return f"make simulate SEED={seed}" + ("" if world == "cluster" else f" WORLD={world}")


def print_table(fired: Counter[str]) -> None:
    """Print how often each fault struck and each thing of interest happened."""
    for name, times in sorted(fired.items()):
        print(f"{times:9} {name}")


if __name__ == "__main__":
    sys.exit(main())
