"""What a coordinator says of the numbers of its decisions, by which leaders tell a late marker from another."""

import pytest

from eagleray.broker.runtime.coordinator_events import PartitionResigned
from eagleray.broker.transactions.events import ForgetTransactionalId, LastDecision, Reply
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import TRANSACTIONAL_ID, CoordinatorDriver, snapshot


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def last_decision(driver: CoordinatorDriver, transactional_id: str = TRANSACTIONAL_ID) -> Reply:
    return driver.answer_to(driver.request(LastDecision, transactional_id))


def verified(driver: CoordinatorDriver, producer) -> Reply:
    return driver.answer_to(driver.add(producer, verify_only=True))


def test_a_verification_says_which_decision_was_the_last(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    assert (verified(driver, producer).coordinator_epoch, verified(driver, producer).decision) == (1, 0)
    driver.ended(producer)
    driver.begun(producer)

    reply = verified(driver, producer)

    assert (reply.coordinator_epoch, reply.decision) == (1, driver.written[-1].decision)


def test_the_decision_that_is_under_way_is_above_what_is_told(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()

    reply = last_decision(driver)

    assert (reply.error_code, reply.coordinator_epoch) == (ErrorCode.NONE, 1)
    assert reply.decision == driver.markers[0].decision - 1
    driver.settle()
    assert last_decision(driver).decision == driver.written[-1].decision


def test_it_is_told_at_once_while_a_verification_waits_for_the_markers(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()

    verification = driver.add(producer, verify_only=True)

    assert verification not in driver.replies
    assert last_decision(driver).error_code is ErrorCode.NONE


def test_a_decision_about_another_id_is_no_matter(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    under_way = driver.markers[0].decision

    assert last_decision(driver, "another").decision >= under_way
    assert last_decision(driver).decision < under_way


def test_an_id_that_was_forgotten_has_nothing_under_way(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.request(ForgetTransactionalId, TRANSACTIONAL_ID, producer)
    driver.settle()

    assert last_decision(driver).decision >= driver.written[-1].decision


def test_a_log_that_is_loaded_again_at_the_same_epoch_takes_no_number_back(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.add(producer)

    driver.lose()

    assert last_decision(driver).coordinator_epoch == 1
    assert last_decision(driver).decision >= driver.written[-1].decision


def test_a_coordinator_that_comes_with_markers_under_way_gives_them_numbers_of_its_own():
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: snapshot(TransactionState.PREPARE_COMMIT)})

    (markers,) = driver.markers

    assert (markers.coordinator_epoch, markers.decision) > (1, last_decision(driver).decision)
    driver.settle()
    assert last_decision(driver).decision == markers.decision


def test_where_the_id_is_coordinated_elsewhere_the_leader_is_told(driver: CoordinatorDriver):
    driver.send(PartitionResigned(0, driver.coordinator_epoch))

    assert last_decision(driver).error_code is ErrorCode.NOT_COORDINATOR


def test_the_first_number_is_above_what_a_leader_takes_for_unknown(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)

    assert driver.written[0].decision > 0
