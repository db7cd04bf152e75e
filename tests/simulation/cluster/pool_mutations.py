"""Coordinators that break a rule of pools."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.broker.transactions.pools.pool import Pool
from eagleray.broker.transactions.pools.server import PoolServer
from eagleray.broker.transactions.table import Transaction

_has = Pool.has
_end = PoolServer.end_what_is_lost


def _fencing_nothing() -> AbstractContextManager[Any]:
    """A takeover that gives the name to another, and leaves the slots to those who have them."""
    return mock.patch.object(Pool, "has", return_value=True)


def _fencing_the_first_slots() -> AbstractContextManager[Any]:
    """A takeover that fences the first slot, and forgets those beyond."""

    def has(self: Pool, slot: Transaction) -> bool:
        return _has(self, slot) or slot is not self.slots.get(0)

    return mock.patch.object(Pool, "has", has)


def _answering_at_once() -> AbstractContextManager[Any]:
    """A takeover that waits for no markers."""

    def end(self: PoolServer, pool: Pool, now_ms: int) -> None:
        _end(self, pool, now_ms)
        pool.under_way.clear()

    return mock.patch.object(PoolServer, "end_what_is_lost", end)


def _ending_what_is_prepared() -> AbstractContextManager[Any]:
    """A takeover that tells of nothing that was left."""
    return mock.patch.object(Pool, "left_prepared", return_value=())


POOL_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "takeover that fences no slot": _fencing_nothing,
    "takeover that fences the first slot alone": _fencing_the_first_slots,
    "takeover that does not wait for markers": _answering_at_once,
    "takeover that tells of nothing prepared": _ending_what_is_prepared,
}
