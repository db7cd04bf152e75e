"""What the transaction log must never show of prepared and kept transactions, told by the records alone."""

from __future__ import annotations

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER, NO_PRODUCER_ID, ProducerIdentity
from eagleray.broker.messages import IMPLICIT_VERSION
from eagleray.broker.transactions.events import CompleteTransaction, InitProducerId, PrepareTransaction, Reply
from eagleray.broker.transactions.preparation import NOT_ASKED_MS
from eagleray.broker.transactions.resolver_events import AskResolver
from eagleray.broker.transactions.snapshot import Snapshot
from eagleray.broker.transactions.states import TransactionState
from tests.support.branch_model import branches_of

_State = TransactionState

DECIDED = (_State.PREPARE_COMMIT, _State.PREPARE_ABORT)


def holder_of(snapshot: Snapshot) -> ProducerIdentity:
    if snapshot.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdentity(snapshot.next_producer_id, snapshot.next_producer_epoch)
    return ProducerIdentity(snapshot.producer_id, snapshot.producer_epoch)


def token_of(snapshot: Snapshot) -> ProducerIdentity:
    return ProducerIdentity(snapshot.producer_id, snapshot.producer_epoch)


def prepared_ms_of(snapshot: Snapshot | None) -> int:
    is_open = snapshot is not None and snapshot.state is _State.ONGOING and snapshot.preparation is not None
    return snapshot.preparation.prepared_ms if is_open else -1


def is_kept(snapshot: Snapshot) -> bool:
    return snapshot.state is _State.ONGOING and snapshot.next_producer_id != NO_PRODUCER_ID


def check_end_of_kept(decision: Snapshot, by: ProducerIdentity) -> None:
    """The keeper has another producer id than the records, whose last epoch ends them."""
    assert decision.producer_epoch == LAST_EPOCH
    assert (decision.previous_producer_id, decision.last_producer_epoch) == (by.producer_id, by.epoch)


class PreparedModel:
    """Sees every record that gets into the log, with the one before it under the same key."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, ProducerIdentity], bool] = {}
        """Whether the transactions with these tokens were committed."""
        self.prepared = 0
        self.kept = 0
        self.completed = 0
        self.answers: dict[tuple[str, ProducerIdentity], set[bool]] = {}
        """What resolvers have said, ever."""
        self.asked = 0

    def copy(self) -> PreparedModel:
        model = PreparedModel()
        model.outcomes = self.outcomes.copy()
        model.prepared, model.kept, model.completed = self.prepared, self.kept, self.completed
        model.answers, model.asked = self.answers, self.asked
        return model

    def see(self, name: str, before: Snapshot | None, after: Snapshot | None, *, by_time: bool) -> None:
        if before is None or after is None or before.state is not _State.ONGOING:
            return
        is_prepared = prepared_ms_of(before) >= 0
        if after.state in DECIDED:
            if is_prepared and by_time:
                self._check_end_by_time(name, before, after)
            self._see_decision(name, before, after, is_prepared=is_prepared)
        elif is_prepared or is_kept(before):
            assert after.partitions == before.partitions, "a partition joins what takes nothing more"
            assert branches_of(after) == branches_of(before), "a branch changes in what takes nothing more"
            assert prepared_ms_of(after) == prepared_ms_of(before), "a preparation is lost, or comes late"
            assert token_of(after) == token_of(before), "the token changes"
            assert after.resolver == before.resolver
            self._see_asked_or_kept(before, after)
        self.prepared += prepared_ms_of(after) >= 0 and not is_prepared
        self.kept += is_kept(after)

    def _see_asked_or_kept(self, before: Snapshot, after: Snapshot) -> None:
        assert before.preparation is None or after.preparation is not None
        questions = 0 if before.preparation is None else before.preparation.questions
        if after.preparation is None or after.preparation.asked_ms == NOT_ASKED_MS:
            assert holder_of(after) != holder_of(before)
            assert (0 if after.preparation is None else after.preparation.questions) == questions
            return
        assert prepared_ms_of(before) >= 0, "it is asked about what is not prepared"
        assert before.resolver is not None, "it is asked though there is no resolver"
        assert after.preparation.questions == questions + 1, "questions are forgotten"
        assert is_kept(after), "it is asked about a producer that may go on"
        has_producer = before.preparation is None or before.preparation.asked_ms == NOT_ASKED_MS
        assert has_producer is (holder_of(after) != holder_of(before)) or holder_of(after).epoch == LAST_EPOCH
        assert holder_of(after).epoch > token_of(after).epoch or holder_of(after).producer_id != after.producer_id
        self.asked += 1

    def _check_end_by_time(self, name: str, before: Snapshot, after: Snapshot) -> None:
        """A prepared transaction ends by itself where its resolver has said so, or is not to be asked any more."""
        if (after.state is _State.PREPARE_COMMIT) in self.answers.get((name, token_of(before)), set()):
            return
        resolver, preparation = before.resolver, before.preparation
        assert resolver is not None, "a prepared transaction times out"
        assert resolver.aborts_when_exhausted, "it is given up though it was to be kept"
        assert preparation is not None
        assert preparation.questions >= resolver.attempts, "it is given up too early"
        assert after.state is _State.PREPARE_ABORT, "it is committed though no resolver has said so"

    def check_question(self, logged: Snapshot, question: AskResolver) -> None:
        assert prepared_ms_of(logged) == question.prepared_ms >= 0
        assert token_of(logged) == question.prepared
        assert logged.preparation.questions == question.attempt
        assert logged.preparation.asked_ms != NOT_ASKED_MS, "it is asked about a producer that may go on"
        assert (logged.preparation.context, logged.resolver) == (question.context, question.resolver)

    def answered(self, question: AskResolver, *, commit: bool) -> None:
        self.answers.setdefault((question.transactional_id, question.prepared), set()).add(commit)

    def _see_decision(self, name: str, before: Snapshot, after: Snapshot, *, is_prepared: bool) -> None:
        key, commit = (name, token_of(before)), after.state is _State.PREPARE_COMMIT
        assert not (is_prepared and key in self.outcomes), "a token has two outcomes"
        remembered = None if after.preparation is None else after.preparation.outcome
        is_remembered = remembered is not None and remembered.is_of(token_of(before))
        if is_remembered or after.client_version >= IMPLICIT_VERSION:
            # In version 1 several transactions have one identity, until one of them is completed by it.
            self.outcomes[key] = commit
        if is_prepared:
            assert is_remembered
            assert remembered.commit is commit
            committed = {key for key, branch in branches_of(after).items() if branch.is_committed}
            assert committed == (set(before.preparation.branches) if commit else set()), "not as it was prepared"
        assert after.producer_epoch >= before.producer_epoch

    def check_prepared(self, logged: Snapshot, request: PrepareTransaction, reply: Reply) -> None:
        assert prepared_ms_of(logged) >= 0
        assert token_of(logged) == request.producer == reply.producer
        assert logged.preparation.context == request.context

    def check_completed(self, request: CompleteTransaction, reply: Reply) -> None:
        assert self.outcomes[request.transactional_id, request.prepared] is request.commit, "the other way"
        assert reply.producer == NO_PRODUCER
        self.completed += 1

    def check_kept(self, logged: Snapshot, request: InitProducerId, reply: Reply) -> None:
        if logged.state is _State.ONGOING:
            assert request.keep_prepared
            assert is_kept(logged)
            assert reply.ongoing == token_of(logged)
        else:
            assert logged.state is _State.EMPTY
            assert reply.ongoing == NO_PRODUCER
