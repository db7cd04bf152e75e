"""Looks for the seeds of `FIRST_SEEDS`: `python -m tests.simulation.cluster.first_seeds [PART OF A NAME]`.

Which seed catches a mutation changes with every change of what nodes do. The tests find another then, but from an old
first seed they may need hundreds of worlds, a second each.
"""

import multiprocessing
import sys
import time
from unittest import mock

from tests.simulation.__main__ import quiet
from tests.simulation.cluster import harness
from tests.simulation.cluster.mutations import MUTATIONS
from tests.simulation.cluster.test_cluster_mutations import HEALED_MS, MOST_SEEDS, is_caught


def first_seed(mutation: str) -> str:
    """Say which seed is the first to catch a mutation, and what its world takes of the processor."""
    for seed in range(2 * MOST_SEEDS):
        started_s = time.process_time()
        with quiet(), mock.patch.object(harness, "HEALED_MS", HEALED_MS):
            is_the_first = is_caught(mutation, seed)
        if is_the_first:
            return f'    "{mutation}": {seed},  # {time.process_time() - started_s:.1f} s'
    return f"    # {mutation}: not caught by {2 * MOST_SEEDS} seeds"


def main(part: str = "") -> None:
    """Print a line for each mutation whose name has this part."""
    with multiprocessing.Pool() as pool:
        for line in pool.imap_unordered(first_seed, [name for name in MUTATIONS if part in name]):
            print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
