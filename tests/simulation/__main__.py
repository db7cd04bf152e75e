"""Run many simulated worlds, or one again: `python -m tests.simulation --seeds 10000`, `--seed 42`.

`cluster` is whole nodes, with their roles and lanes, on simulated disks, clocks and networks. `--world prepared` is the
same with clients that commit in two phases, of which some die and others complete, and `--world pools` with programs
that take a pool of transactions from each other. `--world branches` has a driver whose workers write into branches,
some of them late, and `--world tags` one that dies and begins its tags again, with branches for each. `--world
version-1` has producers of transaction version 1 besides, whose bytes reach the real Kafka server by connections that
are late. `--world disks` has disks that give back files rotten, lost, cut short, swapped or as they were earlier,
`--world alone` one machine with such a disk and no others, and `--world metadata` voters that lose their logs.
`--world clocks` has wall clocks that jump by hours and weeks apart from the steady ones. In `--world topics`
topics come and go and machines are drained, and so in `disks` and `alone`.
`--world quorum` runs the quorum that keeps the metadata alone: it knows less, is faster, and goes deeper.
"""

import argparse
import logging
import multiprocessing
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tests.simulation.cluster.coverage import empty_cells, table
from tests.simulation.cluster.harness import (
    simulate_alone,
    simulate_branches,
    simulate_clocks,
    simulate_cluster,
    simulate_disks,
    simulate_lost_metadata,
    simulate_pools,
    simulate_prepared,
    simulate_tags,
    simulate_topics,
    simulate_version_1,
)
from tests.simulation.quorum.quorum_harness import simulate_quorum
from tests.simulation.schedule import Violation

WORLDS: dict[str, Callable[[int], Counter[str]]] = {
    "alone": simulate_alone,
    "branches": simulate_branches,
    "clocks": simulate_clocks,
    "cluster": simulate_cluster,
    "disks": simulate_disks,
    "metadata": simulate_lost_metadata,
    "pools": simulate_pools,
    "prepared": simulate_prepared,
    "quorum": simulate_quorum,
    "tags": simulate_tags,
    "topics": simulate_topics,
    "version-1": simulate_version_1,
}

_SEEDS_AT_ONCE = 4
"""How many seeds a process takes at a time; a world takes about a second."""

_SEEDS_A_LINE = 500
"""After how many seeds to say that it goes on."""


def main() -> int:
    """Run the seeds, tell those that fail and how to replay them, and what went wrong in the worlds, how often."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--seed", type=int, help="run this one world alone")
    parser.add_argument("--world", choices=list(WORLDS), default="cluster", help="what to simulate")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="how many processes share the seeds")
    arguments = parser.parse_args()
    with quiet():
        return run(arguments)


@contextmanager
def quiet() -> Iterator[None]:
    """Hear nothing of nodes, which complain of their disks all the time here."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def run(arguments: argparse.Namespace) -> int:
    """Run what is asked for."""
    if arguments.seed is not None:
        print_counts(WORLDS[arguments.world](arguments.seed), arguments.world)
        return 0
    fired: Counter[str] = Counter()
    failed = 0
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for seed, (counts, failure) in zip(seeds, outcomes(arguments.world, seeds, arguments.workers), strict=True):
        fired += counts
        if failure:
            failed += 1
            print(f"FAILED {failure}\n  replay it: {replay_command(seed, arguments.world)}", flush=True)
        if (seed + 1 - arguments.first) % _SEEDS_A_LINE == 0:
            print(f"{seed + 1 - arguments.first} seeds, {failed} failed", flush=True)
    print_counts(fired, arguments.world)
    print(f"{arguments.seeds} seeds from {arguments.first} on, {failed} failed")
    return 1 if failed else 0


def outcomes(world: str, seeds: range, workers: int) -> Iterator[tuple[Counter[str], str]]:
    """Simulate in so many processes; give for each seed, in order, what happened and what went wrong, if anything."""
    simulate_one = partial(outcome_of, world)
    if workers <= 1:
        yield from map(simulate_one, seeds)
        return
    with multiprocessing.Pool(workers) as pool:
        yield from pool.imap(simulate_one, seeds, chunksize=_SEEDS_AT_ONCE)


def outcome_of(world: str, seed: int) -> tuple[Counter[str], str]:
    """Simulate one world; return what happened in it, and what went wrong, if anything."""
    try:
        return WORLDS[world](seed), ""
    except Violation as violation:
        return Counter(), str(violation)
    except Exception:  # noqa: BLE001 - the other seeds have to be run too, and the output has to tell which one it was
        return Counter(), f"seed {seed}: {traceback.format_exc()}"


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
