"""EndTxn: decisions, repeats, and the two versions of the protocol side by side."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

LAST_GIVEN_EPOCH = LAST_EPOCH - 1


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_from_begin_to_end(driver: CoordinatorDriver, version: int, commit: bool):
    producer = driver.initialized()
    driver.add(producer, ORDERS_0, ORDERS_1, version=version)
    driver.append()

    request_id = driver.end(producer, commit=commit, version=version)
    assert request_id not in driver.replies, "the decision is not in the log yet"
    prepared = driver.append().snapshot

    epoch = producer.epoch + (1 if version == 2 else 0)
    assert prepared.state is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT)
    assert driver.reply_to(request_id).error_code is ErrorCode.NONE
    assert driver.reply_to(request_id).producer == ProducerIdentity(producer.producer_id, epoch)
    markers = driver.write_markers()
    assert markers.commit is commit
    assert markers.partitions == {ORDERS_0, ORDERS_1}
    assert markers.producer == ProducerIdentity(producer.producer_id, epoch)
    assert markers.transaction_version == version
    completed = driver.append().snapshot
    assert completed.state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert completed.partitions == frozenset()
    assert not driver.appends
    assert not driver.markers


def test_a_lost_decision_is_none(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    request_id = driver.end(producer)

    driver.lose()

    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.current().state is TransactionState.ONGOING
    assert not driver.markers
    driver.ended(producer, commit=False)
    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_an_empty_transactional_id_is_refused(driver: CoordinatorDriver):
    assert driver.error_of(driver.end(ProducerIdentity(1, 1), transactional_id="")) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [1, 2])
def test_a_repeat_that_meets_its_own_first_try_gets_the_same_answer(driver: CoordinatorDriver, version: int):
    producer = driver.initialized()
    driver.begun(producer, version=version)
    first = driver.end(producer, version=version)

    while_logged = driver.end(producer, version=version)
    driver.append()
    while_marked = driver.end(producer, version=version)
    assert {while_logged, while_marked}.isdisjoint(driver.replies)
    driver.settle()
    afterwards = driver.end(producer, version=version)

    replies = [driver.reply_to(request_id) for request_id in (first, while_logged, while_marked, afterwards)]
    assert {reply.error_code for reply in replies} == {ErrorCode.NONE}
    assert len({reply.producer for reply in replies}) == 1
    assert len(driver.records) == 4, "init, add, prepare, complete: decided once"


# Version 2


def test_every_transaction_has_an_epoch_of_its_own(driver: CoordinatorDriver):
    producer = driver.initialized()
    for epoch in range(3):
        assert producer.epoch == epoch
        driver.begun(producer, version=2)
        producer = driver.ended(producer, version=2)


def test_next_transaction_may_be_aborted_before_the_last_one_is_complete(driver: CoordinatorDriver):
    first = driver.initialized()
    driver.begun(first, version=2)
    driver.end(first, version=2)
    driver.append()
    second = ProducerIdentity(first.producer_id, first.epoch + 1)

    request_id = driver.end(second, commit=False, version=2)

    assert request_id not in driver.replies
    driver.settle()
    assert driver.reply_to(request_id).producer.epoch == second.epoch + 1


def test_an_abort_of_nothing_needs_no_markers(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.now_ms = 500

    request_id = driver.end(producer, commit=False, version=2)
    driver.append()
    assert driver.reply_to(request_id).producer.epoch == producer.epoch + 1

    assert not driver.appends
    assert not driver.markers
    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.current().start_ms == 500


@pytest.mark.parametrize("commit", [False, True])
def test_a_late_repeat_does_not_touch_the_next_transaction(driver: CoordinatorDriver, commit: bool):
    first = driver.initialized()
    driver.begun(first, version=2)
    second = driver.ended(first, version=2)
    driver.begun(second, version=2)

    assert driver.error_of(driver.end(first, commit=commit, version=2)) is ErrorCode.PRODUCER_FENCED
    assert driver.current().state is TransactionState.ONGOING


def test_next_transaction_has_another_producer_id_when_the_epochs_are_used_up():
    ongoing = snapshot(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing})
    old, new = ProducerIdentity(7, LAST_GIVEN_EPOCH), ProducerIdentity(100, 0)

    request_id = driver.end(old, version=2)
    prepared = driver.append().snapshot

    assert (prepared.producer_id, prepared.producer_epoch) == (7, LAST_EPOCH)
    assert (prepared.next_producer_id, prepared.next_producer_epoch) == (100, 0)
    assert driver.markers[0].producer == ProducerIdentity(7, LAST_EPOCH)
    assert driver.reply_to(request_id).producer == new
    early_add, early_repeat = driver.add(new, version=2), driver.end(old, version=2)
    zombies = [driver.add(old, version=2), driver.add(ProducerIdentity(7, LAST_EPOCH), version=2)]
    assert {driver.error_of(zombie) for zombie in zombies} == {ErrorCode.PRODUCER_FENCED}
    assert {early_add, early_repeat}.isdisjoint(driver.replies), "both wait for the markers"
    driver.write_markers()
    driver.append()
    assert driver.current().next_producer_id == NO_PRODUCER_ID
    driver.settle()
    assert driver.error_of(early_add) is ErrorCode.NONE
    assert driver.current().producer_id == 100


def test_the_last_end_of_a_producer_id_may_be_repeated_with_the_old_pair():
    ongoing = snapshot(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing})
    old = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    new = driver.ended(old, version=2)

    assert driver.reply_to(driver.end(old, version=2)).producer == new
    assert driver.error_of(driver.end(old, version=2, commit=False)) is ErrorCode.INVALID_TXN_STATE
    driver.begun(new, version=2)
    assert driver.error_of(driver.end(old, version=2)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# A client that changes its version


def test_from_version_1_to_2_and_back(driver: CoordinatorDriver):
    producer = driver.initialized()
    for version, raised in ((1, 0), (2, 1), (1, 0), (1, 0), (2, 1), (2, 1)):
        driver.begun(producer, version=version)
        after = driver.ended(producer, version=version)
        assert after.epoch == producer.epoch + raised
        assert driver.current().client_version == version
        producer = after


def test_the_request_says_by_which_version_a_transaction_ends(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=1)

    assert driver.ended(producer, version=2).epoch == producer.epoch + 1


def test_an_old_epoch_of_version_2_means_nothing_once_version_1_has_begun(driver: CoordinatorDriver):
    first = driver.initialized()
    driver.begun(first, version=2)
    second = driver.ended(first, version=2)
    driver.begun(second, version=1)
    driver.ended(second, version=1)

    assert driver.error_of(driver.end(first, version=2)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.end(second, version=1)) is ErrorCode.NONE


# An abort of the coordinator's own that races the client


@pytest.mark.parametrize("version", [1, 2])
def test_commit_that_meets_the_coordinators_abort_is_fenced(version: int, driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=version)
    driver.tick(10**6)

    before_logged = driver.end(producer, version=version)
    driver.append()
    before_marked = driver.end(producer, version=version)
    driver.settle()
    afterwards = driver.end(producer, version=version)

    errors = [driver.error_of(request_id) for request_id in (before_logged, before_marked, afterwards)]
    assert errors == [ErrorCode.PRODUCER_FENCED] * 3
    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_in_version_2_an_abort_that_meets_the_coordinators_abort_has_what_it_wanted(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    driver.tick(10**6)

    request_id = driver.end(producer, commit=False, version=2)
    driver.settle()

    assert driver.reply_to(request_id).producer == ProducerIdentity(producer.producer_id, producer.epoch + 1)


@pytest.mark.parametrize("late", ["before it is logged", "before its markers", "afterwards"])
def test_late_abort_in_the_last_epoch_does_not_stop_the_coordinators_abort(late: str):
    """KAFKA-20090: there the transaction stays open, and the epoch passes its limit."""
    ongoing = snapshot(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing})
    driver.tick(10**6)
    if late == "before its markers":
        driver.append()
    elif late == "afterwards":
        driver.settle()

    request_id = driver.end(ProducerIdentity(7, LAST_GIVEN_EPOCH), commit=False, version=2)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.PRODUCER_FENCED
    assert driver.current().state is TransactionState.COMPLETE_ABORT
    assert driver.initialized() == ProducerIdentity(100, 0)


def test_a_commit_that_came_first_is_not_undone_by_a_timeout(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)

    driver.tick(10**6)

    assert len(driver.appends) == 1
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_COMMIT
