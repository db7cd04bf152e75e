"""A quorum in one process keeps its promises whatever goes wrong, and everything that can go wrong does."""

from collections import Counter

from tests.simulation.quorum.quorum_harness import simulate_quorum

SEEDS = 100

WHAT_GOES_WRONG = [
    "clock skewed",
    "committed, but too late to say so",
    "crash of a follower",
    "crash of a leader",
    "crash of a leader just elected",
    "crash of all followers",
    "crash of all nodes",
    "death in the middle of a write",
    "error of a disk",
    "figure 8",
    "leader deposed",
    "leader elected",
    "log offline",
    "log trimmed",
    "loss of a machine of a follower",
    "loss of a machine of a leader",
    "loss of power of a follower",
    "loss of power of a leader",
    "message cut off",
    "message delayed",
    "message lost",
    "message overtaken",
    "message repeated",
    "partition both ways",
    "partition of two",
    "partition one way",
    "pause of a follower",
    "pause of a leader",
    "proposal refused",
    "value acknowledged",
]


def test_nothing_committed_is_lost_and_one_leads_at_a_time() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired += simulate_quorum(seed)
    assert [fault for fault in WHAT_GOES_WRONG if not fired[fault]] == []


def test_nothing_committed_is_lost_where_voters_lose_the_end_of_their_logs() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired += simulate_quorum(seed, loses_logs=True)
    lost = [f"loss of the end of a log of a {whose}" for whose in ("leader", "follower")]
    assert [fault for fault in lost if not fired[fault]] == []


def test_a_seed_always_gives_the_same_quorum() -> None:
    assert simulate_quorum(12) == simulate_quorum(12)
