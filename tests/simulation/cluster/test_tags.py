"""A tag is committed once, with the branches that its driver has named, however often the driver dies."""

from collections import Counter

import pytest

from tests.simulation.catching import is_caught
from tests.simulation.cluster.harness import simulate_tags
from tests.simulation.cluster.tag_mutations import TAG_MUTATIONS

FIRST_SEED = 20
"""Where to begin to look for a world in which the driver's process crashes, so that the test is quick."""

SEEDS = 2
MOST_SEEDS = 60
WHAT_HAPPENS = [
    "branch left out",
    "branch sealed",
    "branches completed by their token",
    "crash of a TaggedDriver",
    "driver died before the other system has its token",
    "driver died prepared",
    "earlier tag found committed",
    "tag found committed",
    "transaction aborted",
    "transaction committed",
]


def test_every_tag_is_committed_once_with_the_branches_that_were_named() -> None:
    fired: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        fired += simulate_tags(seed)
        if seed >= FIRST_SEED + SEEDS and all(fired[name] for name in WHAT_HAPPENS):
            break
    assert not [name for name in WHAT_HAPPENS if not fired[name]]


@pytest.mark.parametrize("mutation", TAG_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    assert any(is_caught(TAG_MUTATIONS[mutation], simulate_tags, seed) for seed in range(MOST_SEEDS))
