"""Whole nodes keep their promises whatever goes wrong, and everything that can go wrong does, to nodes of all kinds."""

from collections import Counter

from tests.simulation.cluster.coverage import absent, cover, empty_cells, table
from tests.simulation.cluster.harness import simulate_cluster

SEEDS = 48
MOST_SEEDS = 400
"""What is rare comes in worlds that are made for it, after those that are drawn."""

WHAT_HAPPENS = [
    "client repeats",
    "crash of a Reader",
    "crash of a TransactionalProducer",
    "crash of a Transformer",
    "death in the middle of a write",
    "group coordinator to a marker: CONCURRENT_TRANSACTIONS",
    "in-sync set grown",
    "in-sync set shrunk",
    "leader elected",
    "leader to a marker: CONCURRENT_TRANSACTIONS",
    "leader to a marker: INVALID_PRODUCER_EPOCH",
    "log compacted",
    "message cut off",
    "move asked for",
    "move completed",
    "offset told: NONE",
    "offset told: UNSTABLE_OFFSET_COMMIT",
    "partition without a leader",
    "preferred leaders asked for",
    "process ended by its disk",
    "produce answered: NONE",
    "produce answered: NOT_ENOUGH_REPLICAS",
    "produce answered: NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "produce answered: NOT_LEADER_OR_FOLLOWER",
    "produce answered: REQUEST_TIMED_OUT",
    "records deleted",
    "transaction aborted",
    "transaction committed",
    "transform aborted",
    "transform committed",
]


def test_nothing_acknowledged_is_lost_and_all_is_there_exactly_once() -> None:
    fired = cover(simulate_cluster, range(MOST_SEEDS), SEEDS, missing)
    assert missing(fired) == [], "\n" + table(fired)


def missing(fired: Counter[str]) -> list[str]:
    return [*absent(WHAT_HAPPENS, fired), *empty_cells(fired)]


def test_a_seed_always_gives_the_same_world() -> None:
    assert simulate_cluster(12) == simulate_cluster(12)
