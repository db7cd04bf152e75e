"""Coordinators that break a rule of prepared transactions."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from msgspec.structs import replace

from eagleray.broker.transactions import resolving, transitions
from eagleray.broker.transactions.coordinator import TransactionCoordinator
from eagleray.broker.transactions.events import CompleteTransaction
from eagleray.broker.transactions.preparing import CompleteOutcome, outcome_of_complete
from eagleray.broker.transactions.question_schedule import is_exhausted
from eagleray.broker.transactions.resolver import ResolverName
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from eagleray.broker.transactions.table import Transaction
from eagleray.broker.transactions.transitions import asked_about
from tests.simulation.cluster.resolved import LEDGER
from tests.simulation.replacing import replacing


def _timing_out() -> AbstractContextManager[Any]:
    """A preparation that does not end the timeout."""
    return mock.patch.object(Snapshot, "can_time_out", property(lambda self: self.state is TransactionState.ONGOING))


def _forgetting_the_outcome() -> AbstractContextManager[Any]:
    """A completion that takes any outcome for the one that is asked for."""

    def outcome(current: Snapshot, request: CompleteTransaction) -> CompleteOutcome:
        known = current.outcome_of(request.prepared) is not None
        return CompleteOutcome.ALREADY_DONE if known else outcome_of_complete(current, request)

    return replacing(outcome_of_complete, outcome)


def _taking_more() -> AbstractContextManager[Any]:
    """A prepared transaction that partitions join."""
    return mock.patch.object(Snapshot, "is_closed", property(lambda self: self.is_kept))


def _aborting_what_is_kept() -> AbstractContextManager[Any]:
    """InitProducerId that aborts what it was asked to keep."""
    return mock.patch("eagleray.broker.transactions.initializing._keeps", return_value=False)


def _leaving_the_producer_its_epoch() -> AbstractContextManager[Any]:
    """A question that the producer does not notice."""

    def asked(current: Snapshot, now_ms: int) -> Snapshot:
        after = asked_about(current, now_ms)
        return replace(
            after, next_producer_id=current.next_producer_id, next_producer_epoch=current.next_producer_epoch
        )

    return mock.patch.object(transitions, "asked_about", asked)


def _asking_about_what_is_open() -> AbstractContextManager[Any]:
    """A coordinator that asks about every transaction of a producer that has prepared one before."""

    def resolver(snapshot: Snapshot) -> ResolverName | None:
        return LEDGER if snapshot.state is TransactionState.ONGOING and snapshot.preparation is not None else None

    return mock.patch.object(Snapshot, "resolver", property(resolver))


def _committing_what_is_given_up() -> AbstractContextManager[Any]:
    """A coordinator that commits what it is to abort when no answer has come."""
    tell = resolving.OutcomeQueries._decide

    def decide(self: Any, transaction: Transaction, *, commit: bool, now_ms: int) -> bool:
        return tell(self, transaction, commit=commit or is_exhausted(transaction.current), now_ms=now_ms)

    return mock.patch.object(resolving.OutcomeQueries, "_decide", decide)


def _forgetting_questions_at_a_failover() -> AbstractContextManager[Any]:
    """A coordinator that takes over and begins to count again."""
    load = TransactionCoordinator._loaded

    def loaded(self: Any, shard: Any, transactions: dict[str, Snapshot], now_ms: int) -> None:
        forgotten = {
            name: snapshot
            if snapshot.resolver is None
            else replace(snapshot, preparation=replace(snapshot.preparation, questions=0))
            for name, snapshot in transactions.items()
        }
        load(self, shard, forgotten, now_ms)

    return mock.patch.object(TransactionCoordinator, "_loaded", loaded)


PREPARED_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "prepared transaction that times out": _timing_out,
    "completion that ignores the outcome": _forgetting_the_outcome,
    "prepared transaction that takes more": _taking_more,
    "prepared transaction that is not kept": _aborting_what_is_kept,
    "question that does not raise the epoch": _leaving_the_producer_its_epoch,
    "question about what is not prepared": _asking_about_what_is_open,
    "commit of what is given up": _committing_what_is_given_up,
    "questions forgotten at a failover": _forgetting_questions_at_a_failover,
}
