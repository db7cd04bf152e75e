"""A producer that is done with its transactional id for good has it forgotten before it expires."""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.events import ForgetTransactionalId
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import TRANSACTIONAL_ID, CoordinatorDriver


@pytest.fixture(params=[0, 1000])
def driver(request):
    """With and without the record of a transaction's end being delayed."""
    return CoordinatorDriver(
        CoordinatorConfig(transaction_state_log_num_partitions=1, transaction_completion_log_delay_ms=request.param)
    )


def forget(driver, producer):
    request_id = driver.next_request_id()
    driver.send(ForgetTransactionalId(request_id, TRANSACTIONAL_ID, producer))
    return request_id


@pytest.mark.parametrize("version", [1, 2])
def test_id_without_anything_open_is_forgotten_for_good(driver, version):
    producer = driver.initialized()
    driver.begun(producer, version=version)
    ended = driver.ended(producer, version=version)
    request_id = forget(driver, ended if version == 2 else producer)
    assert request_id not in driver.replies, "answered when the log has it"
    assert driver.append().snapshot is None
    assert driver.error_of(request_id) is ErrorCode.NONE
    # What was delayed for the log is not told afterwards: it would bring the id back.
    driver.tick(60_000)
    driver.settle()
    assert driver.logged() == {}
    assert driver.restarted().logged() == {}


def test_forgetting_twice_is_forgetting(driver):
    producer = driver.initialized()
    first = forget(driver, producer)
    second = forget(driver, producer)
    driver.settle()
    assert [driver.error_of(each) for each in (first, second)] == [ErrorCode.NONE] * 2


def test_id_of_another_producer_is_left_alone(driver):
    producer = driver.initialized()
    newer = driver.initialized()
    assert driver.error_of(forget(driver, producer)) is ErrorCode.PRODUCER_FENCED
    assert driver.current().producer_epoch == newer.epoch


def test_open_transaction_keeps_its_id(driver):
    producer = driver.initialized()
    driver.begun(producer)
    assert driver.error_of(forget(driver, producer)) is ErrorCode.INVALID_TXN_STATE
    assert not driver.appends


def test_decided_transaction_is_waited_for(driver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()
    request_id = forget(driver, producer)
    assert request_id not in driver.replies
    driver.settle()
    assert driver.error_of(request_id) is ErrorCode.NONE
    assert driver.logged() == {}


def test_id_with_tags_is_kept(driver):
    owner = driver.owned()
    driver.end_branched(owner)
    driver.settle()
    holder = ProducerIdentity(driver.current().producer_id, driver.current().producer_epoch)
    assert driver.error_of(forget(driver, holder)) is ErrorCode.INVALID_TXN_STATE


def test_lost_append_leaves_the_id(driver):
    producer = driver.initialized()
    request_id = forget(driver, producer)
    driver.lose()
    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.current().producer_epoch == producer.epoch


def test_forgotten_id_begins_anew(driver):
    producer = driver.initialized()
    forget(driver, producer)
    driver.settle()
    again = driver.initialized()
    assert again.producer_id != producer.producer_id
    assert driver.error_of(driver.add(producer)) in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
