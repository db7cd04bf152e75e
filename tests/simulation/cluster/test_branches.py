"""Branches that are over stay over: what comes late is refused, although partitions forget them at once."""

from functools import partial

import pytest

from tests.simulation.catching import is_broken
from tests.simulation.cluster.branch_mutations import BRANCH_MUTATIONS
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.harness import simulate_branches, simulate_cluster

SEEDS = 4
MOST_SEEDS = 100
WHAT_HAPPENS = [
    "branch aborted",
    "branch committed",
    "late batch told: INVALID_PRODUCER_ID_MAPPING",
    "late batch told: INVALID_TXN_STATE",
]


def test_no_batch_of_a_branch_that_is_over_is_taken() -> None:
    missing = partial(absent, WHAT_HAPPENS)
    assert missing(cover(partial(simulate_cluster, branches=True), range(MOST_SEEDS), SEEDS, missing)) == []


@pytest.mark.parametrize("mutation", BRANCH_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    with BRANCH_MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_branches, seed)) for seed in range(MOST_SEEDS))
