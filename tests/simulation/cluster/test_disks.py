"""Disks that give back something else than was written cost nothing that was acknowledged, whichever file it is."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

import pytest

from eagleray.broker.log import opening
from tests.simulation.catching import caught_by, is_broken
from tests.simulation.cluster.coverage import absent, cover
from tests.simulation.cluster.file_kinds import CELLS, Way, cell_name
from tests.simulation.cluster.harness import simulate_cluster, simulate_disks

SEEDS = 6
MOST_SEEDS = 60
ENOUGH = 6
"""How many kinds of files have to be swapped, and to come back as they were earlier."""

WHAT_HAPPENS = [
    "directory put aside",
    "disk of another cluster",
    "files put back by a person",
    "topic deleted",
]

FIRST_SEEDS = {"lost segments that count as deleted": 17}
"""Where to begin to look for what is rare, so that the tests are quick."""


def test_files_of_every_kind_are_damaged_in_every_way() -> None:
    assert (
        missing(cover(partial(simulate_cluster, damages_files=True, topics=True), range(MOST_SEEDS), SEEDS, missing))
        == []
    )


def test_voter_whose_last_batch_has_another_epoch_does_not_end_again_at_each_start() -> None:
    """Its start did not look at what was not known to be flushed, and a scrub soon after it did."""
    assert caught_by(lambda: simulate_disks(652)) is None


def missing(fired: Counter[str]) -> list[str]:
    """What has not happened. Not every file has another to be swapped with, or an earlier state, in a few worlds."""
    struck = {way: [cell_name(*cell) for cell in CELLS if cell[1] is way] for way in Way}
    spared = {way: absent(names, fired) for way, names in struck.items()}
    wanted = [*spared[Way.ROT], *spared[Way.LOSS], *spared[Way.CUT]]
    for way in (Way.SWAP, Way.OLD):
        if len(struck[way]) - len(spared[way]) < ENOUGH:
            wanted += spared[way]
    return [*wanted, *absent(WHAT_HAPPENS, fired)]


def _taking_lost_segments_for_deleted_ones() -> AbstractContextManager[Any]:
    """Logs that begin where their first file does."""
    return mock.patch.object(opening._Opening, "_missing_beginning", return_value=None)


MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "lost segments that count as deleted": _taking_lost_segments_for_deleted_ones,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    first = FIRST_SEEDS.get(mutation, 0)
    with MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_disks, seed)) for seed in range(first, first + MOST_SEEDS))
