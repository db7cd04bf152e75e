"""The simulator catches a member of a quorum with one rule broken, whichever rule it is."""

import pytest

from tests.simulation.quorum.quorum_harness import simulate_quorum
from tests.simulation.quorum.quorum_mutations import MUTATIONS
from tests.simulation.schedule import Violation

MOST_SEEDS = 60

FIRST_SEEDS = {
    "no loyalty": 331,
    "vote with a new disk": 24,
    "leader without a lease": 45,
    "entries of older terms counted": 28,
}
"""Where to begin to look for what is rare, so that the tests are quick."""


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS.get(mutation, 0)
    with MUTATIONS[mutation](), pytest.raises(Violation, match=r"seed \d+"):
        run_until_caught(range(first, first + MOST_SEEDS))


def run_until_caught(seeds: range) -> None:
    for seed in seeds:
        simulate_quorum(seed)
