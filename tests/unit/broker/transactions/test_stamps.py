"""The times in the transaction log, and the clock by which a coordinator counts, which is never set."""

import pytest
from msgspec.structs import replace

from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded, PartitionResigned, TimeSet
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.descriptions import DescribeTransaction, ListTransactions
from eagleray.broker.transactions.preparation import Preparation
from eagleray.broker.transactions.snapshot import NO_TIME_MS
from eagleray.broker.transactions.stamps import TOO_LONG_AGO_MS, as_loaded, for_log
from eagleray.broker.transactions.states import TransactionState
from tests.support.coordinators import ORDERS_0, RESOLVER, TIMEOUT_MS, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

WEEK_MS = 7 * 24 * 60 * 60 * 1000
ONGOING = TransactionState.ONGOING
SETS = pytest.mark.parametrize("by_ms", [WEEK_MS, -WEEK_MS])


@pytest.fixture
def driver() -> CoordinatorDriver:
    driver = CoordinatorDriver()
    driver.now_ms = 10 * WEEK_MS
    return driver


def state_of(driver: CoordinatorDriver) -> TransactionState:
    driver.settle()
    return driver.current().state


def lead_again(driver: CoordinatorDriver) -> None:
    """Let the coordinator lose its partition, and lead it again from its log."""
    state = driver.load()
    driver.send(PartitionResigned(0, 1))
    driver.send(PartitionAssigned(0, 2))
    driver.send(PartitionLoaded(0, 2, state))


# While a coordinator runs


@SETS
def test_transaction_times_out_after_its_timeout_although_the_time_of_day_is_set(driver: CoordinatorDriver, by_ms: int):
    driver.begun(driver.initialized(), version=2)
    driver.tick(TIMEOUT_MS // 2)
    driver.send(TimeSet(by_ms))
    driver.tick(TIMEOUT_MS // 2)
    assert state_of(driver) is ONGOING
    driver.tick(1000)
    assert state_of(driver) is TransactionState.COMPLETE_ABORT


@SETS
def test_log_has_the_time_of_day(driver: CoordinatorDriver, by_ms: int):
    driver.send(TimeSet(by_ms))
    driver.begun(driver.initialized(), version=2)
    assert driver.current().start_ms == driver.now_ms
    logged = driver.logged()[TRANSACTIONAL_ID]
    assert (logged.start_ms, logged.updated_ms) == (driver.now_ms + by_ms, driver.now_ms + by_ms)


@SETS
def test_those_who_ask_are_told_the_time_of_day(driver: CoordinatorDriver, by_ms: int):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    driver.send(TimeSet(by_ms))
    driver.now_ms += 100
    [described] = driver.coordinator.handle(DescribeTransaction(9, TRANSACTIONAL_ID), driver.now_ms)
    found = described.transaction
    began_ms = driver.now_ms - 100 + by_ms
    assert (found.start_ms, found.prepared_ms) == (began_ms, began_ms)
    assert found.next_question_ms == began_ms + RESOLVER.first_after_ms
    [listed] = driver.coordinator.handle(ListTransactions(9, older_than_ms=99), driver.now_ms)
    assert len(listed.transactions) == 1
    [listed] = driver.coordinator.handle(ListTransactions(9, older_than_ms=100), driver.now_ms)
    assert not listed.transactions


@SETS
def test_resolver_is_asked_at_its_time_although_the_time_of_day_is_set(driver: CoordinatorDriver, by_ms: int):
    driver.prepared(ORDERS_0, resolver=RESOLVER)
    prepared_ms = driver.now_ms
    driver.send(TimeSet(by_ms))
    driver.tick(RESOLVER.first_after_ms - 1)
    driver.settle()
    assert not driver.questions
    driver.tick(1)
    driver.settle()
    [question] = driver.questions
    assert question.prepared_ms == prepared_ms + by_ms


def test_transactional_id_that_is_not_used_stays_while_the_clock_is_in_doubt(driver: CoordinatorDriver):
    driver.initialized()
    driver.now_ms += 2 * WEEK_MS
    driver.send(Tick(may_expire=False))
    assert not driver.appends
    assert driver.coordinator.next_due_ms > driver.now_ms, "it must not be looked for all the time"
    driver.now_ms += WEEK_MS
    driver.send(Tick())
    assert driver.append().snapshot is None


# When a partition is loaded


@SETS
def test_time_that_is_left_goes_on_with_the_next_coordinator(driver: CoordinatorDriver, by_ms: int):
    driver.send(TimeSet(by_ms))
    driver.begun(driver.initialized(), version=2)
    driver.tick(TIMEOUT_MS - 1000)
    lead_again(driver)
    driver.tick(1000)
    assert state_of(driver) is ONGOING
    driver.tick(1000)
    assert state_of(driver) is TransactionState.COMPLETE_ABORT


def test_transaction_from_the_future_has_its_timeout_from_now_on(driver: CoordinatorDriver):
    driver.begun(driver.initialized(), version=2)
    driver.now_ms -= WEEK_MS
    lead_again(driver)
    assert driver.current().start_ms == driver.now_ms
    driver.tick(TIMEOUT_MS + 1000)
    assert state_of(driver) is TransactionState.COMPLETE_ABORT


def test_clock_that_is_a_week_ahead_ends_no_transaction_that_it_loads(driver: CoordinatorDriver):
    driver.begun(driver.initialized(), version=2)
    driver.now_ms += WEEK_MS
    lead_again(driver)
    driver.tick(TIMEOUT_MS)
    assert state_of(driver) is ONGOING
    driver.tick(1000)
    assert state_of(driver) is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize(
    ("age_ms", "counts_ms"),
    [
        (-WEEK_MS, 0),
        (-1, 0),
        (0, 0),
        (TIMEOUT_MS - 1, TIMEOUT_MS - 1),
        (TIMEOUT_MS + TOO_LONG_AGO_MS, TIMEOUT_MS + TOO_LONG_AGO_MS),
        (TIMEOUT_MS + TOO_LONG_AGO_MS + 1, 0),
        (WEEK_MS, 0),
    ],
)
def test_age_of_a_loaded_transaction_is_never_negative_and_not_beyond_belief(age_ms: int, counts_ms: int):
    now_ms = 5 * WEEK_MS
    for set_by_ms in (0, WEEK_MS, -WEEK_MS):
        logged = snapshot(ONGOING, start_ms=now_ms + set_by_ms - age_ms, updated_ms=now_ms + set_by_ms)
        assert now_ms - as_loaded(logged, set_by_ms, now_ms).start_ms == counts_ms


def test_what_does_not_time_out_keeps_its_times():
    logged = snapshot(TransactionState.COMPLETE_COMMIT, start_ms=1000, updated_ms=2000)
    assert as_loaded(logged, 0, 10 * WEEK_MS) is logged


@SETS
def test_times_that_there_are_none_of_are_not_moved(by_ms: int):
    before = snapshot(TransactionState.EMPTY, updated_ms=3 * WEEK_MS, preparation=Preparation())
    moved = for_log(before, by_ms)
    assert moved == replace(before, updated_ms=3 * WEEK_MS + by_ms)
    assert moved.start_ms == NO_TIME_MS
    assert as_loaded(moved, by_ms, 10 * WEEK_MS) == before


def test_snapshot_is_not_copied_where_the_time_of_day_was_not_set():
    before = snapshot(ONGOING, start_ms=5, updated_ms=6)
    assert for_log(before, 0) is before
    assert as_loaded(before, 0, 10) is before
