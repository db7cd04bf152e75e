"""The simulator catches nodes with one rule broken, whichever rule it is."""

from collections.abc import Iterator
from functools import partial
from unittest import mock

import pytest

from tests.simulation.catching import is_broken
from tests.simulation.cluster import harness
from tests.simulation.cluster.mutations import MUTATIONS

MOST_SEEDS = 300
HEALED_MS = 20_000
"""A third of what worlds have elsewhere."""

FIRST_SEEDS = {
    "follower that begins anew without producers": 14,
    "follower without the epoch fence": 115,
    "follower that forgets to truncate": 22,
    "follower that trusts its tail": 42,
    "lease that never ends": 54,
    "election outside of the in-sync set": 22,
    "high watermark without the proposed set": 16,
    "controller that ignores losses": 4,
    "answers of another incarnation": 10,
    "loss that is forgotten": 14,
    "failed log that has lost nothing": 20,
    "boot that has lost nothing": 97,
    "coordinator that loads at once": 1,
    "late markers that are taken": 215,
    "controller that goes on after its lease": 112,
    "rot that nobody looks for": 20,
    "rot that is taken for a torn write": 10,
    "quorum that needs nobody": 41,
    "offsets of transactions that a takeover forgets": 8,
    "refused append that leaves its producers": 26,
    "refused append that leaves its batches": 16,
    "producers that write to a full disk": 22,
    "coordinators that write to a full disk": 34,
}
"""Where to begin to look for what is rare, so that the tests are quick."""


@pytest.fixture(autouse=True)
def impatience() -> Iterator[None]:
    """A world that never becomes well takes minutes to say so; in these tests it says so sooner."""
    with mock.patch.object(harness, "HEALED_MS", HEALED_MS):
        yield


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS.get(mutation, 0)
    assert any(is_caught(mutation, seed) for seed in range(first, first + MOST_SEEDS))


def is_caught(mutation: str, seed: int) -> bool:
    """Whether the world of a seed is broken by the mutation, and by nothing else."""
    with MUTATIONS[mutation]():
        if not is_broken(partial(harness.simulate_cluster, seed)):
            return False
    return not is_broken(partial(harness.simulate_cluster, seed))
