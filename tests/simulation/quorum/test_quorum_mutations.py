"""The simulator catches a member of a quorum with one rule broken, whichever rule it is."""

from functools import partial

import pytest

from tests.simulation.catching import is_broken
from tests.simulation.quorum.quorum_harness import simulate_quorum
from tests.simulation.quorum.quorum_mutations import MUTATIONS, MUTATIONS_OF_LOST_LOGS

MOST_SEEDS = 60

FIRST_SEEDS = {
    "vote against a recent leader": 331,
    "vote with a new disk": 24,
    "leader without a lease": 45,
    "entries of older terms counted": 28,
}
"""Where to begin to look for what is rare, so that the tests are quick."""


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS.get(mutation, 0)
    with MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_quorum, seed)) for seed in range(first, first + MOST_SEEDS))


@pytest.mark.parametrize("mutation", MUTATIONS_OF_LOST_LOGS)
def test_a_broken_rule_about_lost_logs_is_caught(mutation: str) -> None:
    with MUTATIONS_OF_LOST_LOGS[mutation]():
        assert any(is_broken(partial(simulate_quorum, seed, loses_logs=True)) for seed in range(MOST_SEEDS))
