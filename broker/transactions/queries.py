"""What a coordinator tells those who ask about transactions."""

from __future__ import annotations

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import (
    DescribeTransaction,
    ListTransactions,
    TransactionDescribed,
    TransactionDescription,
    TransactionsListed,
)
from eagleray.broker.transactions.snapshot import NO_TIME_MS, Snapshot
from eagleray.broker.transactions.states import KAFKA_NAMES
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode


class QueryServer:
    """Answers from what is known here, once the log on which that rests is committed."""

    def __init__(self, context: CoordinatorContext) -> None:
        self._table = context.table
        self._runtime = context.runtime

    @property
    def is_loading(self) -> bool:
        """Whether some partition is still being loaded."""
        return not all(shard.is_loaded for shard in self._runtime.shards.values())

    def find(self, transactional_id: str) -> Transaction | ErrorCode:
        """Return what is known of a transactional id, or why nothing is."""
        transaction = self._table.find(transactional_id)
        if transaction is not None:
            return transaction
        shard = self._table.find_shard(transactional_id)
        return shard if isinstance(shard, ErrorCode) else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def describe(self, query: DescribeTransaction, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Tell where one transactional id stands."""
        if not query.transactional_id:
            self._runtime.say_at_once(TransactionDescribed(query.request_id, ErrorCode.INVALID_REQUEST))
            return
        shard = self._table.find_shard(query.transactional_id)
        if isinstance(shard, ErrorCode):
            self._runtime.say_at_once(TransactionDescribed(query.request_id, shard))
            return
        found = self._table.find(query.transactional_id)
        self._runtime.say(
            shard,
            TransactionDescribed(query.request_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            if found is None
            else TransactionDescribed(query.request_id, ErrorCode.NONE, description_of(found)),
        )

    def list(self, query: ListTransactions, now_ms: int) -> None:
        """Tell of all transactional ids that the query is about, unless some of them are still being loaded."""
        if self.is_loading:
            self._runtime.say_at_once(TransactionsListed(query.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        found = tuple(description_of(each) for each in self._table if _is_asked_for(each.current, query, now_ms))
        self._runtime.say_of_all(TransactionsListed(query.request_id, ErrorCode.NONE, found))


def description_of(transaction: Transaction) -> TransactionDescription:
    """Say where a transactional id stands."""
    current, branching = transaction.current, transaction.current.branching
    partitions = current.partitions if branching is None else current.partitions | branching.partitions
    return TransactionDescription(
        transaction.transactional_id,
        KAFKA_NAMES[current.state],
        ProducerIdentity(current.producer_id, current.producer_epoch),
        current.timeout_ms,
        current.start_ms,
        current.updated_ms,
        tuple(sorted(partitions)),
        None if branching is None else branching.tag,
        0 if branching is None or branching.tag is None else len(branching.branches),
    )


def _is_asked_for(current: Snapshot, query: ListTransactions, now_ms: int) -> bool:
    if query.states and KAFKA_NAMES[current.state] not in query.states:
        return False
    if query.producer_ids and not _has_producer(current, query.producer_ids):
        return False
    return query.older_than_ms < 0 or (
        current.start_ms != NO_TIME_MS and now_ms - current.start_ms > query.older_than_ms
    )


def _has_producer(current: Snapshot, producer_ids: tuple[int, ...]) -> bool:
    """Whether one of these writes in the transaction, under the transactional id itself or in a branch."""
    branches = {} if current.branching is None else current.branching.branches
    return current.producer_id in producer_ids or not branches.keys().isdisjoint(producer_ids)
