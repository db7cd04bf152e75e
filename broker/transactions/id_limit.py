"""The limit on the transactional ids of a partition of the log, and which of them make room for newcomers."""

from __future__ import annotations

from collections import deque
from typing import Final

from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction, TransactionShard

UNUSED_MS: Final = 15 * 60 * 1000
"""How long a producer may take from its first identity to its first transaction before its id makes room."""

LOOK_MS: Final = 1000
"""How soon all ids are looked at again when none of them made room: newcomers cannot have it done each time."""


class TransactionalIdLimit:
    """Finds the transactional id that makes room for a new one: one that was never used.

    An id that has had a transaction makes room for no stranger before it expires: what its coordinator knows of it
    keeps a batch from being written twice, and its producer could not go on. One that was given an identity once, and
    has done nothing with it, has nothing to lose: its producer asks for another identity.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._unused: dict[int, deque[str]] = {}
        self._next_look_ms: dict[int, int] = {}

    def is_full(self, shard: TransactionShard) -> bool:
        """Whether a new transactional id takes the place of another."""
        return len(shard.transactions) >= self._most

    def unused(self, shard: TransactionShard, now_ms: int) -> Transaction | None:
        """Return a transactional id that makes room, or None where there is none."""
        found = self._first_unused(shard, now_ms)
        if found is None and now_ms >= self._next_look_ms.get(shard.partition, now_ms):
            unused = deque(name for name, each in shard.transactions.items() if _is_unused(each, now_ms))
            self._unused[shard.partition] = unused
            self._next_look_ms[shard.partition] = now_ms + LOOK_MS
            found = self._first_unused(shard, now_ms)
        return found

    def _first_unused(self, shard: TransactionShard, now_ms: int) -> Transaction | None:
        """Return the first of those found last that is still unused; the shard may be another by now."""
        names = self._unused.get(shard.partition, ())
        while names:
            transaction = shard.transactions.get(names[0])
            if transaction is not None and _is_unused(transaction, now_ms):
                return transaction
            names.popleft()
        return None


def _is_unused(transaction: Transaction, now_ms: int) -> bool:
    current = transaction.current
    return (
        current.state is TransactionState.EMPTY
        and current.producer_epoch == 0
        and current.branching is None
        and current.preparation is None
        and transaction.pool is None
        and transaction.transactional_id not in transaction.shard.pools
        and now_ms - current.updated_ms >= UNUSED_MS
    )
