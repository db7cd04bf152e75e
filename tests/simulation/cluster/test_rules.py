"""The simulator catches nodes with one rule about their disks broken, each for what the rule is there for."""

import re
from collections.abc import Iterator
from unittest import mock

import pytest

from tests.simulation.catching import caught_by
from tests.simulation.cluster import harness
from tests.simulation.cluster.rule_mutations import RULES

MOST_SEEDS = 40
HEALED_MS = 45_000
"""A world that never becomes well says so sooner than elsewhere."""


@pytest.fixture(autouse=True)
def impatience() -> Iterator[None]:
    with mock.patch.object(harness, "HEALED_MS", HEALED_MS):
        yield


@pytest.mark.parametrize("name", RULES)
def test_broken_rule_is_caught_for_its_own_reason(name: str) -> None:
    rule = RULES[name]
    for seed in range(rule.first_seed, rule.first_seed + MOST_SEEDS):
        with rule.mutation():
            said = caught_by(lambda seed=seed: rule.simulate(seed))
        if said is not None:
            assert re.search(rule.reason, said, re.DOTALL), said
            with rule.world():
                assert caught_by(lambda seed=seed: rule.simulate(seed)) is None, "the world is broken without it, too"
            return
    pytest.fail("no world has noticed")
