"""What a coordinator makes of the requests of producers and of partition leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.ending import EndOutcome, outcome_of_end
from eagleray.broker.transactions.events import AddPartitions, EndTransaction, InitProducerId, Reply, Request
from eagleray.broker.transactions.initializing import InitOutcome, outcome_of_init
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_NONE = ErrorCode.NONE
_DECIDE = EndOutcome.DECIDE


class RequestServer:
    """Answers a request, has a transition logged for it, or lets it wait for what is under way.

    While a transition is pending, no producer is judged by its identity: that may be just what the transition changes.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._find = context.table.find
        self.handlers: dict[type, Callable[[Any, int, int], None]] = {
            InitProducerId: self._init,
            AddPartitions: self._add_partitions,
            EndTransaction: self._end,
        }

    def serve(self, request: Request, deadline_ms: int, now_ms: int) -> None:
        """Take a request, perhaps not for the first time; it may wait until its deadline."""
        self.handlers[type(request)](request, deadline_ms, now_ms)

    # InitProducerId

    def _init(self, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        if request.transactional_id is None:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is not None:
                self._context.reply(request, _NONE, ProducerIdentity(producer_id, 0))
        elif not request.transactional_id:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
        elif not 0 < request.timeout_ms <= self._context.config.max_transaction_timeout_ms:
            self._context.reply(request, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            transaction = self._find(request.transactional_id)
            if transaction is None:
                self._create(request.transactional_id, request, deadline_ms, now_ms)
            else:
                self._init_existing(transaction, request, deadline_ms, now_ms)

    def _create(self, transactional_id: str, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        shard = self._context.table.find_shard(transactional_id)
        if isinstance(shard, ErrorCode):
            self._context.reply(request, shard)
            return
        producer_id = self._context.take_producer_id(request, deadline_ms)
        if producer_id is not None:
            created = transitions.created(producer_id, request.timeout_ms, now_ms)
            transaction = self._context.table.add(transactional_id, shard, created)
            self._init_existing(transaction, request, deadline_ms, now_ms)

    def _init_existing(self, transaction: Transaction, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        current, is_named = transaction.current, request.expected is not None
        if transaction.pending is not None:
            self._context.hold(transaction, request, deadline_ms)
            return
        outcome = outcome_of_init(current, request.expected)
        if outcome is InitOutcome.REFUSED or (transaction.has_failed_fence and is_named):
            self._context.reply(request, ErrorCode.PRODUCER_FENCED)
        elif outcome is InitOutcome.WAIT:
            self._context.hold(transaction, request, deadline_ms)
        elif outcome is InitOutcome.ABORT_FIRST:
            abort = transitions.aborted_by_coordinator(current, is_named=is_named, now_ms=now_ms)
            self._context.log(transaction, abort)
            self._context.hold(transaction, request, deadline_ms)
        elif outcome is InitOutcome.NEW_PRODUCER_ID:
            self._rotate(transaction, request, deadline_ms, now_ms)
        elif outcome is InitOutcome.SAME_IDENTITY:
            same = transitions.with_same_identity(current, request.timeout_ms, now_ms)
            self._context.log(transaction, same, request)
        else:
            raised = transitions.with_next_epoch(current, request.timeout_ms, is_named=is_named, now_ms=now_ms)
            self._context.log(transaction, raised, request)

    def _rotate(self, transaction: Transaction, request: InitProducerId, deadline_ms: int, now_ms: int) -> None:
        producer_id = self._context.take_producer_id(request, deadline_ms)
        if producer_id is not None:
            named_epoch = NO_EPOCH if request.expected is None else request.expected.epoch
            rotated = transitions.with_new_producer_id(
                transaction.current, producer_id, named_epoch, request.timeout_ms, now_ms
            )
            self._context.log(transaction, rotated, request)

    # AddPartitionsToTxn and AddOffsetsToTxn

    def _add_partitions(self, request: AddPartitions, deadline_ms: int, now_ms: int) -> None:
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._refuse_unknown(request)
            return
        if request.verify_only:
            self._verify(transaction, request, deadline_ms)
            return
        current, context = transaction.current, self._context
        if transaction.pending is not None:
            context.hold(transaction, request, deadline_ms)
        elif transaction.has_failed_fence or not current.is_held_by(request.producer):
            context.reply(request, current.refusal_of(request.producer))
        elif current.is_decided:
            context.hold(transaction, request, deadline_ms)
        elif current.state is not _ONGOING and request.partitions:
            begun = transitions.begun(current, request.partitions, request.client_version, now_ms)
            context.log(transaction, begun, request)
        elif current.partitions.issuperset(request.partitions):
            context.reply(request, _NONE)
        else:
            joined = transitions.joined(current, request.partitions, request.client_version, now_ms)
            context.log(transaction, joined, request)

    def _verify(self, transaction: Transaction, request: AddPartitions, deadline_ms: int) -> None:
        """Tell a leader which partitions are in the transaction.

        What is pending cannot take a partition out again before its marker gets there, so those that are in need not
        wait for it; to send their producer back would let its later batches overtake this one.
        """
        current = transaction.current
        if transaction.has_failed_fence or not current.is_held_by(request.producer):
            self._context.reply(request, current.refusal_of(request.producer))
            return
        missing = not current.partitions.issuperset(request.partitions)
        if current.is_decided or (missing and transaction.pending is not None):
            self._context.hold(transaction, request, deadline_ms)
            return
        errors = tuple(
            _NONE if partition in current.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in request.partitions
        )
        self._context.emit(Reply(request.request_id, _NONE, partition_errors=errors))

    # EndTxn

    def _end(self, request: EndTransaction, deadline_ms: int, now_ms: int) -> None:
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._refuse_unknown(request)
            return
        if transaction.pending is not None:
            self._context.hold(transaction, request, deadline_ms)
            return
        current = transaction.current
        outcome = outcome_of_end(current, request)
        if outcome is EndOutcome.REFUSED or transaction.has_failed_fence:
            self._context.reply(request, current.refusal_of(request.producer))
        elif outcome is _DECIDE:
            self._decide(transaction, request, deadline_ms, now_ms)
        elif outcome is EndOutcome.WAIT:
            self._context.hold(transaction, request, deadline_ms)
        elif outcome is EndOutcome.INVALID:
            self._context.reply(request, ErrorCode.INVALID_TXN_STATE)
        else:
            self._context.reply(request, _NONE, current.holder)

    def _decide(self, transaction: Transaction, request: EndTransaction, deadline_ms: int, now_ms: int) -> None:
        current, version = transaction.current, request.client_version
        decision = transitions.decided(current, commit=request.commit, client_version=version, now_ms=now_ms)
        if version >= IMPLICIT_VERSION and current.is_epoch_exhausted:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is None:
                return
            decision = transitions.moving_on(decision, producer_id)
        self._context.log(transaction, decision, request)

    def _refuse_unknown(self, request: AddPartitions | EndTransaction) -> None:
        if not request.transactional_id:
            self._context.reply(request, ErrorCode.INVALID_REQUEST)
            return
        shard = self._context.table.find_shard(request.transactional_id)
        error_code = shard if isinstance(shard, ErrorCode) else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        self._context.reply(request, error_code)
