"""The transactions that a compaction meets on its way through the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from eagleray.protocol.records import BatchHeader

_LAST_OFFSET = attrgetter("last_offset")


class TransactionEnd(msgspec.Struct, frozen=True, gc=False):
    """What a compaction found of a transaction when it came to its marker."""

    is_empty: bool
    """No batch of the transaction is left in the log, so the marker decides nothing any more."""

    aborted: AbortedTransaction | None
    """The entry that the transaction index still needs: the transaction was aborted, and some of it stays."""


class CompactionTransactions:
    """Which batches belong to aborted transactions, and which markers still decide something.

    It sees every batch of the log in order, up to where the compaction goes. All of those transactions are decided,
    because a compaction stays below the last stable offset (LSO).
    """

    __slots__ = ("_aborted", "_kept", "_met")

    def __init__(self) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        # Producers of which a batch was met, or stays, since their last marker.
        self._met: set[int] = set()
        self._kept: set[int] = set()

    def expect_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Take the aborted transactions that touch the segment whose batches come next."""
        self._aborted = {}
        for transaction in transactions:
            self._aborted.setdefault(transaction.producer_id, []).append(transaction)

    def meet_batch(self, header: BatchHeader) -> bool:
        """Note a data batch that is in the log now; return whether its transaction was aborted."""
        if not header.is_transactional:
            return False
        self._met.add(header.producer_id)
        aborted = self._aborted_at(header)
        return aborted is not None and aborted.first_offset <= header.base_offset

    def keep_batch(self, header: BatchHeader) -> None:
        """Note that a data batch, or its empty header, stays in the log."""
        if header.is_transactional:
            self._kept.add(header.producer_id)

    def meet_marker(self, header: BatchHeader) -> TransactionEnd:
        """Note the marker that ends its producer's transaction."""
        producer_id = header.producer_id
        is_empty, is_kept = producer_id not in self._met, producer_id in self._kept
        self._met.discard(producer_id)
        self._kept.discard(producer_id)
        aborted = self._aborted_at(header) if is_kept else None
        is_own = aborted is not None and aborted.last_offset == header.base_offset
        return TransactionEnd(is_empty, aborted if is_own else None)

    def _aborted_at(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the producer's first aborted transaction whose marker lies at the batch or behind it."""
        transactions = self._aborted.get(header.producer_id)
        if transactions is None:
            return None
        # A producer has one transaction at a time, so the order of the markers is the order of the transactions.
        found = bisect_left(transactions, header.base_offset, key=_LAST_OFFSET)
        return transactions[found] if found < len(transactions) else None
