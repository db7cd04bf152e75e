"""Topics that bound how long a transaction may hold their readers back: `transaction.max.hold.ms`."""

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.broker.transactions.descriptions import DescribeTransaction
from eagleray.broker.transactions.events import HoldLimitsKnown
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, TIMEOUT_MS, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

PAYMENTS_0 = TopicPartition("payments", 0)
LIMIT_MS = 700
WHY = "has transaction.max.hold.ms=700"


@pytest.fixture
def driver() -> CoordinatorDriver:
    driver = CoordinatorDriver()
    driver.tick()
    driver.send(HoldLimitsKnown({"orders": LIMIT_MS}))
    return driver


def held(driver: CoordinatorDriver, *partitions: TopicPartition, version: int = 2) -> ProducerIdentity:
    """A producer with an open transaction."""
    producer = driver.initialized()
    driver.add(producer, *partitions, version=version)
    driver.settle()
    return producer


def pass_time(driver: CoordinatorDriver, until_ms: int) -> None:
    """Tick whenever something is due, as a node does."""
    while driver.coordinator.next_due_ms <= until_ms:
        driver.tick(max(driver.coordinator.next_due_ms - driver.now_ms, 0))
        driver.settle()
    driver.now_ms = until_ms


@pytest.mark.parametrize("version", [1, 2])
def test_transaction_is_aborted_when_the_limit_has_passed_and_its_producer_fenced(
    driver: CoordinatorDriver, version: int
):
    producer = held(driver, version=version)

    pass_time(driver, LIMIT_MS - 1)
    assert driver.current().state is TransactionState.ONGOING
    pass_time(driver, LIMIT_MS)

    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().producer_epoch == producer.epoch + 1
    late = driver.end(producer, version=version)
    driver.settle()
    assert driver.error_of(late) is ErrorCode.PRODUCER_FENCED


def test_node_is_told_for_its_log(driver: CoordinatorDriver):
    producer = held(driver)
    pass_time(driver, LIMIT_MS)

    (told,) = driver.held_too_long
    assert (told.transactional_id, told.producer) == (TRANSACTIONAL_ID, producer)
    assert "aborted after 700 ms" in told.message
    assert f"topic 'orders' {WHY}" in told.message


def test_producer_that_asks_who_it_is_hears_why(driver: CoordinatorDriver):
    producer = held(driver)
    pass_time(driver, LIMIT_MS)

    for _ in range(2):
        asked = driver.init(expected=producer)
        driver.settle()
        assert driver.error_of(asked) is ErrorCode.NONE
        assert WHY in driver.reply_to(asked).message


def test_late_commit_hears_why(driver: CoordinatorDriver):
    producer = held(driver)
    pass_time(driver, LIMIT_MS)

    late = driver.end(producer, version=2)
    assert WHY in driver.reply_to(late).message
    stranger = driver.end(ProducerIdentity(producer.producer_id, 9), version=2)
    assert driver.reply_to(stranger).message is None


def test_driver_of_branches_hears_why(driver: CoordinatorDriver):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    pass_time(driver, LIMIT_MS)

    late = driver.end_branched(owner, branch)
    assert driver.error_of(late) is ErrorCode.PRODUCER_FENCED
    assert WHY in driver.reply_to(late).message


def test_next_transaction_knows_nothing_of_it(driver: CoordinatorDriver):
    held(driver)
    pass_time(driver, LIMIT_MS)
    producer = driver.initialized(expected=driver.held_too_long[0].producer)
    driver.begun(producer, version=2)
    driver.send(HoldLimitsKnown({}))
    driver.tick(TIMEOUT_MS + 1)
    driver.settle()

    asked = driver.init(expected=producer)
    driver.settle()
    assert driver.reply_to(asked).message is None


def test_newer_producer_does_not_hear_of_it(driver: CoordinatorDriver):
    held(driver)
    pass_time(driver, LIMIT_MS)

    asked = driver.init()
    driver.settle()
    assert driver.reply_to(asked).message is None


def test_other_topics_bound_nothing(driver: CoordinatorDriver):
    held(driver, PAYMENTS_0)

    pass_time(driver, TIMEOUT_MS)

    assert driver.current().state is TransactionState.ONGOING


def test_smallest_limit_counts_from_the_start_also_of_a_topic_that_joins_later(driver: CoordinatorDriver):
    driver.send(HoldLimitsKnown({"orders": LIMIT_MS, "payments": 300}))
    producer = held(driver)
    pass_time(driver, 200)
    driver.add(producer, PAYMENTS_0, version=2)
    driver.settle()

    pass_time(driver, 299)
    assert driver.current().state is TransactionState.ONGOING
    pass_time(driver, 300)

    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert "'payments'" in driver.held_too_long[0].message


def test_each_transaction_has_its_own_time(driver: CoordinatorDriver):
    producer = held(driver)
    pass_time(driver, 500)
    producer = driver.ended(producer, version=2)
    driver.begun(producer, version=2)

    pass_time(driver, 500 + LIMIT_MS - 1)
    assert driver.current().state is TransactionState.ONGOING
    pass_time(driver, 500 + LIMIT_MS)
    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_limit_counts_for_what_is_open_when_it_is_set(driver: CoordinatorDriver):
    driver.send(HoldLimitsKnown({}))
    held(driver)
    pass_time(driver, 5000)

    driver.send(HoldLimitsKnown({"orders": LIMIT_MS}))
    pass_time(driver, 5000)

    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_limit_that_is_taken_back_ends_nothing(driver: CoordinatorDriver):
    held(driver)

    driver.send(HoldLimitsKnown({}))
    pass_time(driver, TIMEOUT_MS)

    assert driver.current().state is TransactionState.ONGOING
    assert driver.coordinator.next_due_ms < NEVER_MS


def test_loaded_transaction_goes_on_with_its_old_time():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.ONGOING, start_ms=0)})
    driver.send(HoldLimitsKnown({"orders": LIMIT_MS}))
    pass_time(driver, LIMIT_MS - 1)
    successor = driver.restarted()
    successor.send(HoldLimitsKnown({"orders": LIMIT_MS}))
    assert successor.current().state is TransactionState.ONGOING

    pass_time(successor, LIMIT_MS)

    assert successor.current().state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT])
def test_decided_transaction_is_left_alone(state: TransactionState):
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(state, start_ms=0)})
    driver.send(HoldLimitsKnown({"orders": LIMIT_MS}))

    driver.tick(LIMIT_MS)

    assert not driver.held_too_long
    assert driver.current().state is state


def test_abort_waits_until_the_log_takes_it(driver: CoordinatorDriver):
    held(driver)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.tick(LIMIT_MS)
    assert driver.current().state is TransactionState.ONGOING
    assert not driver.held_too_long
    driver.refusal = ErrorCode.NONE

    pass_time(driver, LIMIT_MS + driver.config.request_hold_ms)

    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert len(driver.held_too_long) == 1


def test_nothing_is_said_of_an_abort_that_the_log_loses(driver: CoordinatorDriver):
    held(driver)
    driver.tick(LIMIT_MS)
    driver.lose()
    assert not driver.held_too_long
    assert driver.current().state is TransactionState.ONGOING

    pass_time(driver, LIMIT_MS)

    assert len(driver.held_too_long) == 1


def test_description_shows_the_smallest_limit(driver: CoordinatorDriver):
    driver.send(HoldLimitsKnown({"orders": LIMIT_MS, "payments": 300}))
    held(driver, ORDERS_0, PAYMENTS_0)

    asked = driver.request(DescribeTransaction, TRANSACTIONAL_ID)
    assert driver.answer_to(asked).transaction.max_hold_ms == 300
