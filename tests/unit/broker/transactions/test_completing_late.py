"""The log need not hear at once that a transaction has all its markers: the next one of its producer says so too."""

import pytest

from eagleray.broker.runtime.coordinator_events import PartitionResigned
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver

DELAY_MS = 1000


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver(
        CoordinatorConfig(transaction_state_log_num_partitions=1, transaction_completion_log_delay_ms=DELAY_MS)
    )


def logged_states(driver: CoordinatorDriver, since: int) -> list[TransactionState]:
    states = []
    for place in range(since, len(driver.records)):
        before, driver.records = driver.records, driver.records[: place + 1]
        states.append(driver.logged()[TRANSACTIONAL_ID].state)
        driver.records = before
    return states


@pytest.mark.parametrize("version", [1, 2])
def test_back_to_back_transactions_take_two_records_each(driver: CoordinatorDriver, version: int):
    producer = driver.initialized()
    since = len(driver.records)

    for _ in range(2):
        driver.begun(producer, version)
        producer = driver.ended(producer, version=version)

    assert logged_states(driver, since) == [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT] * 2
    assert driver.current().state is TransactionState.COMPLETE_COMMIT, "whoever asks is told the truth"


def test_the_next_transaction_begins_as_soon_as_the_markers_are_written(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    waiting = driver.add(producer, ORDERS_1)
    assert not driver.appends

    driver.write_markers()
    (append,) = driver.appends
    [(_, begun)] = append.records
    assert begun.state is TransactionState.ONGOING
    assert begun.partitions == {ORDERS_1}
    driver.settle()

    assert driver.error_of(waiting) is ErrorCode.NONE


def test_the_log_hears_of_the_end_when_nothing_follows(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)

    driver.tick(DELAY_MS - 1)
    assert not driver.appends
    driver.tick(1)
    driver.settle()

    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.COMPLETE_COMMIT
    driver.tick(DELAY_MS)
    assert not driver.appends, "once is enough"


def test_each_end_has_the_whole_delay_also_behind_an_earlier_one(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.tick(DELAY_MS - 1)
    driver.begun(producer)
    driver.ended(producer)

    driver.tick(DELAY_MS - 1)
    assert not driver.appends
    driver.tick(1)
    driver.settle()

    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.COMPLETE_COMMIT


def test_what_has_begun_again_is_not_told_to_the_log_as_ended(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.begun(producer)

    driver.tick(DELAY_MS)

    assert not driver.appends
    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.ONGOING


def test_a_successor_writes_the_markers_again_of_an_end_that_the_log_never_heard_of(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    producer = driver.ended(producer, version=2)
    (written,) = driver.written

    successor = driver.restarted()

    (again,) = successor.markers
    assert (again.producer, again.commit, again.partitions) == (written.producer, written.commit, written.partitions)
    successor.settle()
    assert successor.current() == driver.current()
    successor.begun(producer, version=2)


def test_a_repeated_commit_is_answered_as_the_first_time(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    raised = driver.ended(producer, version=2)

    assert driver.ended(producer, version=2) == raised


def test_a_beginning_that_the_log_refuses_leaves_the_end_to_be_logged(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = driver.add(producer)
    assert driver.error_of(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.tick(DELAY_MS)
    assert not driver.appends
    driver.refusal = ErrorCode.NONE

    driver.tick(DELAY_MS)
    driver.settle()

    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.COMPLETE_COMMIT


def test_after_a_failed_append_the_markers_of_an_end_that_the_log_never_heard_of_are_written_again(
    driver: CoordinatorDriver,
):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    lost = driver.add(producer)
    driver.lose()
    assert driver.error_of(lost) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.current().state is TransactionState.PREPARE_COMMIT

    driver.settle()
    assert driver.written[0].partitions == driver.written[1].partitions
    driver.tick(DELAY_MS)
    driver.settle()

    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.COMPLETE_COMMIT


def test_a_partition_that_is_given_up_takes_its_ends_along(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.send(PartitionResigned(0, driver.coordinator_epoch))

    driver.tick(DELAY_MS)

    assert not driver.appends
