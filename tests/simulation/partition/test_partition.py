"""A cluster in one process keeps its promises whatever goes wrong, and everything that can go wrong does."""

from collections import Counter

import pytest

from tests.simulation.partition.harness import simulate

GROUPS = 2
SEEDS_EACH = 50

WHAT_GOES_WRONG = [
    "clock skewed",
    "crash of a follower",
    "crash of a leader",
    "crash of all nodes",
    "crash of the controller",
    "death in the middle of a write",
    "error of a disk",
    "in-sync set grown",
    "in-sync set shrunk",
    "leader elected",
    "leader handed over",
    "log offline",
    "loss of a machine of a follower",
    "loss of a machine of a leader",
    "loss of power everywhere",
    "loss of power of a follower",
    "loss of power of a leader",
    "message cut off",
    "message delayed",
    "message lost",
    "message overtaken",
    "message repeated",
    "move begun",
    "move completed",
    "node given up by the controller",
    "partition both ways",
    "partition one way",
    "partition without a leader",
    "pause of a follower",
    "pause of a leader",
    "preferred leader asked for",
    "produce answered: NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "produce answered: NOT_LEADER_OR_FOLLOWER",
    "produce answered: REQUEST_TIMED_OUT",
    "produce refused: NOT_ENOUGH_REPLICAS",
    "produce refused: NOT_LEADER_OR_FOLLOWER",
    "producer repeats",
    "records deleted",
    "transaction aborted",
    "transaction committed",
]


@pytest.mark.parametrize("group", range(GROUPS))
def test_nothing_acknowledged_is_lost_and_all_converge(group: int) -> None:
    fired: Counter[str] = Counter()
    for seed in range(group * SEEDS_EACH, (group + 1) * SEEDS_EACH):
        fired += simulate(seed)
    assert [fault for fault in WHAT_GOES_WRONG if not fired[fault]] == []


def test_a_seed_always_gives_the_same_world() -> None:
    assert simulate(12) == simulate(12)
