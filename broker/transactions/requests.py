"""What a coordinator makes of the requests of producers and of partition leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topic_names import LONGEST_NAME
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches.server import BranchServer, refusal_to_write
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.ending import EndServer
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    CompleteTransaction,
    EndBranched,
    EndTransaction,
    ForgetTransactionalId,
    InitProducerId,
    OpenBranch,
    PrepareTransaction,
    Reply,
    Request,
    TakePoolOver,
)
from eagleray.broker.transactions.initializing import IdentityServer
from eagleray.broker.transactions.pools.server import PoolServer
from eagleray.broker.transactions.preparing import PreparationServer
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import EXPIRABLE, TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_NONE = ErrorCode.NONE
_MOST_PARTITION_BYTES = 900_000
"""What the partitions of one transaction take up in its record at most, which has to fit into a batch of a megabyte."""

_NUMBER_BYTES, _TOPIC_BYTES = 4, 8
_FEW_PARTITIONS = 1000
"""So many always have room, whatever their topics are called."""

_NEVER_WRITTEN = INTERNAL_TOPICS - {CONSUMER_OFFSETS}


def _why_impossible(partition: TopicPartition) -> ErrorCode:
    """Why no marker could ever be written to a partition, so that a transaction with it would never end, or NONE."""
    if partition.topic in _NEVER_WRITTEN:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_possible = partition.partition >= 0 and 0 < len(partition.topic) <= LONGEST_NAME
    return _NONE if is_possible else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _why_not_to_join(current: Snapshot, request: AddPartitions) -> ErrorCode:
    """Why a transaction can have these partitions under no circumstances, or NONE."""
    impossible = next(filter(None, map(_why_impossible, request.partitions)), _NONE)
    if impossible is _NONE and _is_too_large(current, request):
        return ErrorCode.MESSAGE_TOO_LARGE
    return impossible


def _is_too_large(current: Snapshot, request: AddPartitions) -> bool:
    """Whether a transaction would have more partitions than one record of the log has room for."""
    if len(current.partitions) + len(request.partitions) <= _FEW_PARTITIONS:
        return False
    partitions = current.partitions.union(request.partitions)
    topics = {partition.topic for partition in partitions}
    size_bytes = _NUMBER_BYTES * len(partitions) + sum(len(topic) + _TOPIC_BYTES for topic in topics)
    return size_bytes > _MOST_PARTITION_BYTES


class TransactionRequestServer:
    """Answers a request, logs a transition for it, or lets it wait for the markers that are under way."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._find = context.table.find
        self._completion = completion
        self._branches = BranchServer(context)
        identities = IdentityServer(context, completion, self._branches, PoolServer(context, completion))
        ends = EndServer(context, completion)
        preparations = PreparationServer(context, completion)
        self.handlers: dict[type, Callable[[Any, int, int], None]] = {
            InitProducerId: identities.init,
            TakePoolOver: identities.take_pool_over,
            AddPartitions: self._add_partitions,
            EndTransaction: ends.end,
            BeginBranched: identities.begin_branched,
            OpenBranch: self._branches.open,
            EndBranched: ends.end_branched,
            PrepareTransaction: preparations.prepare,
            CompleteTransaction: preparations.complete,
            ForgetTransactionalId: self._forget,
        }
        self._handlers_of_held: dict[type, Callable[[Any, int, int], None]] = {
            **self.handlers,
            TakePoolOver: identities.take_pool_over_again,
        }

    def serve_again(self, request: Request, deadline_ms: int, now_ms: int) -> None:
        """Take a request that has waited; it may wait on until its deadline."""
        self._handlers_of_held[type(request)](request, deadline_ms, now_ms)

    # ForgetTransactionalId

    def _forget(self, request: ForgetTransactionalId, deadline_ms: int, now_ms: int) -> None:
        transaction, context = self._find(request.transactional_id), self._context
        if transaction is None:
            # One that is not known here is forgotten, also by a request whose answer was not heard.
            shard = context.table.find_shard(request.transactional_id)
            if isinstance(shard, ErrorCode):
                context.reply(request, shard)
            else:
                context.answer(shard, request, _NONE)
            return
        current, shard = transaction.current, transaction.shard
        if current.is_decided:
            context.hold(transaction, request, deadline_ms)
        elif not current.is_held_by(request.producer):
            context.answer(shard, request, current.refusal_of(request.producer))
        elif current.state not in EXPIRABLE or current.branching is not None or request.transactional_id in shard.pools:
            context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        else:
            context.log(transaction, transitions.expired(current, now_ms), request)

    # AddPartitionsToTxn and AddOffsetsToTxn

    def _add_partitions(self, request: AddPartitions, deadline_ms: int, now_ms: int) -> None:
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._context.refuse_unknown(request)
            return
        if transaction.is_lost:
            self._context.answer(transaction.shard, request, ErrorCode.PRODUCER_FENCED)
            return
        if request.verify_only:
            self._verify(transaction, request, deadline_ms)
            return
        current, context = transaction.current, self._context
        impossible = _why_not_to_join(current, request)
        if impossible is not _NONE:
            context.answer(transaction.shard, request, impossible)
        elif current.branching is not None:
            self._branches.add(transaction, request, deadline_ms, now_ms)
        elif not current.is_held_by(request.producer):
            context.answer(transaction.shard, request, current.refusal_of(request.producer))
        elif current.is_decided:
            context.hold(transaction, request, deadline_ms)
        elif current.is_closed:
            context.answer(transaction.shard, request, ErrorCode.INVALID_TXN_STATE)
        elif current.state is not _ONGOING and request.partitions:
            if request.client is None or not context.guard.refuses(transaction, request):
                begun = transitions.begun(current, request.partitions, request.client_version, now_ms)
                context.log(transaction, begun, request)
        elif current.partitions.issuperset(request.partitions):
            context.answer(transaction.shard, request, _NONE)
        elif request.client is None or not context.guard.refuses(transaction, request):
            joined = transitions.joined(current, request.partitions, request.client_version, now_ms)
            context.log(transaction, joined, request)

    def _verify(self, transaction: Transaction, request: AddPartitions, deadline_ms: int) -> None:
        """Tell a leader which partitions are in the transaction."""
        current, shard = transaction.current, transaction.shard
        branch = None if current.branching is None else self._branches.find(transaction, request.producer)
        refusal = _NONE
        if branch is not None:
            refusal = refusal_to_write(transaction, request.producer)
        elif not current.is_held_by(request.producer):
            refusal = current.refusal_of(request.producer)
        elif current.is_closed:
            refusal = ErrorCode.INVALID_TXN_STATE
        if refusal is not _NONE:
            self._context.answer(shard, request, refusal)
            return
        if current.is_decided:
            self._context.hold(transaction, request, deadline_ms)
            return
        known = current.partitions if branch is None else branch.partitions
        errors = tuple(
            _NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE for partition in request.partitions
        )
        finished = self._completion.last_finished(transaction)
        self._context.say(
            shard,
            Reply(request.request_id, _NONE, partition_errors=errors, coordinator_epoch=shard.epoch, decision=finished),
        )
