"""Topics come and go, and replicas move, while everything goes wrong: what is acknowledged goes only with its topic."""

from collections import Counter

from tests.simulation.cluster.harness import simulate_topics

SEEDS = 12
MOST_SEEDS = 60

WHAT_HAPPENS = [
    "crash",
    "directory put aside",
    "drain asked for",
    "loss of power",
    "move completed",
    "partition both ways",
    "partition one way",
    "pause",
    "rot of an open segment",
    "topic created",
    "topic deleted",
    "torn write",
]


def test_what_is_acknowledged_goes_only_with_its_topic() -> None:
    fired: Counter[str] = Counter()
    for seed in range(MOST_SEEDS):
        fired += simulate_topics(seed)
        if seed >= SEEDS and not missing(fired):
            break
    assert missing(fired) == []


def missing(fired: Counter[str]) -> list[str]:
    return [name for name in WHAT_HAPPENS if not fired[name]]
