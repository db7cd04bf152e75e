"""A tag is committed once, with the branches that its driver has named, however often the driver dies."""

from functools import partial

import pytest

from tests.simulation.catching import is_caught
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.harness import simulate_cluster, simulate_tags
from tests.simulation.cluster.tag_mutations import TAG_MUTATIONS

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
    missing = partial(absent, WHAT_HAPPENS)
    assert missing(cover(partial(simulate_cluster, tags=True), range(MOST_SEEDS), SEEDS, missing)) == []


@pytest.mark.parametrize("mutation", TAG_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    assert any(is_caught(TAG_MUTATIONS[mutation], simulate_tags, seed) for seed in range(MOST_SEEDS))
