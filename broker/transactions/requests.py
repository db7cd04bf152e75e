"""What a coordinator makes of the requests of producers and of partition leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches import BranchServer, refusal_to_write
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
from eagleray.broker.transactions.holding import Held
from eagleray.broker.transactions.initializing import IdentityServer
from eagleray.broker.transactions.states import EXPIRABLE, TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_NONE = ErrorCode.NONE


class TransactionRequestServer:
    """Answers a request, has a transition logged for it, or lets it wait for what is under way.

    While a transition is pending, no producer is judged by its identity: that may be just what the transition changes.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._find = context.table.find
        self._branches = BranchServer(context)
        identities, ends = IdentityServer(context), EndServer(context)
        self.handlers: dict[type, Callable[[Any, int, int], None]] = {
            InitProducerId: identities.init,
            AddPartitions: self._add_partitions,
            EndTransaction: ends.end,
            BeginBranched: identities.begin_branched,
            OpenBranch: self._open_branch,
            EndBranched: ends.end_branched,
            ForgetTransactionalId: self._forget,
        }

    def serve(self, request: Request, deadline_ms: int, now_ms: int) -> None:
        """Take a request, perhaps not for the first time; it may wait until its deadline."""
        self.handlers[type(request)](request, deadline_ms, now_ms)

    def serve_again(self, transactional_id: str, waiting: Iterable[Held], now_ms: int) -> None:
        """Take requests that have waited for a transactional id, in order; those that can be are served together."""
        transaction = self._find(transactional_id)
        if transaction is None or transaction.current.branching is None:
            for held in waiting:
                self.serve(held.request, held.deadline_ms, now_ms)
            return
        for is_joining, run in groupby(waiting, key=_joins):
            if is_joining:
                self._branches.join(transaction, run, now_ms)
            else:
                for held in run:
                    self.serve(held.request, held.deadline_ms, now_ms)

    # OpenBranch

    def _open_branch(self, request: OpenBranch, deadline_ms: int, now_ms: int) -> None:
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._context.refuse_unknown(request)
        else:
            self._branches.join(transaction, (Held(request, deadline_ms),), now_ms)

    # ForgetTransactionalId

    def _forget(self, request: ForgetTransactionalId, deadline_ms: int, now_ms: int) -> None:
        transaction, context = self._find(request.transactional_id), self._context
        if transaction is None:
            # One that is not known here is forgotten, also by a request whose answer was not heard.
            shard = context.table.find_shard(request.transactional_id)
            context.reply(request, shard if isinstance(shard, ErrorCode) else _NONE)
            return
        current = transaction.current
        if transaction.pending is not None or current.is_decided:
            context.hold(transaction, request, deadline_ms)
        elif transaction.has_failed_fence or not current.is_held_by(request.producer):
            context.reply(request, current.refusal_of(request.producer))
        elif current.state not in EXPIRABLE or current.branching is not None:
            context.reply(request, ErrorCode.INVALID_TXN_STATE)
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
            self._branches.join(transaction, (Held(request, deadline_ms),), now_ms)
        elif transaction.pending is not None:
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
        branch = None if current.branching is None else self._branches.find(transaction, request.producer)
        refusal = _NONE
        if branch is not None:
            refusal = refusal_to_write(transaction, request.producer)
        elif transaction.has_failed_fence or not current.is_held_by(request.producer):
            refusal = current.refusal_of(request.producer)
        if refusal is not _NONE:
            self._context.reply(request, refusal)
            return
        known = current.partitions if branch is None else branch.partitions
        missing = not known.issuperset(request.partitions)
        if current.is_decided or (missing and transaction.pending is not None):
            self._context.hold(transaction, request, deadline_ms)
            return
        errors = tuple(
            _NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE for partition in request.partitions
        )
        self._context.emit(Reply(request.request_id, _NONE, partition_errors=errors))


def _joins(held: Held) -> bool:
    """Whether a request only adds to a transaction, so that it can be served together with others."""
    request = held.request
    return isinstance(request, OpenBranch) or (isinstance(request, AddPartitions) and not request.verify_only)
