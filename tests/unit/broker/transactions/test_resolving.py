"""Outcome queries: when resolvers are asked, what their answers do, and what they never do."""

import pytest
from msgspec.structs import replace

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.descriptions import DescribeTransaction
from eagleray.broker.transactions.preparation import Preparation
from eagleray.broker.transactions.question_schedule import next_question_ms
from eagleray.broker.transactions.resolver import ResolverKind, ResolverName, hurried_wait_ms, problem_of, wait_ms
from eagleray.broker.transactions.resolver_events import AskResolver, ResolverAnswered
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, RESOLVER, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

BOTH = pytest.mark.parametrize("commit", [False, True])
ABORTING = replace(RESOLVER, aborts_when_exhausted=True)
LONG_MS = 10_000_000
ANSWER_MS = 200


@pytest.fixture
def driver() -> CoordinatorDriver:
    config = CoordinatorConfig(
        transaction_state_log_num_partitions=1,
        transaction_completion_log_delay_ms=0,
        resolver_answer_timeout_ms=ANSWER_MS,
        transactional_id_expiration_ms=100 * LONG_MS,
    )
    return CoordinatorDriver(config)


def asked(driver: CoordinatorDriver, resolver: ResolverName = RESOLVER) -> AskResolver:
    """The first question about a prepared transaction."""
    driver.prepared(ORDERS_0, context=b"42", resolver=resolver)
    driver.pass_time(driver.now_ms + resolver.first_after_ms)
    [question] = driver.questions
    return question


def completed_state(*, commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT


# Asking


def test_resolver_is_asked_when_its_producer_has_been_silent_for_long_enough(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0, context=b"42", resolver=RESOLVER)

    driver.pass_time(RESOLVER.first_after_ms - 1)
    assert not driver.questions
    driver.pass_time(RESOLVER.first_after_ms)

    assert driver.questions == [AskResolver(TRANSACTIONAL_ID, token, b"42", 1, 0, RESOLVER, ANSWER_MS)]


def test_question_is_asked_only_when_the_log_has_it(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)

    driver.tick(RESOLVER.first_after_ms)

    assert len(driver.appends) == 1
    assert not driver.questions
    driver.settle()
    assert len(driver.questions) == 1
    logged = driver.logged()[TRANSACTIONAL_ID]
    assert logged.preparation is not None
    assert (logged.preparation.questions, logged.preparation.asked_ms) == (1, RESOLVER.first_after_ms)
    assert logged.is_prepared


def test_nothing_is_asked_about_a_transaction_that_is_ended_in_time(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0, resolver=RESOLVER)
    driver.ended(token, version=2)

    driver.pass_time(LONG_MS)

    assert not driver.questions


def test_nothing_is_asked_about_a_transaction_without_a_resolver(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0)
    driver.pass_time(LONG_MS)

    assert not driver.questions
    assert driver.current().is_prepared


def test_nothing_is_asked_about_a_transaction_that_was_not_prepared_and_it_times_out(driver: CoordinatorDriver):
    driver.begun(driver.initialized(), version=2)
    driver.pass_time(LONG_MS)

    assert not driver.questions
    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_resolver_of_a_transaction_is_not_that_of_the_next(driver: CoordinatorDriver):
    producer = driver.ended(driver.prepared(ORDERS_0, resolver=RESOLVER), version=2)
    driver.begun(producer, version=2)
    driver.prepare(producer)
    driver.settle()
    driver.pass_time(LONG_MS)

    assert driver.current().is_prepared
    assert not driver.questions


def test_producer_can_do_nothing_more_once_the_resolver_is_asked(driver: CoordinatorDriver):
    question = asked(driver)
    producer = question.prepared

    late = [
        driver.end(producer, commit=True, version=2),
        driver.end(producer, commit=False, version=2),
        driver.add(producer, version=2),
        driver.prepare(producer, context=b"42", resolver=RESOLVER),
        driver.init(expected=producer),
        driver.init(expected=producer, keep_prepared=True),
    ]

    assert {driver.error_of(request_id) for request_id in late} == {ErrorCode.PRODUCER_FENCED}
    assert driver.current().is_prepared


def test_identity_that_fences_the_producer_is_raised_once(driver: CoordinatorDriver):
    asked(driver)
    holder = driver.current().holder

    driver.pass_time(LONG_MS)

    assert len(driver.questions) == RESOLVER.attempts
    assert driver.current().holder == holder


@BOTH
def test_token_still_completes_what_is_asked_about(driver: CoordinatorDriver, commit: bool):
    question = asked(driver)

    request_id = driver.complete(question.prepared, commit=commit)
    driver.settle()
    driver.answer(question, commit=not commit)
    driver.pass_time(LONG_MS)

    assert driver.error_of(request_id) is ErrorCode.NONE
    assert driver.current().state is completed_state(commit=commit)
    assert len(driver.questions) == 1


def test_questions_have_more_and_more_time_between_them_up_to_a_bound():
    waits = [wait_ms(RESOLVER, questions) for questions in range(1, 7)]
    assert waits == [500, 1000, 2000, 4000, 4000, 4000]
    assert [hurried_wait_ms(replace(RESOLVER, interval_ms=60_000), questions) for questions in range(1, 8)] == [
        1000,
        2000,
        4000,
        8000,
        16_000,
        32_000,
        64_000,
    ]
    assert hurried_wait_ms(RESOLVER, 1000) == wait_ms(RESOLVER, 1000) == 4000


def test_each_question_has_its_number_and_its_time(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    times = []
    for until_ms in range(0, 10_000, 100):
        driver.pass_time(until_ms)
        times += [until_ms] * (len(driver.questions) - len(times))

    assert times == [1000, 1500, 2500]
    assert [question.attempt for question in driver.questions] == [1, 2, 3]


def test_next_question_waits_for_the_answer_to_the_last_one(driver: CoordinatorDriver):
    quick = replace(RESOLVER, interval_ms=1)
    asked(driver, quick)

    driver.pass_time(RESOLVER.first_after_ms + ANSWER_MS - 1)
    assert len(driver.questions) == 1
    driver.pass_time(RESOLVER.first_after_ms + ANSWER_MS)
    assert len(driver.questions) == 2


def test_only_so_many_questions_are_on_their_way_together():
    driver = CoordinatorDriver(
        CoordinatorConfig(
            transaction_state_log_num_partitions=1,
            max_resolver_questions_in_flight=2,
            resolver_answer_timeout_ms=LONG_MS,
        ),
        loaded={
            f"id-{number}": snapshot(
                TransactionState.ONGOING,
                producer_id=number,
                client_version=2,
                preparation=Preparation(0, resolver=RESOLVER),
            )
            for number in range(5)
        },
    )
    driver.tick(RESOLVER.first_after_ms)
    driver.settle()
    assert len(driver.questions) == 2
    assert driver.coordinator.next_due_ms > driver.now_ms, "it would turn without end"

    driver.answer(driver.questions[0], commit=True)
    driver.answer(driver.questions[1], commit=None)
    driver.tick()
    driver.settle()

    assert len({question.transactional_id for question in driver.questions}) == 4


# Answers


@BOTH
def test_answer_decides_and_the_log_has_it_at_once(driver: CoordinatorDriver, commit: bool):
    question = asked(driver)

    driver.answer(question, commit=commit)

    [append] = driver.appends
    [(_, decision)] = append.records
    assert decision.state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT)
    assert decision.outcome_of(question.prepared) is commit
    assert decision.producer_epoch > question.prepared.epoch, "a marker of version 2 is above what was written"
    driver.settle()
    assert driver.current().state is completed_state(commit=commit)
    assert [markers.commit for markers in driver.written] == [commit]
    driver.pass_time(LONG_MS)
    assert len(driver.questions) == 1


def test_next_producer_begins_above_all_that_was_given(driver: CoordinatorDriver):
    question = asked(driver)
    raised = driver.current().holder.epoch
    driver.answer(question, commit=True)
    driver.settle()

    producer = driver.initialized()

    assert producer.producer_id == question.prepared.producer_id
    assert producer.epoch > raised > question.prepared.epoch


def test_answer_in_the_last_epochs_of_a_producer_id():
    for epoch in range(LAST_EPOCH - 4, LAST_EPOCH):
        prepared = snapshot(
            TransactionState.ONGOING,
            producer_epoch=epoch,
            client_version=2,
            preparation=Preparation(0, resolver=RESOLVER),
        )
        driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: prepared})
        driver.pass_time(RESOLVER.first_after_ms)
        driver.answer(driver.questions[0], commit=True)
        driver.settle()

        [markers] = driver.written
        assert epoch < markers.producer.epoch <= LAST_EPOCH
        successor = driver.initialized()
        assert successor.producer_id != 7 or markers.producer.epoch < successor.epoch < LAST_EPOCH


def test_unknown_outcome_changes_nothing(driver: CoordinatorDriver):
    question = asked(driver)
    before = driver.current()

    driver.answer(question, commit=None)

    assert not driver.appends
    assert driver.current() == before


@BOTH
def test_answer_to_an_earlier_question_decides_as_well(driver: CoordinatorDriver, commit: bool):
    first = asked(driver)
    driver.pass_time(driver.now_ms + wait_ms(RESOLVER, 1))
    assert len(driver.questions) == 2

    driver.answer(first, commit=commit)
    driver.answer(driver.questions[1], commit=not commit)
    driver.settle()

    assert driver.current().state is completed_state(commit=commit)


def test_answer_about_another_token_changes_nothing(driver: CoordinatorDriver):
    question = asked(driver)
    before = driver.current()
    stranger = ProducerIdentity(question.prepared.producer_id, question.prepared.epoch + 1)

    driver.send(
        ResolverAnswered(TRANSACTIONAL_ID, stranger, 1, True),
        ResolverAnswered("unknown", question.prepared, 1, True),
    )

    assert not driver.appends
    assert driver.current() == before


@BOTH
def test_answer_about_a_transaction_that_is_over_does_not_decide_the_next(driver: CoordinatorDriver, commit: bool):
    question = asked(driver)
    driver.complete(question.prepared, commit=True)
    driver.settle()
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    before = driver.current()

    driver.answer(question, commit=commit)

    assert not driver.appends
    assert driver.current() == before


@BOTH
def test_answer_about_a_transaction_that_was_not_prepared_changes_nothing(driver: CoordinatorDriver, commit: bool):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    before = driver.current()

    driver.send(ResolverAnswered(TRANSACTIONAL_ID, producer, 1, commit))

    assert not driver.appends
    assert driver.current() == before


def test_answer_that_the_log_refuses_is_logged_before_another_question_is_asked(driver: CoordinatorDriver):
    question = asked(driver, ABORTING)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.answer(question, commit=True)
    driver.pass_time(LONG_MS // 2)
    assert driver.current().is_prepared

    driver.refusal = ErrorCode.NONE
    driver.pass_time(LONG_MS)

    assert driver.current().state is TransactionState.COMPLETE_COMMIT
    assert len(driver.questions) == 1


def test_question_that_the_log_refuses_is_asked_when_it_takes_it(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.pass_time(5000)
    assert not driver.questions

    driver.refusal = ErrorCode.NONE
    driver.pass_time(5000 + driver.config.request_hold_ms)

    assert [question.attempt for question in driver.questions] == [1]


def test_prepared_branches_are_committed_by_the_answer_and_the_others_are_not(driver: CoordinatorDriver):
    owner = driver.owned()
    chosen, other = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_0)
    driver.prepare(owner, chosen, resolver=RESOLVER)
    driver.settle()
    driver.pass_time(RESOLVER.first_after_ms)

    driver.answer(driver.questions[0], commit=True)
    driver.settle()

    branches = {branch.producer.producer_id: branch.commit for branch in driver.written[-1].branches}
    assert branches == {chosen.producer_id: True, other.producer_id: False}


# The end of asking


def test_transaction_stays_prepared_when_the_last_question_was_not_answered(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    driver.pass_time(LONG_MS)

    assert len(driver.questions) == RESOLVER.attempts
    assert driver.current().is_prepared


def test_transaction_is_aborted_where_it_says_so_when_the_last_question_was_not_answered(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0, resolver=ABORTING)
    last_ms = RESOLVER.first_after_ms + wait_ms(RESOLVER, 1) + wait_ms(RESOLVER, 2)
    driver.pass_time(last_ms + wait_ms(RESOLVER, 3) - 1)
    assert len(driver.questions) == RESOLVER.attempts
    assert driver.current().is_prepared, "the last question has its time, too"
    driver.pass_time(last_ms + wait_ms(RESOLVER, 3))

    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().outcome_of(token) is False
    assert len(driver.questions) == RESOLVER.attempts


def test_answer_after_the_last_question_still_decides(driver: CoordinatorDriver):
    asked(driver)
    driver.pass_time(LONG_MS)

    driver.answer(driver.questions[-1], commit=True)
    driver.settle()

    assert driver.current().state is TransactionState.COMPLETE_COMMIT


# Producers that come back


def test_producer_that_comes_back_waits_and_the_resolver_is_asked_at_once(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0, resolver=RESOLVER)

    waiting = driver.init()
    driver.tick()
    driver.settle()

    [question] = driver.questions
    assert question.prepared == token
    assert waiting not in driver.replies
    driver.answer(question, commit=True)
    driver.settle()
    assert driver.error_of(waiting) is ErrorCode.NONE
    assert driver.reply_to(waiting).producer.epoch > token.epoch
    assert [markers.commit for markers in driver.written] == [True]


def test_producer_that_waits_goes_on_though_the_transaction_has_no_markers(driver: CoordinatorDriver):
    driver.prepared(resolver=RESOLVER)
    waiting = driver.init()
    driver.tick()
    driver.settle()

    driver.answer(driver.questions[0], commit=False)
    driver.settle()

    assert driver.error_of(waiting) is ErrorCode.NONE


def test_producer_that_waits_goes_on_when_a_token_completes_the_transaction(driver: CoordinatorDriver):
    token = driver.prepared(resolver=RESOLVER)
    waiting = driver.init()

    driver.complete(token)
    driver.settle()

    assert driver.error_of(waiting) is ErrorCode.NONE


def test_producer_that_waits_too_long_is_told_to_ask_again(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    waiting = driver.init()

    driver.pass_time(driver.config.request_hold_ms)

    assert driver.error_of(waiting) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.current().is_prepared


def test_driver_that_begins_anew_waits_too(driver: CoordinatorDriver):
    owner = driver.owned()
    driver.prepare(owner, resolver=RESOLVER)
    driver.settle()

    waiting = driver.begin_branched("batch-2")
    driver.tick()
    driver.settle()
    driver.answer(driver.questions[0], commit=True)
    driver.settle()

    assert driver.error_of(waiting) is ErrorCode.NONE
    assert driver.current().branching.committed_tag == "batch-1"


def test_resolver_is_asked_more_often_while_a_producer_waits_but_with_more_and_more_time_between(
    driver: CoordinatorDriver,
):
    patient = replace(RESOLVER, first_after_ms=60_000, interval_ms=60_000, attempts=15)
    driver.prepared(ORDERS_0, resolver=patient)
    times = []
    for now_ms in range(0, 20_000, 100):
        driver.pass_time(now_ms)
        driver.init()
        driver.tick()
        driver.settle()
        times += [now_ms] * (len(driver.questions) - len(times))

    assert times == [0, 1000, 3000, 7000, 15_000]


def test_resolver_that_was_given_up_is_asked_again_for_a_producer_that_waits(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    driver.pass_time(LONG_MS)
    assert len(driver.questions) == RESOLVER.attempts

    driver.init()
    driver.tick()
    driver.settle()

    assert [question.attempt for question in driver.questions] == [1, 2, 3, 4]


def test_producer_that_keeps_the_transaction_has_its_time_again_and_may_end_it(driver: CoordinatorDriver):
    question = asked(driver)
    kept_ms = driver.now_ms
    keeper, token = driver.kept()
    assert token == question.prepared

    driver.pass_time(kept_ms + RESOLVER.first_after_ms - 1)
    assert len(driver.questions) == 1
    ended = driver.end(keeper, version=2)
    driver.settle()

    assert driver.error_of(ended) is ErrorCode.NONE
    assert driver.current().state is TransactionState.COMPLETE_COMMIT


def test_keeper_that_is_silent_loses_the_transaction_to_the_resolver(driver: CoordinatorDriver):
    asked(driver)
    keeper, token = driver.kept()

    driver.pass_time(driver.now_ms + RESOLVER.first_after_ms)

    assert [question.attempt for question in driver.questions] == [1, 2]
    assert driver.error_of(driver.end(keeper, version=2)) is ErrorCode.PRODUCER_FENCED
    driver.answer(driver.questions[1], commit=True)
    driver.settle()
    assert driver.current().outcome_of(token) is True


# After a failover


def test_next_coordinator_asks_on_from_the_log(driver: CoordinatorDriver):
    asked(driver)

    successor = driver.restarted()
    assert successor.coordinator.next_due_ms <= driver.now_ms + wait_ms(RESOLVER, 1)
    successor.pass_time(driver.now_ms + wait_ms(RESOLVER, 1) - 1)
    assert not successor.questions
    successor.pass_time(LONG_MS)

    assert [question.attempt for question in successor.questions] == [2, 3]
    assert {question.resolver for question in successor.questions} == {RESOLVER}


def test_next_coordinator_takes_the_answer_to_a_question_of_the_last(driver: CoordinatorDriver):
    question = asked(driver)
    successor = driver.restarted()

    successor.answer(question, commit=True)
    successor.settle()

    assert successor.current().state is TransactionState.COMPLETE_COMMIT


def test_next_coordinator_fences_the_producer_as_the_last_did(driver: CoordinatorDriver):
    question = asked(driver)
    successor = driver.restarted()

    assert successor.error_of(successor.end(question.prepared, version=2)) is ErrorCode.PRODUCER_FENCED


# What is taken, and what is told


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"name": ""}, "name of the resolver's actor"),
        ({"name": "x" * 250}, "name of the resolver's actor"),
        ({"namespace": ""}, "namespace of the resolver's actor"),
        ({"namespace": "eagleray-default"}, "a cluster's own actors"),
        ({"method": "__reduce__"}, "public method"),
        ({"method": "no method"}, "public method"),
        ({"first_after_ms": 0}, "first_after_ms"),
        ({"interval_ms": -1}, "interval_ms"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": 1001}, "attempts"),
        ({"kind": ResolverKind.TOPIC, "name": "not a topic"}, "topic"),
        ({"kind": ResolverKind.TOPIC, "name": "__transaction_state"}, "the cluster's own topic"),
    ],
)
def test_resolver_that_cannot_be_asked_is_refused(driver: CoordinatorDriver, wrong: dict[str, object], expected: str):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    resolver = replace(RESOLVER, **wrong)

    refused = driver.prepare(producer, resolver=resolver)

    assert expected in str(problem_of(resolver))
    assert driver.error_of(refused) is ErrorCode.INVALID_REQUEST
    assert not driver.current().is_prepared


def test_preparation_with_another_resolver_is_not_the_same(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0, resolver=RESOLVER)

    assert driver.error_of(driver.prepare(token, resolver=RESOLVER)) is ErrorCode.NONE
    assert driver.error_of(driver.prepare(token, resolver=ABORTING)) is ErrorCode.INVALID_TXN_STATE


def test_description_says_who_is_asked_how_often_and_when_next(driver: CoordinatorDriver):
    asked(driver)
    driver.answer(driver.questions[0], commit=None)

    request_id = driver.request(DescribeTransaction, TRANSACTIONAL_ID)

    found = driver.replies[request_id].transaction
    assert (found.state, found.resolver, found.questions) == ("Ongoing", RESOLVER, 1)
    assert found.next_question_ms == driver.now_ms + wait_ms(RESOLVER, 1)


def test_description_of_a_transaction_that_is_not_asked_about_again(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    driver.pass_time(LONG_MS)

    found = driver.replies[driver.request(DescribeTransaction, TRANSACTIONAL_ID)].transaction

    assert (found.questions, found.next_question_ms) == (RESOLVER.attempts, -1)


def test_transaction_that_is_not_prepared_is_never_due():
    for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.EMPTY):
        left_over = snapshot(state, client_version=2, preparation=Preparation(-1, resolver=RESOLVER))
        assert next_question_ms(left_over, is_wanted=True) == NEVER_MS
