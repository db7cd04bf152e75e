"""A mutation that calls what is not there is not taken for one that was caught."""

import json
from collections.abc import Callable

import pytest

from tests.simulation.catching import is_broken
from tests.simulation.schedule import Violation


def world(step: Callable[[], object]) -> Callable[[], None]:
    def simulate() -> None:
        try:
            step()
        except Exception as error:
            raise Violation("seed 1") from error

    return simulate


def fail_an_assertion() -> None:
    raise AssertionError


def test_world_that_did_what_it_must_not_is_broken() -> None:
    assert is_broken(world(fail_an_assertion))
    assert not is_broken(world(lambda: None))


@pytest.mark.parametrize("slip", [lambda: object().told(), lambda: len(is_open=True)])
def test_slip_of_a_mutation_is_raised(slip: Callable[[], object]) -> None:
    with pytest.raises((AttributeError, TypeError)):
        is_broken(world(slip))


def test_slip_of_the_product_proves_nothing_of_the_rule() -> None:
    assert not is_broken(world(lambda: json.loads(None)))
