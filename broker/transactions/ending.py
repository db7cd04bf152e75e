"""What EndTxn means in each state, as tables, and what is done about it."""

from __future__ import annotations

import enum
from typing import Final

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.branches.branching import BRANCH_EPOCH, Branching
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.events import EndBranched, EndTransaction, Reply
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.protocol.errors import ErrorCode


class EndOutcome(enum.Enum):
    """What a coordinator does about a request to end a transaction."""

    DECIDE = enum.auto()
    """Log the decision, then answer."""

    ALREADY_DONE = enum.auto()
    """Answer as the first time: the request repeats one that was carried out."""

    WAIT = enum.auto()
    """Hold the request until what is under way has finished."""

    INVALID = enum.auto()
    """Refuse with INVALID_TXN_STATE."""

    UNKNOWN_BRANCH = enum.auto()
    """Refuse with INVALID_REQUEST: a branch is named that was never opened in this transaction."""

    REFUSED = enum.auto()
    """Refuse: the producer is not, or no longer, the one that has this transactional id."""


_State = TransactionState
_DECIDE = EndOutcome.DECIDE
_DONE = EndOutcome.ALREADY_DONE
_WAIT = EndOutcome.WAIT
_INVALID = EndOutcome.INVALID
_REFUSED = EndOutcome.REFUSED
_NO_BRANCHING = Branching()

# A row has what an abort meets, then what a commit meets, so that `row[commit]` is the outcome.
EndTable = dict[TransactionState, tuple[EndOutcome, EndOutcome]]

END_IN_VERSION_1: Final[EndTable] = {
    _State.EMPTY: (_INVALID, _INVALID),
    _State.ONGOING: (_DECIDE, _DECIDE),
    _State.PREPARE_COMMIT: (_INVALID, _WAIT),
    _State.PREPARE_ABORT: (_WAIT, _INVALID),
    _State.COMPLETE_COMMIT: (_INVALID, _DONE),
    _State.COMPLETE_ABORT: (_DONE, _INVALID),
}
"""Without an epoch for each transaction, a repeat cannot be told from a second request; the state has to tell."""

END_IN_VERSION_2: Final[EndTable] = {
    # The producer has the epoch of a new transaction, to which it has added nothing. It may abort that.
    _State.EMPTY: (_DECIDE, _INVALID),
    _State.ONGOING: (_DECIDE, _DECIDE),
    _State.PREPARE_COMMIT: (_WAIT, _WAIT),
    _State.PREPARE_ABORT: (_WAIT, _WAIT),
    _State.COMPLETE_COMMIT: (_DECIDE, _INVALID),
    _State.COMPLETE_ABORT: (_DECIDE, _INVALID),
}
"""A producer that has heard of its current epoch."""

END_REPEATED: Final[EndTable] = {
    # The next transaction has begun, or the producer was given another identity: the epoch is simply an old one.
    _State.EMPTY: (_REFUSED, _REFUSED),
    _State.ONGOING: (_REFUSED, _REFUSED),
    _State.PREPARE_COMMIT: (_INVALID, _WAIT),
    # A commit that meets an abort under its own epoch came too late: the coordinator had aborted already. That
    # is no mistake of the producer, so it is told as in version 1, and in words from which clients recover.
    _State.PREPARE_ABORT: (_WAIT, _REFUSED),
    _State.COMPLETE_COMMIT: (_INVALID, _DONE),
    _State.COMPLETE_ABORT: (_DONE, _REFUSED),
}
"""A producer in version 2 with the epoch before the current: it has not heard how its request ended."""


def _by_number(table: EndTable) -> list[tuple[EndOutcome, EndOutcome]]:
    # A state is its own index, which costs a fraction of hashing it. The other two states are never met.
    return [table[state] for state in sorted(table)]


_IN_VERSION_1 = _by_number(END_IN_VERSION_1)
_IN_VERSION_2 = _by_number(END_IN_VERSION_2)
_REPEATED = _by_number(END_REPEATED)


def outcome_of_end(current: Snapshot, request: EndTransaction) -> EndOutcome:
    """Say what a request to end a transaction comes to; its own version says by which rules it has to be read."""
    is_holder = current.is_held_by(request.producer)
    if request.client_version < IMPLICIT_VERSION:
        if is_holder and current.is_prepared:
            # The next transaction would have its token, because version 1 does not raise the epoch.
            return _INVALID
        return _IN_VERSION_1[current.state][request.commit] if is_holder else _REFUSED
    if is_holder:
        return _IN_VERSION_2[current.state][request.commit]
    if current.was_held_by(request.producer) and _can_go_on(current):
        return _REPEATED[current.state][request.commit]
    return _REFUSED


def outcome_of_branched_end(current: Snapshot, request: EndBranched) -> EndOutcome:
    """Say what a request to end a transaction with branches comes to, by the rules of version 2 and its own."""
    is_holder = current.is_held_by(request.owner)
    if is_holder and current.is_branched and current.state is _State.EMPTY:
        # A job may have nothing to write; its tag is committed nevertheless.
        outcome = _DECIDE
    elif is_holder:
        outcome = _IN_VERSION_2[current.state][request.commit]
    elif current.was_held_by(request.owner) and _can_go_on(current):
        outcome = _REPEATED[current.state][request.commit]
    else:
        outcome = _REFUSED
    return _with_branches(outcome, current, request) if request.commit else outcome


def _with_branches(outcome: EndOutcome, current: Snapshot, request: EndBranched) -> EndOutcome:
    """Hold the branches that a commit names against those that there are, or that were committed."""
    branching = current.branching or _NO_BRANCHING
    if outcome is _DECIDE and not branching.has_opened(request.branches):
        return EndOutcome.UNKNOWN_BRANCH
    if outcome is _DECIDE and current.is_prepared and not current.is_prepared_with(request.branches):
        return _INVALID
    is_repeated = outcome in (_WAIT, _DONE) and not current.is_held_by(request.owner)
    if is_repeated and branching.committed != {branch.producer_id for branch in request.branches}:
        return _INVALID
    return outcome


def _branches_that_count(current: Snapshot) -> tuple[ProducerIdentity, ...]:
    """The branches that a commit is about which names none itself: those with which the transaction was prepared.

    A producer that has kept a transaction with branches ends it in this way, and may repeat that.
    """
    branching, preparation = current.branching, current.preparation
    if current.is_prepared or branching is None or preparation is None or preparation.outcome is None:
        return current.prepared_branches
    return tuple(ProducerIdentity(producer_id, BRANCH_EPOCH) for producer_id in branching.committed)


def _can_go_on(current: Snapshot) -> bool:
    """Whether there is an identity to answer with: the very last epoch is kept for fencing, and no producer gets it."""
    return current.holder.epoch < LAST_EPOCH


class EndServer:
    """Has decisions logged, and answers those who ask for what is decided."""

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._completion = completion
        self._find = context.table.find

    def end(self, request: EndTransaction, deadline_ms: int, now_ms: int) -> None:
        """Serve a producer that commits or aborts."""
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._context.refuse_unknown(request)
            return
        current, version = transaction.current, request.client_version
        if transaction.is_lost:
            self._context.answer(transaction.shard, request, ErrorCode.PRODUCER_FENCED)
            return
        if current.branching is not None and (current.is_branched or version >= IMPLICIT_VERSION):
            branched = EndBranched(
                request.request_id,
                request.transactional_id,
                request.producer,
                request.commit,
                _branches_that_count(current),
                request.client,
            )
            self.end_branched(branched, deadline_ms, now_ms)
            return
        outcome = outcome_of_end(current, request)
        if outcome is _DECIDE:
            if request.client is None or not self._context.guard.refuses(transaction, request):
                decision = transitions.decided(current, commit=request.commit, client_version=version, now_ms=now_ms)
                self._decide(transaction, decision, request, deadline_ms)
        elif outcome is _INVALID and request.transactional_id in self._context.held:
            # It is about what the producer began before, with a request that waits itself for the last markers.
            self._context.hold(transaction, request, deadline_ms)
        else:
            self._end_otherwise(outcome, transaction, request, request.producer, deadline_ms)

    def end_branched(self, request: EndBranched, deadline_ms: int, now_ms: int) -> None:
        """Serve a driver that commits some of its branches, or aborts all."""
        transaction = self._find(request.transactional_id)
        if transaction is None:
            self._context.refuse_unknown(request)
            return
        current, commit = transaction.current, request.commit
        outcome = outcome_of_branched_end(current, request)
        if outcome is _DECIDE:
            decision = transitions.decided_with_branches(current, request.branches, commit=commit, now_ms=now_ms)
            self._decide(transaction, decision, request, deadline_ms)
        else:
            self._end_otherwise(outcome, transaction, request, request.owner, deadline_ms)

    def _end_otherwise(
        self,
        outcome: EndOutcome,
        transaction: Transaction,
        request: EndTransaction | EndBranched,
        producer: ProducerIdentity,
        deadline_ms: int,
    ) -> None:
        """Answer a request to end a transaction for which there is nothing to decide, or let it wait."""
        current, shard = transaction.current, transaction.shard
        if outcome is EndOutcome.REFUSED:
            why = transaction.why_ended if current.was_held_by(producer) else None
            self._context.say(shard, Reply(request.request_id, current.refusal_of(producer), message=why))
        elif outcome is EndOutcome.WAIT:
            self._context.hold(transaction, request, deadline_ms)
        elif outcome is EndOutcome.INVALID:
            self._context.answer(shard, request, ErrorCode.INVALID_TXN_STATE)
        elif outcome is EndOutcome.UNKNOWN_BRANCH:
            self._context.answer(shard, request, ErrorCode.INVALID_REQUEST)
        else:
            self._context.answer(shard, request, ErrorCode.NONE, current.holder)

    def _decide(
        self, transaction: Transaction, decision: Snapshot, request: EndTransaction | EndBranched, deadline_ms: int
    ) -> None:
        if decision.client_version >= IMPLICIT_VERSION and transaction.current.is_epoch_exhausted:
            producer_id = self._context.take_producer_id(request, deadline_ms)
            if producer_id is None:
                return
            decision = transitions.moving_on(decision, producer_id)
        self._completion.decide(transaction, decision, request)
