"""Each target catches nodes with one rule broken, in a short run, and nothing where none is."""

import itertools
import logging
from collections.abc import Iterable, Iterator
from random import Random

import pytest

from tests.fuzz.__main__ import inputs
from tests.fuzz.mutations import CORPUS, MUTATIONS, Mutation, entry_of
from tests.fuzz.targets import TARGETS

MOST_INPUTS = {"kafka_server": 150, "direct_lane": 800, "small_files": 6000}
INPUTS_WITHOUT = {"kafka_server": 20, "direct_lane": 20, "small_files": 500}
CASES = [(target, name) for target, mutations in MUTATIONS.items() for name in mutations]


@pytest.fixture(autouse=True)
def quiet():
    """Strangers are logged, which takes longer than to serve them."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def first_violation(target_name: str, some_inputs: Iterable[bytes]) -> AssertionError | None:
    """What the first input that breaks something is refused with."""
    try:
        target = TARGETS[target_name]()
        for data in some_inputs:
            target(data)
    except AssertionError as violation:
        return violation
    target.close()
    return None


def random_inputs(count: int) -> Iterator[bytes]:
    return (inputs(Random(seed)) for seed in range(count))


@pytest.mark.parametrize(("target", "name"), CASES)
def test_broken_rule_is_caught(target: str, name: str):
    mutation: Mutation = MUTATIONS[target][name]
    entry = CORPUS / entry_of(target, name)
    first = [entry.read_bytes()] if entry.exists() else []
    with mutation():
        assert first_violation(target, itertools.chain(first, random_inputs(MOST_INPUTS[target]))) is not None


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_caught_where_no_rule_is_broken(target: str):
    violation = first_violation(target, random_inputs(INPUTS_WITHOUT[target]))
    if violation is not None:
        raise violation
