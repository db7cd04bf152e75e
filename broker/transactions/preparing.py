"""What PrepareTransaction and CompleteTransaction mean in each state, and what is done about them."""

from __future__ import annotations

import enum

from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches.branching import Branching
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import CompleteTransaction, PrepareTransaction
from eagleray.broker.transactions.resolver import problem_of
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode

_ONGOING = TransactionState.ONGOING
_NO_BRANCHING = Branching()


class PrepareOutcome(enum.Enum):
    """What a coordinator does about a producer that prepares."""

    PREPARE = enum.auto()
    """Log the preparation, then answer."""

    ALREADY_DONE = enum.auto()
    """Answer as the first time."""

    WAIT = enum.auto()
    """Hold the request until the transaction before has its markers."""

    INVALID = enum.auto()
    """Refuse with INVALID_TXN_STATE: it is prepared otherwise, has ended, is another's, or is one of version 1."""

    UNKNOWN_BRANCH = enum.auto()
    """Refuse with INVALID_REQUEST: a branch is named that was never opened in this transaction."""

    REFUSED = enum.auto()
    """Refuse: the producer is not, or no longer, the one that has this transactional id."""


class CompleteOutcome(enum.Enum):
    """What a coordinator does about a token."""

    DECIDE = enum.auto()
    """Log the decision, then answer."""

    ALREADY_DONE = enum.auto()
    """Answer as the first time: the transaction has ended in this way."""

    INVALID = enum.auto()
    """Refuse with INVALID_TXN_STATE: it has ended the other way, or it is not prepared."""

    UNKNOWN = enum.auto()
    """Refuse with INVALID_PRODUCER_ID_MAPPING: no transaction that is open or remembered has this token."""


def outcome_of_prepare(current: Snapshot, request: PrepareTransaction) -> PrepareOutcome:
    """Say what a request to prepare comes to."""
    if not current.is_held_by(request.producer):
        has_ended = current.outcome_of(request.producer) is not None
        return PrepareOutcome.INVALID if has_ended else PrepareOutcome.REFUSED
    if current.is_decided:
        return PrepareOutcome.WAIT
    if current.is_closed:
        return PrepareOutcome.ALREADY_DONE if _is_repeated(current, request) else PrepareOutcome.INVALID
    if current.state is _ONGOING and current.client_version < IMPLICIT_VERSION:
        return PrepareOutcome.INVALID
    branching = current.branching if current.state is _ONGOING else None
    if not (branching or _NO_BRANCHING).has_opened(request.branches):
        return PrepareOutcome.UNKNOWN_BRANCH
    return PrepareOutcome.PREPARE


def _is_repeated(current: Snapshot, request: PrepareTransaction) -> bool:
    preparation = current.preparation
    return (
        preparation is not None
        and not current.is_kept
        and preparation.context == request.context
        and preparation.resolver == request.resolver
        and current.is_prepared_with(request.branches)
    )


def outcome_of_complete(current: Snapshot, request: CompleteTransaction) -> CompleteOutcome:
    """Say what a request to complete the transaction of a token comes to."""
    was_committed = current.outcome_of(request.prepared)
    if was_committed is not None:
        return CompleteOutcome.ALREADY_DONE if was_committed is request.commit else CompleteOutcome.INVALID
    if current.state is not _ONGOING or current.written_by != request.prepared:
        # The holder of the transactional id may ask about a transaction that it has yet to begin.
        return CompleteOutcome.INVALID if current.is_held_by(request.prepared) else CompleteOutcome.UNKNOWN
    if current.is_prepared:
        return CompleteOutcome.DECIDE
    # Which of its branches are complete is not known, so that they cannot be committed.
    can_be_ended = request.is_unprepared and not (request.commit and current.is_branched)
    return CompleteOutcome.DECIDE if can_be_ended else CompleteOutcome.INVALID


class PreparationServer:
    """Has preparations logged, and what those decide who hold the token of one."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._completion = completion
        self._find = context.table.find

    def prepare(self, request: PrepareTransaction, deadline_ms: int, now_ms: int) -> None:
        """Serve a producer that has written all of its transaction."""
        transaction, context = self._find(request.transactional_id), self._context
        if transaction is None:
            context.refuse_unknown(request)
            return
        current, shard = transaction.current, transaction.shard
        outcome = outcome_of_prepare(current, request)
        if transaction.is_lost:
            context.answer(shard, request, ErrorCode.PRODUCER_FENCED)
        elif outcome is PrepareOutcome.WAIT:
            context.hold(transaction, request, deadline_ms)
        elif outcome is PrepareOutcome.REFUSED:
            context.answer(shard, request, current.refusal_of(request.producer))
        elif outcome is PrepareOutcome.INVALID:
            context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        elif outcome is PrepareOutcome.ALREADY_DONE:
            context.answer(shard, request, ErrorCode.NONE, current.holder)
        elif outcome is PrepareOutcome.UNKNOWN_BRANCH or self._cannot_be_kept(request):
            context.answer(shard, request, ErrorCode.INVALID_REQUEST)
        else:
            fields = request.context, request.branches, now_ms, request.resolver
            context.log(transaction, transitions.prepared(current, *fields), request)

    def _cannot_be_kept(self, request: PrepareTransaction) -> bool:
        """Whether the context is too large for the log, or the resolver none that can be asked."""
        is_too_large = len(request.context) > self._context.config.max_prepared_context_bytes
        return is_too_large or (request.resolver is not None and problem_of(request.resolver) is not None)

    def complete(self, request: CompleteTransaction, deadline_ms: int, now_ms: int) -> None:  # noqa: ARG002 - as all
        """Serve a program that holds the token of a transaction."""
        transaction, context = self._find(request.transactional_id), self._context
        if transaction is None:
            context.refuse_unknown(request)
            return
        current, shard = transaction.current, transaction.shard
        outcome = outcome_of_complete(current, request)
        if outcome is CompleteOutcome.DECIDE:
            decision = transitions.completed_by_token(current, commit=request.commit, now_ms=now_ms)
            self._completion.decide(transaction, decision, request)
        elif outcome is CompleteOutcome.ALREADY_DONE:
            context.answer(shard, request, ErrorCode.NONE)
        elif outcome is CompleteOutcome.INVALID:
            context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        else:
            context.answer(shard, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
