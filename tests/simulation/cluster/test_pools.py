"""A pool has one owner: its takeover fences every slot, keeps what is prepared, and ends the rest."""

from functools import partial

import pytest

from tests.simulation.catching import is_broken
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.harness import simulate_cluster, simulate_pools
from tests.simulation.cluster.pool_mutations import POOL_MUTATIONS

SEEDS = 4
MOST_SEEDS = 60
WHAT_HAPPENS = [
    "4 open side by side",
    "another owner has decided",
    "crash of a PoolOwner",
    "pool or slot fenced",
    "pool taken over",
    "prepared transaction recovered",
    "transaction aborted",
    "transaction committed",
]


def test_every_slot_is_that_of_one_owner() -> None:
    missing = partial(absent, WHAT_HAPPENS)
    assert missing(cover(partial(simulate_cluster, pools=True), range(MOST_SEEDS), SEEDS, missing)) == []


@pytest.mark.parametrize("mutation", POOL_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    with POOL_MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_pools, seed)) for seed in range(MOST_SEEDS))
