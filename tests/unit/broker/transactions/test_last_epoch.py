"""The last epoch fences a producer for good: no request makes it that of one."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

PRODUCER_ID = 77
LAST = ProducerIdentity(PRODUCER_ID, LAST_EPOCH)


@pytest.fixture(params=[TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.COMPLETE_ABORT])
def driver(request) -> CoordinatorDriver:
    """A transactional id whose epochs are used up, as an abort by the coordinator leaves it."""
    partitions = frozenset({ORDERS_0}) if request.param is TransactionState.ONGOING else frozenset()
    current = snapshot(
        request.param, producer_id=PRODUCER_ID, producer_epoch=LAST_EPOCH, partitions=partitions, client_version=2
    )
    return CoordinatorDriver(loaded={TRANSACTIONAL_ID: current})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_end_with_it_is_refused(driver, version, commit):
    request = driver.end(LAST, commit=commit, version=version)
    driver.settle()
    assert driver.error_of(request) is ErrorCode.PRODUCER_FENCED


def test_partitions_cannot_be_added_with_it(driver):
    request = driver.add(LAST, ORDERS_0, version=2)
    driver.settle()
    assert driver.error_of(request) is ErrorCode.PRODUCER_FENCED


def test_identity_that_is_asked_for_with_it_is_refused_and_without_it_is_new(driver):
    request = driver.init(expected=LAST)
    driver.settle()
    assert driver.error_of(request) is ErrorCode.PRODUCER_FENCED
    producer = driver.initialized()
    assert producer.producer_id not in (PRODUCER_ID, NO_PRODUCER_ID)
    assert producer.epoch == 0
