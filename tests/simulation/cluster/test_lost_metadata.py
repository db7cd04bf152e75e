"""Voters that lose metadata, and directories that lose what says whose they are, cost nothing that was acknowledged."""

from collections import Counter
from collections.abc import Callable, Container
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest import mock

import msgspec
import pytest

from eagleray.actors.roles import metadata_quorum
from eagleray.actors.storage.log_manager import LogManager
from eagleray.broker.filesystem import FileSystem
from eagleray.broker.quorum.election_state import ElectionState, read_election_state
from tests.simulation.catching import is_broken
from tests.simulation.cluster.harness import simulate_lost_metadata

SEEDS = 20
MOST_SEEDS = 100


def test_lost_metadata_cost_nothing_that_was_acknowledged() -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        fired += simulate_lost_metadata(seed)
    assert fired["loss of metadata"], fired
    assert fired["partition.metadata rotten"], fired


def _forgetting_what_was_committed() -> AbstractContextManager[Any]:
    """Voters that do not know, when they start, how long their logs have been."""

    def read(file_system: FileSystem, path: str) -> ElectionState:
        return msgspec.structs.replace(read_election_state(file_system, path), committed=0)

    return mock.patch.object(metadata_quorum, "read_election_state", read)


def _removing_what_is_unknown() -> AbstractContextManager[Any]:
    """Nodes that take every directory of a partition's name whose topic they do not know for a deleted topic's."""
    original = LogManager.claim

    class Everything:
        def __contains__(self, _: object) -> bool:
            return True

    def claim(self: LogManager, directory: str, topic_id: bytes, deleted: Container[bytes]) -> None:
        name = directory.rpartition("/")[2]
        if self._holds_files(directory) and self.topic_id_in(name) is None:
            self.set_aside(name)
        original(self, directory, topic_id, Everything())

    return mock.patch.object(LogManager, "claim", claim)


MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "voter that forgets what was committed": _forgetting_what_was_committed,
    "unknown directory that is removed": _removing_what_is_unknown,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_rule_is_caught(mutation: str) -> None:
    with MUTATIONS[mutation]():
        assert any(is_broken(partial(simulate_lost_metadata, seed)) for seed in range(MOST_SEEDS))
