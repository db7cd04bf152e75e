"""Coordinators that let a client of version 1 change something by any of its connections, in one way or another."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.broker.groups.committing import CommitServer
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ConnectionBindings
from eagleray.broker.transactions.connection_guard import ConnectionGuard


def _guarding_no_transaction() -> AbstractContextManager[Any]:
    """A transaction coordinator that carries out whatever comes, by whichever connection."""
    return mock.patch.object(ConnectionGuard, "refuses", return_value=False)


def _guarding_nothing() -> AbstractContextManager[Any]:
    """Coordinators of transactions and of groups that ask no connection."""
    return mock.patch.object(ConnectionBindings, "question_to", return_value=NO_QUESTION)


def _guarding_no_offsets() -> AbstractContextManager[Any]:
    """A group coordinator that takes the offsets of a transaction by whichever connection they come."""
    return mock.patch.object(CommitServer, "_guard_refuses", return_value=False)


VERSION_1_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "coordinator that carries out late requests": _guarding_no_transaction,
    "coordinators that ask no connection": _guarding_nothing,
    "group coordinator that takes late offsets": _guarding_no_offsets,
}
