"""InitProducerId that keeps the transaction which is open, so that its producer can end it after a crash (KIP-939)."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TIMEOUT_MS, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

LAST_GIVEN_EPOCH = LAST_EPOCH - 1
BOTH = pytest.mark.parametrize("commit", [False, True])
NO_TIMEOUT_MS = 2**31 - 1


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def driver_with_open(**fields: object) -> CoordinatorDriver:
    ongoing = snapshot(TransactionState.ONGOING, **({"client_version": 2} | fields))
    return CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing})


def ended_by(driver: CoordinatorDriver) -> list[tuple[bool, ProducerIdentity]]:
    return [(markers.commit, markers.producer) for markers in driver.written]


@BOTH
@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_kept_transaction_is_ended_under_the_new_identity(driver: CoordinatorDriver, commit: bool, is_prepared: bool):
    token = driver.initialized()
    driver.begun(token, version=2)
    if is_prepared:
        driver.prepare(token)

    keeper, ongoing = driver.kept()
    assert ongoing == token
    assert keeper == ProducerIdentity(token.producer_id, token.epoch + 1)
    assert driver.current().state is TransactionState.ONGOING

    producer = driver.ended(keeper, commit=commit, version=2)
    assert producer == ProducerIdentity(token.producer_id, keeper.epoch + 1)
    assert ended_by(driver) == [(commit, producer)], "markers are above all that the transaction has written"
    assert driver.written[0].partitions == {ORDERS_0}
    driver.begun(producer, version=2)
    assert driver.current().partitions == {ORDERS_0}


def test_its_former_producer_can_do_nothing_more(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)
    driver.kept()

    refused = [
        driver.add(token, ORDERS_0, version=2),
        driver.add(token, ORDERS_0, verify_only=True),
        driver.end(token, version=2),
        driver.end(token, commit=False, version=2),
        driver.prepare(token),
    ]

    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.PRODUCER_FENCED}
    assert driver.current().is_prepared


def test_the_keeper_may_only_end_it(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0)
    keeper, _ = driver.kept()

    refused = [
        driver.add(keeper, ORDERS_0, version=2),
        driver.add(keeper, ORDERS_1, version=2),
        driver.add(keeper, ORDERS_0, verify_only=True),
        driver.prepare(keeper),
    ]

    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.INVALID_TXN_STATE}


def test_there_may_be_nothing_to_keep(driver: CoordinatorDriver):
    assert driver.kept() == (ProducerIdentity(100, 0), NO_PRODUCER)
    assert driver.kept() == (ProducerIdentity(100, 1), NO_PRODUCER)
    driver.begun(ProducerIdentity(100, 1), version=2)
    driver.ended(ProducerIdentity(100, 1), version=2)
    assert driver.kept() == (ProducerIdentity(100, 3), NO_PRODUCER)


def test_markers_under_way_are_waited_for(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)
    driver.complete(token)
    driver.append()

    request_id = driver.init(keep_prepared=True)

    assert request_id not in driver.replies
    driver.settle()
    assert driver.reply_to(request_id).ongoing == NO_PRODUCER


@BOTH
def test_a_second_crash_finds_it_again(driver: CoordinatorDriver, commit: bool):
    token = driver.prepared(ORDERS_0)
    first, _ = driver.kept()
    driver = driver.restarted()

    second, ongoing = driver.kept()

    assert ongoing == token
    assert second.epoch == first.epoch + 1
    assert driver.error_of(driver.end(first, commit=commit, version=2)) is ErrorCode.PRODUCER_FENCED
    producer = driver.ended(second, commit=commit, version=2)
    assert ended_by(driver) == [(commit, producer)]
    assert driver.error_of(driver.complete(token, commit=commit)) is ErrorCode.NONE
    assert driver.error_of(driver.complete(token, commit=not commit)) is ErrorCode.INVALID_TXN_STATE


def test_a_named_producer_repeats_its_request(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)

    first = driver.kept(expected=token)
    records = len(driver.records)
    assert driver.kept(expected=token) == first
    assert len(driver.records) == records
    keeper = first[0]
    assert driver.kept(expected=keeper) == (ProducerIdentity(keeper.producer_id, keeper.epoch + 1), token)
    fenced = driver.init(expected=token, keep_prepared=True)
    assert driver.error_of(fenced) is ErrorCode.PRODUCER_FENCED


def test_a_request_of_before_that_comes_late_does_not_abort_what_is_kept(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)
    keeper, _ = driver.kept(expected=token)

    assert driver.error_of(driver.init(expected=token)) is ErrorCode.PRODUCER_FENCED
    assert driver.current().is_prepared
    assert driver.kept(expected=token) == (keeper, token)


@BOTH
def test_the_token_completes_what_another_has_kept(driver: CoordinatorDriver, commit: bool):
    token = driver.prepared(ORDERS_0)
    keeper, _ = driver.kept()

    driver.complete(token, commit=commit)
    driver.settle()

    assert ended_by(driver) == [(commit, ProducerIdentity(token.producer_id, keeper.epoch + 1))]
    request_id = driver.end(keeper, commit=commit, version=2)
    assert driver.reply_to(request_id).error_code is ErrorCode.NONE
    producer = driver.reply_to(request_id).producer
    driver.begun(producer, version=2)
    assert driver.error_of(driver.complete(token, commit=commit)) is ErrorCode.NONE


def test_the_keepers_identity_is_no_token(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0)
    keeper, _ = driver.kept()

    assert driver.error_of(driver.complete(keeper, is_unprepared=True)) is ErrorCode.INVALID_TXN_STATE
    assert driver.current().is_prepared


def test_a_producer_that_does_not_keep_it_aborts_it(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)
    keeper, _ = driver.kept()

    producer = driver.initialized()

    assert ended_by(driver) == [(False, ProducerIdentity(token.producer_id, keeper.epoch + 1))]
    assert producer.epoch > keeper.epoch + 1
    assert driver.error_of(driver.complete(token)) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.end(keeper, version=2)) is ErrorCode.PRODUCER_FENCED


def test_a_driver_of_branches_aborts_what_was_kept(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)
    driver.kept()

    driver.owned()

    assert driver.error_of(driver.complete(token)) is ErrorCode.INVALID_TXN_STATE


# Epochs that are used up


@BOTH
def test_a_keeper_gets_another_producer_id_when_the_epochs_are_used_up(commit: bool):
    driver = driver_with_open(producer_epoch=LAST_GIVEN_EPOCH)
    token = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    driver.prepare(token)

    keeper, ongoing = driver.kept()
    assert (keeper, ongoing) == (ProducerIdentity(100, 0), token)
    assert driver.restarted().current() == driver.current()
    again, ongoing = driver.kept()
    assert (again, ongoing) == (ProducerIdentity(100, 1), token)

    request_id = driver.end(again, commit=commit, version=2)
    driver.append()
    while_marked = driver.end(again, commit=commit, version=2)
    assert while_marked not in driver.replies
    recovered = driver.restarted()
    for each in (driver, recovered):
        each.settle()
        assert ended_by(each) == [(commit, ProducerIdentity(7, LAST_EPOCH))]
    assert driver.reply_to(request_id).producer == ProducerIdentity(100, 2)
    assert driver.reply_to(while_marked).producer == ProducerIdentity(100, 2)
    afterwards = recovered.end(again, commit=commit, version=2)
    assert recovered.reply_to(afterwards).producer == ProducerIdentity(100, 2)
    recovered.begun(ProducerIdentity(100, 2), version=2)


@BOTH
@pytest.mark.parametrize("has_moved", [False, True])
def test_a_keeper_in_the_last_epoch_goes_on_under_another_producer_id(commit: bool, has_moved: bool):
    driver = driver_with_open(
        producer_epoch=LAST_GIVEN_EPOCH if has_moved else 5,
        next_producer_id=8 if has_moved else 7,
        next_producer_epoch=LAST_GIVEN_EPOCH,
    )
    keeper = ProducerIdentity(8 if has_moved else 7, LAST_GIVEN_EPOCH)

    producer = driver.ended(keeper, commit=commit, version=2)

    assert producer == ProducerIdentity(100, 0)
    assert ended_by(driver) == [(commit, ProducerIdentity(7, LAST_EPOCH))]
    assert driver.ended(keeper, commit=commit, version=2) == producer, "it repeats its request"
    driver.begun(producer, version=2)


@pytest.mark.parametrize("has_moved", [False, True])
def test_an_abort_of_what_a_keeper_in_the_last_epoch_holds_leaves_nobody_behind(has_moved: bool):
    driver = driver_with_open(
        producer_epoch=LAST_GIVEN_EPOCH if has_moved else 5,
        next_producer_id=8 if has_moved else 7,
        next_producer_epoch=LAST_GIVEN_EPOCH,
    )
    keeper = ProducerIdentity(8 if has_moved else 7, LAST_GIVEN_EPOCH)

    assert driver.initialized() == ProducerIdentity(100, 0)

    assert ended_by(driver) == [(False, ProducerIdentity(7, LAST_EPOCH))]
    assert driver.error_of(driver.end(keeper, version=2)) is not ErrorCode.NONE


def test_a_keeper_waits_for_a_producer_id(driver: CoordinatorDriver):
    ongoing = snapshot(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing}, producer_ids=0)

    request_id = driver.init(keep_prepared=True)

    assert request_id not in driver.replies
    assert driver.asked_for_ids == 1


# Version 1


@BOTH
@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_of_version_1_is_kept_and_ended(commit: bool, version: int):
    driver = driver_with_open(client_version=1)

    keeper, ongoing = driver.kept()
    producer = driver.ended(keeper, commit=commit, version=version)

    assert ongoing == ProducerIdentity(7, 5)
    assert producer == ProducerIdentity(7, 6 if version == 1 else 7)
    assert ended_by(driver) == [(commit, producer)]


def test_a_keeper_of_version_1_under_another_producer_id_ends_it():
    driver = driver_with_open(client_version=1, producer_epoch=LAST_GIVEN_EPOCH)

    keeper, _ = driver.kept(expected=ProducerIdentity(7, LAST_GIVEN_EPOCH))
    assert driver.ended(keeper) == keeper == ProducerIdentity(100, 0)
    assert ended_by(driver) == [(True, ProducerIdentity(7, LAST_EPOCH))]
    old = driver.init(expected=ProducerIdentity(7, LAST_GIVEN_EPOCH))
    assert driver.error_of(old) is ErrorCode.PRODUCER_FENCED, "the keeper has used its identity"


# Timeouts


def test_a_kept_transaction_keeps_its_timeout_and_its_keeper_has_its_own_afterwards():
    driver = driver_with_open(timeout_ms=NO_TIMEOUT_MS)
    keeper, _ = driver.kept(timeout_ms=1000)

    driver.tick(100 * TIMEOUT_MS)
    assert driver.current().state is TransactionState.ONGOING
    producer = driver.ended(keeper, version=2)
    assert driver.current().timeout_ms == 1000

    driver.begun(producer, version=2)
    driver.tick(2000)
    driver.settle()
    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_what_was_never_prepared_times_out_though_it_was_kept():
    driver = driver_with_open()
    keeper, _ = driver.kept(two_phase=True)

    driver.tick(2 * TIMEOUT_MS)
    driver.settle()

    assert ended_by(driver) == [(False, ProducerIdentity(7, keeper.epoch + 1))]
    assert driver.current().timeout_ms == NO_TIMEOUT_MS


# Branches


def test_a_keeper_commits_the_branches_that_were_prepared(driver: CoordinatorDriver):
    owner = driver.owned()
    sealed, abandoned = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    driver.prepare(owner, sealed)
    driver.settle()

    keeper, ongoing = driver.kept()
    assert ongoing == owner
    producer = driver.ended(keeper, version=2)
    assert driver.ended(keeper, version=2) == producer, "it repeats its request"

    [markers] = driver.written
    outcomes = {branch.producer.producer_id: branch.commit for branch in markers.branches}
    assert outcomes == {sealed.producer_id: True, abandoned.producer_id: False}


def test_the_branches_of_a_kept_transaction_take_nothing_more(driver: CoordinatorDriver):
    owner = driver.owned()
    branch = driver.opened(owner, ORDERS_0)
    keeper, _ = driver.kept()

    refused = [driver.add(branch, ORDERS_1, version=2), driver.open_branch(keeper)]

    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.INVALID_TXN_STATE}
