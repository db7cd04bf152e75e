"""Coordinators that break a rule of tags, or of the branches that a commit names."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.branches.branching import BRANCH_EPOCH, Branching
from eagleray.broker.transactions.branches.tags import is_settled_by
from eagleray.broker.transactions.snapshot import Snapshot
from tests.simulation.replacing import replacing

_when_committed = Branching.when_committed


def _committing_every_branch() -> AbstractContextManager[Any]:
    """A decision by which branches count that no driver has named."""

    def committed(self: Branching, branches: Iterable[ProducerIdentity]) -> Branching:
        return _when_committed(self, [ProducerIdentity(each, BRANCH_EPOCH) for each in self.branches])

    return mock.patch.object(Branching, "when_committed", committed)


def _forgetting_tags() -> AbstractContextManager[Any]:
    """A coordinator that lets a driver do a tag again which is committed."""
    return replacing(is_settled_by, lambda tag, committed_tag: False)


def _forgetting_the_series() -> AbstractContextManager[Any]:
    """A coordinator that knows the last tag, and not that those before it were committed too."""
    return replacing(is_settled_by, lambda tag, committed_tag: tag == committed_tag)


def _committing_other_branches() -> AbstractContextManager[Any]:
    """A prepared transaction of which other branches are committed than it was prepared with."""
    return mock.patch.object(Snapshot, "is_prepared_with", lambda self, branches: self.is_prepared)


TAG_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "commit of a branch that is not named": _committing_every_branch,
    "tag that is forgotten": _forgetting_tags,
    "series that is forgotten": _forgetting_the_series,
    "prepared branches that are exchanged": _committing_other_branches,
}
