"""Wall clocks jump by hours and weeks: nothing expires and no transaction ends by that, and nodes follow in the end."""

from collections import Counter

import pytest

from tests.simulation.catching import is_caught
from tests.simulation.cluster.clock_mutations import CLOCK_MUTATIONS
from tests.simulation.cluster.harness import simulate_clocks

FIRST_SEEDS = {"timeouts by the time of day": 6, "stamps that are believed": 8}
"""Where to begin to look for what is rare, so that the tests are quick."""

SEEDS = 6
MOST_SEEDS = 80
WHAT_HAPPENS = [
    "clock accepted by a person",
    "clock that jumps by hours",
    "clock that jumps by weeks",
    "crash of a TransactionalProducer",
    "jump accepted",
    "transaction committed",
    "transaction timed out",
]


def test_jump_expires_nothing_and_ends_no_transaction() -> None:
    fired: Counter[str] = Counter()
    for seed in range(MOST_SEEDS):
        fired += simulate_clocks(seed)
        if seed >= SEEDS and all(fired[name] for name in WHAT_HAPPENS):
            break
    assert not [name for name in WHAT_HAPPENS if not fired[name]]


@pytest.mark.parametrize("mutation", CLOCK_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    seeds = range(FIRST_SEEDS.get(mutation, 0), MOST_SEEDS)
    assert any(is_caught(CLOCK_MUTATIONS[mutation], simulate_clocks, seed) for seed in seeds)
