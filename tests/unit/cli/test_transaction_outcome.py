"""How the one transaction of `eagleray produce` ended, with interrupts at every point."""

import asyncio
from types import SimpleNamespace

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.cli import one_transaction
from eagleray.cli.one_transaction import OneTransaction
from eagleray.cli.transaction_outcome import TRANSITIONS, Event, Outcome, State, event_from
from eagleray.client.errors import (
    InvalidTransactionState,
    NotConnected,
    ProducerFenced,
    ServerFailed,
    TransactionAborted,
)

OURS = ProducerIdentity(7, 3)


def described(state, producer=OURS):
    return TransactionDescription("id", state, producer, 60_000, 0, 0, ())


# The table


@pytest.mark.parametrize("state", State)
def test_interrupt_is_expected_in_every_state(state):
    assert Event.INTERRUPTED in TRANSITIONS[state]
    assert Event.FAILED in TRANSITIONS[state]


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([Event.INTERRUPTED, Event.ABORTED], State.ABORTED),
        ([Event.INTERRUPTED, Event.INTERRUPTED], State.LEFT_OPEN),
        ([Event.FAILED, Event.FAILED], State.LEFT_OPEN),
        ([Event.INPUT_ENDED, Event.COMMITTED, Event.INTERRUPTED], State.COMMITTED),
        ([Event.INPUT_ENDED, Event.INTERRUPTED, Event.COMMITTED], State.COMMITTED),
        ([Event.INPUT_ENDED, Event.INTERRUPTED, Event.ABORTED], State.ABORTED),
        ([Event.INPUT_ENDED, Event.INTERRUPTED, Event.REFUSED, Event.ABORTED], State.ABORTED),
        ([Event.INPUT_ENDED, Event.INTERRUPTED, Event.INTERRUPTED], State.UNKNOWN),
        ([Event.INPUT_ENDED, Event.INTERRUPTED, Event.FAILED], State.UNKNOWN),
        ([Event.INPUT_ENDED, Event.FAILED, Event.INTERRUPTED], State.UNKNOWN),
        ([Event.INPUT_ENDED, Event.REFUSED, Event.ABORTED], State.ABORTED),
        ([Event.FENCED, Event.INTERRUPTED], State.FENCED),
        ([Event.INTERRUPTED, Event.FENCED], State.FENCED),
        ([Event.INPUT_ENDED, Event.REFUSED, Event.FENCED], State.FENCED),
        ([Event.INPUT_ENDED, Event.FAILED, Event.COMMITTED], State.COMMITTED),
        ([Event.INPUT_ENDED, Event.FAILED, Event.ABORTED], State.ABORTED),
        ([Event.INPUT_ENDED, Event.FAILED, Event.FAILED], State.UNKNOWN),
        ([Event.INPUT_ENDED, Event.FAILED, Event.FENCED, Event.FAILED], State.FENCED_COMMITTING),
        ([Event.INPUT_ENDED, Event.INTERRUPTED, Event.FENCED], State.FENCED_COMMITTING),
    ],
)
def test_outcome_follows_what_arrived(events, state):
    outcome = Outcome("id")
    for event in events:
        outcome.on(event)
    assert outcome.state is state


@pytest.mark.parametrize("state", State)
def test_sentence_claims_only_what_is_known(state):
    outcome = Outcome("id")
    outcome.state = state
    says_committed = outcome.sentence == "the transaction was committed"
    says_nothing = "nothing was committed" in outcome.sentence
    says_unknown = "is not known" in outcome.sentence
    assert [says_committed, says_nothing, says_unknown].count(True) == 1
    assert says_committed == outcome.is_committed
    # From the moment in which the commit is asked for, only an answer may say that it was not.
    assert says_unknown == (state in (State.COMMITTING, State.ASKING, State.UNKNOWN, State.FENCED_COMMITTING))


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (State.READING, State.LEFT_OPEN),
        (State.ABORTING, State.LEFT_OPEN),
        (State.COMMITTING, State.UNKNOWN),
        (State.ASKING, State.UNKNOWN),
        *((state, state) for state in State if TRANSITIONS[state][Event.INTERRUPTED] is state),
    ],
)
def test_process_that_ends_at_once_claims_no_more_than_is_known(state, end):
    outcome = Outcome("id")
    outcome.state = state
    assert outcome.given_up().state is end
    assert outcome.state is state


@pytest.mark.parametrize("state", [State.FENCED, State.FENCED_COMMITTING])
def test_sentence_of_a_fenced_producer_names_no_command_that_meets_the_newer_one(state):
    outcome = Outcome("id")
    outcome.state = state
    assert "`eagleray txn" not in outcome.sentence


@pytest.mark.parametrize(
    ("found", "event"),
    [
        (described("PrepareCommit"), Event.COMMITTED),
        (described("CompleteCommit", ProducerIdentity(7, 4)), Event.COMMITTED),
        (described("CompleteAbort", ProducerIdentity(7, 4)), Event.ABORTED),
        (described("Ongoing"), Event.FAILED),
        # What a newer producer has done says nothing about this one.
        (described("CompleteCommit", ProducerIdentity(7, 5)), Event.FENCED),
        (described("CompleteCommit", ProducerIdentity(8, 3)), Event.FENCED),
    ],
)
def test_description_tells_of_the_own_transaction_alone(found, event):
    assert event_from(found, OURS) is event


# Driven


class Coordinator:
    """A producer and an admin in one, whose answers come when the test lets them."""

    transactional_id = "id"

    def __init__(self):
        self.commit_answer = asyncio.get_running_loop().create_future()
        self.abort_answer = asyncio.get_running_loop().create_future()
        self.descriptions = [described("Empty")]
        self.is_committing = asyncio.Event()
        self.is_aborting = asyncio.Event()

    def begin(self):
        pass

    async def commit(self):
        self.is_committing.set()
        await self.commit_answer

    async def abort(self):
        self.is_aborting.set()
        await self.abort_answer

    async def describe_transaction(self, _):
        found = self.descriptions.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def drive(scenario):
    """Run a transaction beside a scenario that answers and interrupts it; return the state in which it ended."""

    async def main():
        coordinator, outcome, input_ended = Coordinator(), Outcome("id"), asyncio.Event()
        session = SimpleNamespace(cluster=SimpleNamespace(admin=coordinator))
        transaction = OneTransaction(session, coordinator, outcome)
        task = asyncio.create_task(transaction.run(input_ended.wait))
        await asyncio.sleep(0)
        await scenario(task, coordinator, input_ended)
        await asyncio.wait({task})
        return outcome.state, task

    state, task = asyncio.run(main())
    return state, None if task.cancelled() else task.exception()


@pytest.mark.parametrize("is_at_end", [False, True])
def test_interrupt_while_reading_or_with_the_end_of_input_aborts(is_at_end):
    async def scenario(task, coordinator, input_ended):
        if is_at_end:
            input_ended.set()
        task.cancel()
        await coordinator.is_aborting.wait()
        coordinator.abort_answer.set_result(None)

    assert drive(scenario)[0] is State.ABORTED


def test_second_interrupt_does_not_wait_for_the_abort():
    async def scenario(task, coordinator, _):
        task.cancel()
        await coordinator.is_aborting.wait()
        task.cancel()

    assert drive(scenario)[0] is State.LEFT_OPEN


async def commit_asked_for(coordinator, input_ended):
    input_ended.set()
    await coordinator.is_committing.wait()


def test_interrupt_while_committing_waits_for_the_answer_and_says_so(capsys):
    async def scenario(task, coordinator, input_ended):
        await commit_asked_for(coordinator, input_ended)
        task.cancel()
        await asyncio.sleep(0)
        coordinator.commit_answer.set_result(None)

    assert drive(scenario)[0] is State.COMMITTED
    said = capsys.readouterr().err
    assert "interrupted while the transaction is being committed; asking its coordinator how it ended" in said


@pytest.mark.parametrize("turns", [0, 1])
def test_interrupt_together_with_the_answer_or_before_its_return_is_a_commit(turns):
    async def scenario(task, coordinator, input_ended):
        await commit_asked_for(coordinator, input_ended)
        coordinator.commit_answer.set_result(None)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()

    assert drive(scenario)[0] is State.COMMITTED


def test_refused_commit_is_aborted_although_it_was_interrupted():
    async def scenario(task, coordinator, input_ended):
        await commit_asked_for(coordinator, input_ended)
        task.cancel()
        await asyncio.sleep(0)
        coordinator.commit_answer.set_exception(TransactionAborted("too late"))
        coordinator.abort_answer.set_exception(InvalidTransactionState("nothing is open"))

    assert drive(scenario)[0] is State.ABORTED


def test_second_interrupt_while_committing_leaves_it_unknown():
    async def scenario(task, coordinator, input_ended):
        await commit_asked_for(coordinator, input_ended)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()

    assert drive(scenario)[0] is State.UNKNOWN


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (described("CompleteCommit", ProducerIdentity(7, 4)), State.COMMITTED),
        (described("CompleteAbort", ProducerIdentity(7, 4)), State.ABORTED),
        (described("CompleteCommit", ProducerIdentity(7, 5)), State.FENCED_COMMITTING),
        (described("Ongoing"), State.UNKNOWN),
        (NotConnected("gone"), State.UNKNOWN),
    ],
)
def test_coordinator_is_asked_where_the_commit_is_not_answered(found, state, monkeypatch):
    monkeypatch.setattr(one_transaction, "_ANSWER_S", 0.01)

    async def scenario(task, coordinator, input_ended):
        coordinator.descriptions.append(found)
        await commit_asked_for(coordinator, input_ended)
        task.cancel()

    assert drive(scenario)[0] is state


def test_all_tasks_cancelled_at_once_still_ask():
    """As at the end of `asyncio.run`, when an exception in the main thread has stopped the loop."""

    async def scenario(task, coordinator, input_ended):
        coordinator.descriptions.append(described("PrepareCommit", ProducerIdentity(7, 4)))
        await commit_asked_for(coordinator, input_ended)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()

    assert drive(scenario)[0] is State.COMMITTED


@pytest.mark.parametrize(
    ("error", "found", "state"),
    [
        (ProducerFenced("newer"), NotConnected("gone"), State.FENCED_COMMITTING),
        (ProducerFenced("newer"), described("Empty", ProducerIdentity(7, 5)), State.FENCED_COMMITTING),
        (ProducerFenced("newer"), described("CompleteAbort", ProducerIdentity(7, 4)), State.ABORTED),
        (ServerFailed("no more"), NotConnected("gone"), State.UNKNOWN),
        (ServerFailed("no more"), described("CompleteAbort", ProducerIdentity(7, 4)), State.ABORTED),
        (ServerFailed("no more"), described("Empty", ProducerIdentity(7, 5)), State.FENCED_COMMITTING),
        (TransactionAborted("gone"), NotConnected("gone"), State.ABORTED),
    ],
)
def test_commit_that_fails_says_why_and_what_the_coordinator_knows(error, found, state):
    async def scenario(_, coordinator, input_ended):
        coordinator.descriptions.append(found)
        await commit_asked_for(coordinator, input_ended)
        coordinator.commit_answer.set_exception(error)
        coordinator.abort_answer.set_result(None)

    assert drive(scenario) == (state, error)


def test_commit_that_fails_has_succeeded_where_the_coordinator_says_so(capsys):
    async def scenario(_, coordinator, input_ended):
        coordinator.descriptions.append(described("CompleteCommit", ProducerIdentity(7, 4)))
        await commit_asked_for(coordinator, input_ended)
        coordinator.commit_answer.set_exception(ServerFailed("no more"))

    assert drive(scenario) == (State.COMMITTED, None)
    assert "the commit has failed; asking the transaction's coordinator how it ended" in capsys.readouterr().err


def test_interrupt_while_a_commit_that_failed_is_asked_for_leaves_it_unknown():
    async def scenario(task, coordinator, input_ended):
        is_asking = asyncio.Event()

        async def never(_):
            is_asking.set()
            await asyncio.Event().wait()

        await commit_asked_for(coordinator, input_ended)
        coordinator.describe_transaction = never
        coordinator.commit_answer.set_exception(ServerFailed("no more"))
        await asyncio.wait_for(is_asking.wait(), 10)
        task.cancel()

    assert drive(scenario)[0] is State.UNKNOWN


def test_producer_that_is_fenced_while_reading_has_nothing_to_abort():
    async def main():
        coordinator, outcome, error = Coordinator(), Outcome("id"), ProducerFenced("newer")

        async def send_all():
            raise error

        session = SimpleNamespace(cluster=SimpleNamespace(admin=coordinator))
        with pytest.raises(ProducerFenced):
            await OneTransaction(session, coordinator, outcome).run(send_all)
        return outcome.state, coordinator.is_aborting.is_set()

    assert asyncio.run(main()) == (State.FENCED, False)


def test_abort_of_a_fenced_producer_leaves_nothing_open():
    async def scenario(task, coordinator, _):
        task.cancel()
        await coordinator.is_aborting.wait()
        coordinator.abort_answer.set_exception(ProducerFenced("newer"))

    assert drive(scenario)[0] is State.FENCED
