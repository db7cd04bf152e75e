"""Clients of version 1 whose connections are late: each transaction is theirs alone, and ends as they have asked."""

from collections import Counter

import pytest

from tests.simulation.catching import is_caught
from tests.simulation.cluster.harness import simulate_version_1
from tests.simulation.cluster.version_1_mutations import VERSION_1_MUTATIONS

SEEDS = 3
MOST_SEEDS = 60
FIRST_SEEDS = {
    "coordinator that carries out late requests": 0,
    "coordinators that ask no connection": 3,
    "group coordinator that takes late offsets": 2,
}
"""Where to begin to look, so that the tests are quick."""

WHAT_HAPPENS = [
    "bytes of a client late",
    "client of version 1 gave offsets up",
    "client of version 1 moved on",
    "client told: CONCURRENT_TRANSACTIONS",
    "client told: COORDINATOR_LOAD_IN_PROGRESS",
    "crash of a Version1Producer",
    "late request read: AddPartitionsToTxnRequest",
    "late request read: EndTxnRequest",
    "late request read: TxnOffsetCommitRequest",
    "transaction aborted",
    "transaction committed",
]


def test_late_requests_of_version_1_change_nothing() -> None:
    fired: Counter[str] = Counter()
    for seed in range(MOST_SEEDS):
        fired += simulate_version_1(seed)
        if seed >= SEEDS and all(fired[name] for name in WHAT_HAPPENS):
            break
    assert not [name for name in WHAT_HAPPENS if not fired[name]]


@pytest.mark.parametrize("mutation", VERSION_1_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS[mutation]
    seeds = range(first, first + MOST_SEEDS)
    assert any(is_caught(VERSION_1_MUTATIONS[mutation], simulate_version_1, seed) for seed in seeds)
