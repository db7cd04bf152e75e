"""A prepared transaction has exactly one outcome, whichever processes die, and nothing else is ever committed."""

from functools import partial

import pytest

from tests.simulation.catching import is_broken
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.harness import simulate_cluster, simulate_prepared
from tests.simulation.cluster.prepared_mutations import PREPARED_MUTATIONS

SEEDS = 12
MOST_SEEDS = 100
WHAT_HAPPENS = [
    "crash of a PreparingProducer",
    "crash of a ResolvedProducer",
    "other system has refused what was resolved",
    "outcome forgotten",
    "resolver answered",
    "resolver answered late",
    "resolver died",
    "transaction aborted",
    "transaction committed",
    "transaction completed by its token",
    "transaction kept",
]


def test_every_token_has_one_outcome() -> None:
    missing = partial(absent, WHAT_HAPPENS)
    assert missing(cover(partial(simulate_cluster, prepares=True), range(MOST_SEEDS), SEEDS, missing)) == []


@pytest.mark.parametrize("mutation", PREPARED_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    with PREPARED_MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_prepared, seed)) for seed in range(MOST_SEEDS))
