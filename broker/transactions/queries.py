"""What a coordinator tells those who ask about transactions."""

from __future__ import annotations

from msgspec.structs import replace

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.metadata.topic_configs import NO_MAX_HOLD_MS
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.descriptions import (
    DescribeTransaction,
    ListTransactions,
    TransactionDescribed,
    TransactionDescription,
    TransactionsListed,
)
from eagleray.broker.transactions.events import LastDecision, Reply
from eagleray.broker.transactions.origin import decode_origin
from eagleray.broker.transactions.preparation import NOT_PREPARED_MS
from eagleray.broker.transactions.snapshot import NO_TIME_MS, Snapshot
from eagleray.broker.transactions.states import KAFKA_NAMES
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode


class QueryServer:
    """Answers from what is known here, once the log on which that rests is committed."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._table = context.table
        self._completion = completion
        self._runtime = context.runtime
        self._hold_limits = context.hold_limits
        self._questions = context.questions

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
            else TransactionDescribed(query.request_id, ErrorCode.NONE, self._describe(found)),
        )

    def list(self, query: ListTransactions, now_ms: int) -> None:
        """Tell of all transactional ids that the query is about, unless some of them are still being loaded."""
        if self.is_loading:
            self._runtime.say_at_once(TransactionsListed(query.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        found = tuple(self._describe(each) for each in self._table if _is_asked_for(each.current, query, now_ms))
        shards = self._runtime.shards
        answer = TransactionsListed(query.request_id, ErrorCode.NONE, found, tuple(shards))
        self._runtime.say_of_all(shards.values(), answer)

    def _describe(self, transaction: Transaction) -> TransactionDescription:
        next_ms = self._questions.next_question_ms(transaction)
        described = description_of(transaction, self._hold_limits.max_hold_ms(transaction.current), next_ms)
        return _by_time_of_day(described, self._context.time_set_by_ms)

    def last_decision(self, query: LastDecision, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Tell a leader which decisions about a transactional id are over, at once: that rests on what leaders said."""
        shard = self._table.find_shard(query.transactional_id)
        if isinstance(shard, ErrorCode):
            self._runtime.say_at_once(Reply(query.request_id, shard))
            return
        finished = self._completion.last_finished(self._table.find(query.transactional_id))
        self._runtime.say_at_once(
            Reply(query.request_id, ErrorCode.NONE, coordinator_epoch=shard.epoch, decision=finished)
        )


def description_of(
    transaction: Transaction, max_hold_ms: int = NO_MAX_HOLD_MS, next_question_ms: int = NEVER_MS
) -> TransactionDescription:
    """Say where a transactional id stands."""
    current, branching = transaction.current, transaction.current.branching
    preparation = current.preparation if current.is_prepared else None
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
        decode_origin(current.origin),
        max_hold_ms,
        NOT_PREPARED_MS if preparation is None else preparation.prepared_ms,
        b"" if preparation is None else preparation.context,
        current.resolver,
        0 if preparation is None else preparation.questions,
        NO_TIME_MS if next_question_ms == NEVER_MS else next_question_ms,
    )


def _by_time_of_day(described: TransactionDescription, set_by_ms: int) -> TransactionDescription:
    """Give the times as the log keeps them, for those who compare them with their clocks."""
    if not set_by_ms:
        return described
    names = ("start_ms", "updated_ms", "prepared_ms", "next_question_ms")
    times_ms = {name: getattr(described, name) for name in names}
    return replace(described, **{name: ms + set_by_ms for name, ms in times_ms.items() if ms != NO_TIME_MS})


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
