"""The simulator catches nodes with one rule broken, whichever rule it is."""

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.cluster.harness import simulate_cluster
from tests.simulation.cluster.mutations import MUTATIONS
from tests.simulation.schedule import Violation

MOST_SEEDS = 300

FIRST_SEEDS = {
    "follower that begins anew without producers": 3,
    "follower without the epoch fence": 18,
    "follower that forgets to truncate": 9,
    "follower that trusts its tail": 57,
    "lease that never ends": 176,
    "election outside of the in-sync set": 300,
    "high watermark without the proposed set": 29,
    "controller that ignores losses": 10,
    "answers of another life": 10,
    "loss that is forgotten": 20,
    "failed log that has lost nothing": 20,
    "boot that has lost nothing": 15,
    "disk that is taken at its word": 29,
    "coordinator that loads at once": 1,
    "controller that goes on after its lease": 5,
    "rot that nobody looks for": 10,
    "quorum that needs nobody": 34,
}
"""Where to begin to look for what is rare, so that the tests are quick."""


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    """Nodes complain of their disks all the time here."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS.get(mutation, 0)
    with MUTATIONS[mutation](), pytest.raises(Violation, match=r"seed \d+"):
        run_until_caught(range(first, first + MOST_SEEDS))


def run_until_caught(seeds: range) -> None:
    for seed in seeds:
        simulate_cluster(seed)
