"""Outcome queries: resolvers are asked how prepared transactions have to end, and what they say is decided."""

from __future__ import annotations

from eagleray.broker.transactions import transitions
from eagleray.broker.transactions.completing import TransactionCompletion
from eagleray.broker.transactions.context import CoordinatorContext
from eagleray.broker.transactions.question_schedule import is_exhausted
from eagleray.broker.transactions.resolver_events import AskResolver, ResolverAnswered
from eagleray.broker.transactions.table import Transaction


class OutcomeQueries:
    """Asks about prepared transactions whose producer is gone or silent, one question at a time for each of them.

    Promises: the log has each question, and has raised the epoch, before the resolver is asked. So whatever the
    resolver says was said about records that no producer commits or aborts meanwhile. An answer decides as its token
    does. One that comes late decides as well, because a resolver speaks of the token and not of the attempt; the first
    decision is the one. What was not prepared is never asked about.
    On failure: where no answer comes, or the log is loaded again, the next question comes when it is due.
    """

    def __init__(self, context: CoordinatorContext, completion: TransactionCompletion) -> None:
        self._context = context
        self._completion = completion
        self._schedule = context.questions
        self._unlogged: dict[str, ResolverAnswered] = {}
        """Answers that the log has refused; it is asked again before the resolver is."""

    @property
    def next_due_ms(self) -> int:
        """When there is something to do."""
        return self._schedule.next_due_ms

    def forget(self, transactional_id: str) -> None:
        """Leave a transactional id alone that is coordinated here no longer."""
        self._schedule.forget(transactional_id)
        self._unlogged.pop(transactional_id, None)

    # Asking

    def tick(self, now_ms: int) -> None:
        """Ask what is due by now, and wait no longer for what was not answered."""
        find = self._context.table.find
        for transactional_id in self._schedule.take_unanswered(now_ms):
            transaction = find(transactional_id)
            if transaction is not None:
                self._schedule.watch(transaction)
        for transactional_id in self._schedule.take_due(now_ms):
            transaction = find(transactional_id)
            if transaction is not None:
                self._take_due(transaction, now_ms)

    def _take_due(self, transaction: Transaction, now_ms: int) -> None:
        unlogged = self._unlogged.pop(transaction.transactional_id, None)
        if unlogged is not None and _is_of(unlogged, transaction):
            self._take_answer(transaction, unlogged, now_ms)
        elif self._schedule.next_question_ms(transaction) > now_ms:
            # The deadline was that of an earlier transaction, or of this one before another producer had it.
            self._schedule.watch(transaction)
        elif _is_to_be_aborted(transaction):
            self._decide(transaction, commit=False, now_ms=now_ms)
        else:
            self._ask(transaction, now_ms)

    def _ask(self, transaction: Transaction, now_ms: int) -> None:
        context, timeout_ms = self._context, self._context.config.resolver_answer_timeout_ms
        if not context.log(transaction, transitions.asked_about(transaction.current, now_ms)):
            self._look_again(transaction, now_ms)
            return
        current = transaction.current
        resolver, preparation = current.resolver, current.preparation
        assert resolver is not None, "only what has a resolver is due"
        assert preparation is not None, "only what is prepared has a resolver"
        self._schedule.asked(transaction, now_ms + timeout_ms)
        context.say(
            transaction.shard,
            AskResolver(
                transaction.transactional_id,
                current.written_by,
                preparation.context,
                preparation.questions,
                preparation.prepared_ms + context.time_set_by_ms,
                resolver,
                timeout_ms,
            ),
        )

    def _look_again(self, transaction: Transaction, now_ms: int) -> None:
        self._schedule.watch_again(transaction, now_ms + self._context.config.request_hold_ms)

    # Answers

    def answered(self, event: ResolverAnswered, now_ms: int) -> None:
        """Decide as a resolver says, if it says something, and about the transaction that is open."""
        transaction = self._context.table.find(event.transactional_id)
        if transaction is None or not _is_of(event, transaction):
            return
        preparation = transaction.current.preparation
        if preparation is not None and event.attempt == preparation.questions:
            self._schedule.answered(event.transactional_id)
        if event.commit is None:
            self._schedule.watch(transaction)
        else:
            self._take_answer(transaction, event, now_ms)

    def _take_answer(self, transaction: Transaction, event: ResolverAnswered, now_ms: int) -> None:
        if not self._decide(transaction, commit=event.commit is True, now_ms=now_ms):
            self._unlogged[event.transactional_id] = event

    def _decide(self, transaction: Transaction, *, commit: bool, now_ms: int) -> bool:
        """Log a decision; where the log takes nothing now, this is looked at again later."""
        decision = transitions.completed_by_token(transaction.current, commit=commit, now_ms=now_ms)
        is_logged = self._completion.decide(transaction, decision)
        if not is_logged:
            self._look_again(transaction, now_ms)
        return is_logged


def _is_of(event: ResolverAnswered, transaction: Transaction) -> bool:
    """Whether the answer is about the prepared transaction that is open."""
    current = transaction.current
    return current.resolver is not None and current.written_by == event.prepared


def _is_to_be_aborted(transaction: Transaction) -> bool:
    resolver = transaction.current.resolver
    return resolver is not None and resolver.aborts_when_exhausted and is_exhausted(transaction.current)
