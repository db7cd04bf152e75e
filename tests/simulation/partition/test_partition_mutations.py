"""The simulator catches a machine with one rule broken, whichever rule it is."""

import pytest

from tests.simulation.partition.harness import simulate
from tests.simulation.partition.mutations import MUTATIONS
from tests.simulation.partition.parts import Parts
from tests.simulation.schedule import Violation

MOST_SEEDS = 150

FIRST_SEEDS = {
    "follower without the epoch fence": 20,
    "follower that trusts its tail": 88,
    "lease that never ends": 78,
    "election outside of the in-sync set": 16,
    "answers of another life": 90,
    "follower that begins anew without producers": 440,
}
"""Where to begin to look for what is rare, so that the tests are quick."""


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    parts = MUTATIONS[mutation]
    first = FIRST_SEEDS.get(mutation, 0)
    with pytest.raises(Violation, match=r"seed \d+"):
        run_until_caught(range(first, first + MOST_SEEDS), parts)


def run_until_caught(seeds: range, parts: Parts) -> None:
    for seed in seeds:
        simulate(seed, parts)
