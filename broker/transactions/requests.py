"""What a coordinator makes of the requests of producers and of partition leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches import BranchServer, refusal_to_write
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.ending import EndServer
from eagleray.broker.transactions.events import (
    AddPartitions,
    BeginBranched,
    EndBranched,
    EndTransaction,
    ForgetTransactionalId,
    InitProducerId,
    OpenBranch,
    Reply,
    Request,
)
from eagleray.broker.transactions.initializing import IdentityServer
from eagleray.broker.transactions.states import EXPIRABLE, TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_NONE = ErrorCode.NONE


class TransactionRequestServer:
    """Answers a request, logs a transition for it, or lets it wait for the markers that are under way."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._find = context.table.find
        self._branches = BranchServer(context)
        identities, ends = IdentityServer(context, completion), EndServer(context, completion)
        self.handlers: dict[type, Callable[[Any, int, int], None]] = {
            InitProducerId: identities.init,
            AddPartitions: self._add_partitions,
            EndTransaction: ends.end,
            BeginBranched: identities.begin_branched,
            OpenBranch: self._branches.open,
            EndBranched: ends.end_branched,
            ForgetTransactionalId: self._forget,
        }

    def serve(self, request: Request, deadline_ms: int, now_ms: int) -> None:
        """Take a request, perhaps not for the first time; it may wait until its deadline."""
        self.handlers[type(request)](request, deadline_ms, now_ms)

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
        elif current.state not in EXPIRABLE or current.branching is not None:
            context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        else:
            context.log(transaction, transitions.expired(current, now_ms), request)

    # AddPartitionsToTxn and AddOffsetsToTxn

    def _add_partitions(self, request: AddPartitions, deadline_ms: int, now_ms: int) -> None:
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._context.refuse_unknown(request)
            return
        if request.verify_only:
            self._verify(transaction, request, deadline_ms)
            return
        current, context = transaction.current, self._context
        if current.branching is not None:
            self._branches.add(transaction, request, deadline_ms, now_ms)
        elif not current.is_held_by(request.producer):
            context.answer(transaction.shard, request, current.refusal_of(request.producer))
        elif current.is_decided:
            context.hold(transaction, request, deadline_ms)
        elif current.state is not _ONGOING and request.partitions:
            begun = transitions.begun(current, request.partitions, request.client_version, now_ms)
            context.log(transaction, begun, request)
        elif current.partitions.issuperset(request.partitions):
            context.answer(transaction.shard, request, _NONE)
        else:
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
        self._context.say(shard, Reply(request.request_id, _NONE, partition_errors=errors))
