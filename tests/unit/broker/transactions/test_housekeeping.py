"""What happens because time has passed: timeouts, expiry, and what the log did not take."""

import pytest

from eagleray.broker.identities import NO_EPOCH, ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_1, TIMEOUT_MS, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

WEEK_MS = 7 * 24 * 60 * 60 * 1000


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


@pytest.mark.parametrize("version", [1, 2])
def test_timed_out_transaction_is_aborted_and_its_producer_fenced(driver: CoordinatorDriver, version: int):
    producer = driver.initialized()
    driver.begun(producer, version=version)

    driver.tick(TIMEOUT_MS)
    assert not driver.appends, "not yet"
    driver.tick(1000)
    abort = driver.append().snapshot

    assert abort.state is TransactionState.PREPARE_ABORT
    assert abort.producer_epoch == producer.epoch + 1
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.error_of(driver.add(producer, version=version)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.end(producer, version=version)) is ErrorCode.PRODUCER_FENCED


def test_in_version_1_the_timed_out_producer_cannot_come_back(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=1)
    driver.tick(TIMEOUT_MS + 1)
    driver.settle()

    assert driver.error_of(driver.init(expected=producer)) is ErrorCode.PRODUCER_FENCED


def test_in_version_2_it_can_by_naming_itself(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    driver.tick(TIMEOUT_MS + 1)
    driver.settle()

    assert driver.initialized(expected=producer) == ProducerIdentity(producer.producer_id, producer.epoch + 1)


def test_nothing_times_out_without_a_transaction(driver: CoordinatorDriver):
    driver.initialized()

    driver.tick(TIMEOUT_MS + 1)

    assert not driver.appends


def test_another_partition_does_not_prolong_the_transaction(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.now_ms = TIMEOUT_MS - 1
    driver.add(producer, ORDERS_1)
    driver.settle()

    driver.tick(2)

    assert driver.append().snapshot.state is TransactionState.PREPARE_ABORT


def test_timeouts_are_looked_for_once_in_an_interval():
    interval_ms = 5000
    config = CoordinatorConfig(
        transaction_state_log_num_partitions=1,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=interval_ms,
    )
    driver = CoordinatorDriver(config)
    driver.tick()
    producer = driver.initialized()
    driver.begun(producer)
    driver.now_ms = TIMEOUT_MS
    driver.tick()
    driver.tick(interval_ms - 1)
    assert not driver.appends

    driver.tick(1)

    assert len(driver.appends) == 1


def test_a_loaded_transaction_goes_on_with_its_old_timer():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.ONGOING, start_ms=0)})

    driver.tick(TIMEOUT_MS + 1)

    assert driver.append().snapshot.state is TransactionState.PREPARE_ABORT


# A log that does not take it


def test_a_timeout_waits_until_the_log_takes_the_abort(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.tick(TIMEOUT_MS + 1)
    assert not driver.appends
    assert driver.current() == driver.logged()[TRANSACTIONAL_ID]
    driver.refusal = ErrorCode.NONE

    driver.tick(1000)
    driver.settle()

    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().producer_epoch == producer.epoch + 1


@pytest.mark.parametrize("version", [1, 2])
def test_a_lost_abort_fences_nobody(driver: CoordinatorDriver, version: int):
    producer = driver.initialized()
    driver.begun(producer, version=version)
    driver.tick(TIMEOUT_MS + 1)
    driver.lose()
    assert driver.current() == driver.logged()[TRANSACTIONAL_ID]

    driver.ended(producer, version=version)

    assert driver.current().state is TransactionState.COMPLETE_COMMIT


def test_abort_that_was_lost_does_not_raise_the_epoch_twice(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.tick(TIMEOUT_MS + 1)
    for _ in range(3):
        driver.lose()
        driver.tick(1000)

    driver.settle()

    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().producer_epoch == producer.epoch + 1
    assert driver.initialized().epoch == producer.epoch + 2


def test_a_successor_whose_fence_was_lost_gets_through_when_it_asks_again(driver: CoordinatorDriver):
    zombie = driver.initialized()
    driver.begun(zombie)
    request_id = driver.init()
    driver.lose()
    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    successor = driver.initialized()

    assert successor.epoch == zombie.epoch + 2
    driver.begun(successor)
    driver.ended(successor)
    assert driver.current().state is TransactionState.COMPLETE_COMMIT


def test_a_lost_abort_that_the_producer_asked_for_itself_does_not_fence_it(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.init(expected=producer)
    driver.lose()

    assert driver.initialized(expected=producer).epoch == producer.epoch + 1


def test_a_completion_that_the_log_refuses_is_logged_later(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    markers = driver.write_markers()
    assert not driver.appends, "not in a hot loop"
    driver.report(markers)
    assert not driver.appends, "a late second report changes nothing"
    driver.refusal = ErrorCode.NONE

    driver.tick(driver.config.request_hold_ms)
    driver.settle()

    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.COMPLETE_COMMIT


def test_a_lost_completion_has_the_markers_written_again(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    driver.write_markers()
    driver.lose()
    assert driver.current().state is TransactionState.PREPARE_COMMIT

    driver.settle()

    assert len(driver.written) == 2
    assert driver.logged()[TRANSACTIONAL_ID].state is TransactionState.COMPLETE_COMMIT


def test_who_waits_for_markers_is_told_when_the_log_refuses_what_follows_them(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    waiting = driver.add(producer)
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE

    driver.write_markers()

    assert driver.error_of(waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.refusal = ErrorCode.NONE
    driver.begun(producer)


# Expiry


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_an_id_that_nobody_uses_is_forgotten_by_a_tombstone(state: TransactionState):
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(state)})
    driver.tick(WEEK_MS - 1)
    assert not driver.appends
    driver.now_ms += 60 * 60 * 1000

    driver.tick()
    assert driver.append().snapshot is None

    assert driver.coordinator.find(TRANSACTIONAL_ID) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driver.logged() == {}
    assert driver.error_of(driver.add(ProducerIdentity(7, 5))) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_id_with_a_decided_transaction_is_never_forgotten():
    loaded = {TRANSACTIONAL_ID: snapshot(TransactionState.PREPARE_COMMIT)}
    driver = CoordinatorDriver(loaded=loaded)

    driver.tick(10 * WEEK_MS)

    assert not driver.appends


def test_an_id_in_use_is_not_forgotten(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.now_ms = WEEK_MS - 1
    driver.begun(producer)
    driver.ended(producer)

    driver.tick(60 * 60 * 1000)

    assert not driver.appends


def test_a_producer_that_comes_while_its_id_is_being_forgotten_begins_anew():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.EMPTY)})
    driver.tick(WEEK_MS)
    init, add = driver.init(expected=ProducerIdentity(7, 5)), driver.add(ProducerIdentity(7, 5))
    assert not driver.replies

    driver.settle()

    assert driver.reply_to(init).producer == ProducerIdentity(100, 0)
    assert driver.error_of(add) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.logged()[TRANSACTIONAL_ID] == driver.current()
    assert driver.current().last_producer_epoch == NO_EPOCH


def test_lost_tombstone_leaves_the_id_as_it_was():
    empty = snapshot(TransactionState.EMPTY)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: empty})
    driver.tick(WEEK_MS)

    driver.lose()

    assert driver.current() == empty
    driver.tick(60 * 60 * 1000)
    driver.settle()
    assert driver.logged() == {}


def test_each_tick_looks_through_one_partition_of_the_log():
    driver = CoordinatorDriver(log_partitions=3)
    ids = [f"id-{number}" for number in range(30)]
    for name in ids:
        driver.init(name)
    driver.settle()

    driver.now_ms = 2 * WEEK_MS
    counts = [sum(len(append.records) for append in driver.tick()) for _ in range(4)]

    assert sum(counts) == len(ids)
    assert all(counts[:3])
    assert counts[3] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"transaction_state_log_num_partitions": 0},
        {"transactional_id_expiration_ms": 0},
        {"max_transaction_timeout_ms": -5},
        {"request_hold_ms": -1},
        {"request_hold_limit": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, int]):
    with pytest.raises(ValueError, match=next(iter(fields)).replace("_", ".")):
        CoordinatorConfig(**fields)
