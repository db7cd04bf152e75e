"""Clients of version 1 whose connections are late: each transaction is theirs alone, and ends as they have asked."""

from functools import partial

import pytest

from tests.simulation.catching import is_caught
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.harness import simulate_cluster, simulate_version_1
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
    missing = partial(absent, WHAT_HAPPENS)
    assert missing(cover(partial(simulate_cluster, by_connections=True), range(MOST_SEEDS), SEEDS, missing)) == []


@pytest.mark.parametrize("mutation", VERSION_1_MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS[mutation]
    seeds = range(first, first + MOST_SEEDS)
    assert any(is_caught(VERSION_1_MUTATIONS[mutation], simulate_version_1, seed) for seed in seeds)
