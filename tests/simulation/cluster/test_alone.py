"""What one machine has acknowledged stays on its disk, or is offline until a person has put it back."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any
from unittest import mock

import pytest

from eagleray.broker.log import opening
from eagleray.broker.quorum.member import QuorumMember
from tests.simulation.catching import is_broken
from tests.simulation.cluster import faults
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.file_kinds import CELLS, Way, cell_name
from tests.simulation.cluster.harness import simulate_alone, simulate_cluster

SEEDS = 20
MOST_SEEDS = 150

FIRST_SEEDS = {"leader with a shorter log": 7}
"""Where to begin to look for what is rare, so that the tests are quick."""

WHAT_HAPPENS = [
    "death in the middle of a write",
    "files put back by a person",
    "directory put aside",
    "loss of power",
    "metadata log of a backup",
    "produce answered: KAFKA_STORAGE_ERROR",
    "topic deleted",
    "transaction committed",
    "unflushed end reported as cut",
    "unflushed end reported as uncertain",
]


def test_nothing_acknowledged_goes_without_a_word() -> None:
    assert (
        missing(cover(partial(simulate_cluster, is_alone=True, topics=True), range(MOST_SEEDS), SEEDS, missing)) == []
    )


def missing(fired: Counter[str]) -> list[str]:
    damages = [cell_name(kind, way) for kind, way in CELLS if way in (Way.ROT, Way.LOSS, Way.CUT)]
    return absent((*WHAT_HAPPENS, *damages), fired)


@contextmanager
def _overlooking_gaps() -> Iterator[None]:
    """Logs that do not look at where their segments end, on disks that change closed segments only."""
    cells = tuple(cell for cell in CELLS if cell[0].name == "closed segment")
    with (
        mock.patch.object(faults, "CELLS", cells),
        mock.patch.object(opening._Opening, "_missing_end", return_value=None),
    ):
        yield


def _leading_with_a_shorter_log() -> AbstractContextManager[Any]:
    """A voter that leads whatever was committed."""
    return mock.patch.object(QuorumMember, "may_stand", True)


MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "gaps that are overlooked": _overlooking_gaps,
    "leader with a shorter log": _leading_with_a_shorter_log,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS.get(mutation, 0)
    with MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_alone, seed)) for seed in range(first, first + MOST_SEEDS))
