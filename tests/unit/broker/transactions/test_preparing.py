"""PrepareTransaction, and CompleteTransaction by those who hold the token."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, NO_PRODUCER, ProducerIdentity
from eagleray.broker.transactions.config import CoordinatorConfig
from eagleray.broker.transactions.descriptions import DescribeTransaction, ListTransactions
from eagleray.broker.transactions.events import AddPartitions, PrepareTransaction
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TIMEOUT_MS, TRANSACTIONAL_ID, CoordinatorDriver, snapshot

LAST_GIVEN_EPOCH = LAST_EPOCH - 1
BOTH = pytest.mark.parametrize("commit", [False, True])


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def completed_state(*, commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT


# Prepare


def test_a_prepare_is_one_append(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    records, driver.now_ms = len(driver.records), 70

    request_id = driver.prepare(producer, context=b"42")
    assert request_id not in driver.replies, "it is not in the log yet"
    [append] = driver.appends
    assert len(append.records) == 1
    driver.append()

    assert driver.reply_to(request_id).producer == producer
    assert len(driver.records) == records + 1
    assert not driver.appends
    assert not driver.markers
    assert driver.current().state is TransactionState.ONGOING
    assert driver.current().is_prepared
    assert driver.logged()[TRANSACTIONAL_ID] == driver.current()


def test_a_partition_that_joins_and_a_prepare_of_one_turn_are_one_record(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)

    driver.send(
        AddPartitions(800, TRANSACTIONAL_ID, producer, (ORDERS_1,), 2),
        PrepareTransaction(801, TRANSACTIONAL_ID, producer),
    )

    [append] = driver.appends
    assert len(append.records) == 1
    driver.settle()
    assert {driver.error_of(800), driver.error_of(801)} == {ErrorCode.NONE}
    assert driver.logged()[TRANSACTIONAL_ID].partitions == {ORDERS_0, ORDERS_1}
    assert driver.logged()[TRANSACTIONAL_ID].is_prepared


def test_nothing_joins_a_prepared_transaction(driver: CoordinatorDriver):
    producer = driver.prepared(ORDERS_0)

    refused = [
        driver.add(producer, partition, version=2, verify_only=verify_only)
        for partition in (ORDERS_0, ORDERS_1)
        for verify_only in (False, True)
    ]

    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.INVALID_TXN_STATE}
    assert driver.current().partitions == {ORDERS_0}


def test_a_prepare_is_repeated_without_an_append(driver: CoordinatorDriver):
    producer = driver.prepared(ORDERS_0, context=b"42")

    again = driver.prepare(producer, context=b"42")

    assert driver.reply_to(again).error_code is ErrorCode.NONE
    assert driver.reply_to(again).producer == producer
    assert not driver.appends


def test_another_prepare_is_refused(driver: CoordinatorDriver):
    producer = driver.prepared(ORDERS_0, context=b"42")

    assert driver.error_of(driver.prepare(producer, context=b"43")) is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_without_partitions_can_be_prepared_and_completed(driver: CoordinatorDriver):
    producer = driver.prepared()
    assert driver.current().state is TransactionState.ONGOING

    request_id = driver.complete(producer)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.NONE
    assert driver.current().state is TransactionState.COMPLETE_COMMIT
    assert not driver.written, "there is nowhere to write a marker"


def test_a_transaction_of_version_1_cannot_be_prepared(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=1)

    assert driver.error_of(driver.prepare(producer)) is ErrorCode.INVALID_TXN_STATE


def test_a_stranger_cannot_prepare(driver: CoordinatorDriver):
    old = driver.initialized()
    new = driver.initialized()

    assert driver.error_of(driver.prepare(old)) is ErrorCode.PRODUCER_FENCED
    stranger = ProducerIdentity(new.producer_id + 1, 0)
    assert driver.error_of(driver.prepare(stranger)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.prepare(new, transactional_id="unknown")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.prepare(new, transactional_id="")) is ErrorCode.INVALID_REQUEST


def test_a_prepare_waits_for_the_markers_of_the_transaction_before(driver: CoordinatorDriver):
    first = driver.initialized()
    driver.begun(first, version=2)
    driver.end(first, version=2)
    driver.append()
    second = ProducerIdentity(first.producer_id, first.epoch + 1)

    request_id = driver.prepare(second)

    assert request_id not in driver.replies
    driver.settle()
    assert driver.reply_to(request_id).producer == second
    assert driver.current().partitions == frozenset()


def test_a_prepare_that_comes_after_the_end_is_told_so(driver: CoordinatorDriver):
    producer = driver.prepared(ORDERS_0)
    driver.complete(producer)
    driver.settle()

    assert driver.error_of(driver.prepare(producer)) is ErrorCode.INVALID_TXN_STATE


def test_a_context_beyond_the_limit_is_refused():
    driver = CoordinatorDriver(CoordinatorConfig(transaction_state_log_num_partitions=1, max_prepared_context_bytes=3))
    producer = driver.initialized()

    assert driver.error_of(driver.prepare(producer, context=b"1234")) is ErrorCode.INVALID_REQUEST
    driver.prepare(producer, context=b"123")
    driver.settle()
    assert driver.current().is_prepared


def test_a_lost_prepare_is_none(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    request_id = driver.prepare(producer)

    driver.lose()

    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not driver.current().is_prepared


# Timeouts


def test_a_prepared_transaction_has_no_timeout(driver: CoordinatorDriver):
    driver.prepared(ORDERS_0)

    for survivor in (driver, driver.restarted()):
        survivor.tick(100 * TIMEOUT_MS)
        survivor.settle()
        assert survivor.current().is_prepared
        assert not survivor.markers


def test_a_two_phase_producer_has_no_timeout_from_the_beginning(driver: CoordinatorDriver):
    request_id = driver.init(two_phase=True, timeout_ms=2**31 - 1)
    driver.settle()
    driver.begun(driver.reply_to(request_id).producer, version=2)

    for survivor in (driver, driver.restarted()):
        survivor.tick(100 * TIMEOUT_MS)
        survivor.settle()
        assert survivor.current().state is TransactionState.ONGOING


@pytest.mark.parametrize("timeout_ms", [-1, 0, 2**31 - 1])
def test_only_a_two_phase_producer_may_ask_for_no_timeout(driver: CoordinatorDriver, timeout_ms: int):
    assert driver.error_of(driver.init(timeout_ms=timeout_ms)) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_the_coordinator_looks_for_no_timeouts_while_all_that_is_open_is_prepared(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    driver.prepare(producer)
    driver.settle()
    driver.tick(2000)
    due_ms = driver.coordinator.next_due_ms

    assert due_ms >= driver.config.transaction_remove_expired_transaction_cleanup_interval_ms


# Complete


@BOTH
def test_a_holder_of_the_token_completes_a_transaction(driver: CoordinatorDriver, commit: bool):
    producer = driver.prepared(ORDERS_0, ORDERS_1)

    request_id = driver.complete(producer, commit=commit)
    assert request_id not in driver.replies, "the decision is not in the log yet"
    driver.append()
    assert driver.reply_to(request_id).error_code is ErrorCode.NONE
    assert driver.reply_to(request_id).producer == NO_PRODUCER, "a token does not make a producer"
    markers = driver.write_markers()
    driver.settle()

    assert markers.commit is commit
    assert markers.partitions == {ORDERS_0, ORDERS_1}
    assert markers.producer == ProducerIdentity(producer.producer_id, producer.epoch + 1)
    assert driver.current().state is completed_state(commit=commit)


@BOTH
def test_the_outcome_is_told_again_and_never_changed(driver: CoordinatorDriver, commit: bool):
    token = driver.prepared(ORDERS_0)
    driver.complete(token, commit=commit)

    def check(asked: CoordinatorDriver) -> None:
        same, other = asked.complete(token, commit=commit), asked.complete(token, commit=not commit)
        while asked.appends:
            asked.append()
        assert asked.error_of(same) is ErrorCode.NONE
        assert asked.error_of(other) is ErrorCode.INVALID_TXN_STATE

    check(driver)
    check(driver.restarted())
    driver.settle()
    check(driver)
    producer = driver.initialized()
    check(driver)
    driver.begun(producer, version=2)
    check(driver)
    producer = driver.ended(producer, commit=not commit, version=2)
    check(driver)
    check(driver.restarted())
    driver.prepare(producer)
    driver.settle()
    check(driver)


def test_an_outcome_is_forgotten_for_that_of_the_next_prepared_transaction(driver: CoordinatorDriver):
    first = driver.prepared(ORDERS_0)
    driver.complete(first)
    driver.settle()
    second = driver.prepared(ORDERS_0)
    driver.complete(second)
    driver.settle()

    for commit in (False, True):
        assert driver.error_of(driver.complete(first, commit=commit)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.error_of(driver.complete(second)) is ErrorCode.NONE


@BOTH
def test_the_producer_itself_ends_what_it_has_prepared(driver: CoordinatorDriver, commit: bool):
    token = driver.prepared(ORDERS_0)

    producer = driver.ended(token, commit=commit, version=2)

    assert producer.epoch == token.epoch + 1
    assert driver.error_of(driver.complete(token, commit=commit)) is ErrorCode.NONE
    assert driver.error_of(driver.complete(token, commit=not commit)) is ErrorCode.INVALID_TXN_STATE


@BOTH
def test_the_producer_hears_what_another_has_decided(driver: CoordinatorDriver, commit: bool):
    token = driver.prepared(ORDERS_0)
    driver.complete(token, commit=commit)
    driver.settle()

    same, other = driver.end(token, commit=commit, version=2), driver.end(token, commit=not commit, version=2)

    assert driver.reply_to(same).producer == ProducerIdentity(token.producer_id, token.epoch + 1)
    assert driver.error_of(other) in (ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED)


def test_a_request_of_version_1_does_not_end_a_prepared_transaction(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)

    assert driver.error_of(driver.end(token, version=1)) is ErrorCode.INVALID_TXN_STATE
    assert driver.current().is_prepared


def test_a_coordinators_abort_of_a_prepared_transaction_is_remembered(driver: CoordinatorDriver):
    token = driver.prepared(ORDERS_0)

    driver.initialized()

    assert driver.error_of(driver.complete(token)) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.complete(token, commit=False)) is ErrorCode.NONE
    assert [markers.commit for markers in driver.written] == [False]


@BOTH
def test_what_is_not_prepared_is_completed_only_on_demand(driver: CoordinatorDriver, commit: bool):
    producer = driver.initialized()
    driver.begun(producer, version=2)
    assert driver.error_of(driver.complete(producer, commit=commit)) is ErrorCode.INVALID_TXN_STATE

    request_id = driver.complete(producer, commit=commit, is_unprepared=True)
    driver.settle()

    assert driver.error_of(request_id) is ErrorCode.NONE
    assert driver.current().state is completed_state(commit=commit)
    assert driver.error_of(driver.complete(producer, commit=commit)) is ErrorCode.NONE
    assert driver.error_of(driver.complete(producer, commit=not commit)) is ErrorCode.INVALID_TXN_STATE


def test_an_operator_fences_a_producer_of_version_1(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer, version=1)

    driver.complete(producer, is_unprepared=True)
    driver.settle()

    [markers] = driver.written
    assert (markers.commit, markers.producer.epoch) == (True, producer.epoch + 1)
    assert driver.error_of(driver.add(producer)) is ErrorCode.PRODUCER_FENCED
    assert driver.error_of(driver.end(producer)) is ErrorCode.PRODUCER_FENCED


def test_a_token_of_nothing_is_refused(driver: CoordinatorDriver):
    producer = driver.initialized()
    assert driver.error_of(driver.complete(producer)) is ErrorCode.INVALID_TXN_STATE, "it has begun nothing"

    token = driver.prepared(ORDERS_0)
    for other in (ProducerIdentity(token.producer_id, token.epoch - 1), ProducerIdentity(77, 0), NO_PRODUCER):
        for is_unprepared in (False, True):
            request_id = driver.complete(other, is_unprepared=is_unprepared)
            assert driver.error_of(request_id) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    unknown = driver.complete(token, transactional_id="unknown")
    assert driver.error_of(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.current().is_prepared


@BOTH
def test_a_prepared_transaction_in_the_last_epoch_is_completed_and_leaves_nobody_behind(commit: bool):
    ongoing = snapshot(TransactionState.ONGOING, producer_epoch=LAST_GIVEN_EPOCH, client_version=2)
    driver = CoordinatorDriver(loaded={TRANSACTIONAL_ID: ongoing})
    token = ProducerIdentity(7, LAST_GIVEN_EPOCH)
    driver.prepare(token)

    driver.complete(token, commit=commit)
    driver.settle()

    [markers] = driver.written
    assert (markers.commit, markers.producer) == (commit, ProducerIdentity(7, LAST_EPOCH))
    assert driver.error_of(driver.complete(token, commit=commit)) is ErrorCode.NONE
    assert driver.initialized() == ProducerIdentity(100, 0)


@BOTH
def test_recovery_finds_each_step(driver: CoordinatorDriver, commit: bool):
    token = driver.prepared(ORDERS_0, context=b"42")
    prepared = driver.current()
    driver.complete(token, commit=commit)
    driver.append()
    decided = driver.current()
    recovered = driver.restarted()
    assert recovered.current() == decided
    recovered.settle()
    assert recovered.current().state is completed_state(commit=commit)
    assert recovered.error_of(recovered.complete(token, commit=commit)) is ErrorCode.NONE
    driver.settle()

    assert prepared.preparation is not None
    assert prepared.preparation.context == b"42"
    assert driver.current().preparation is not None
    assert driver.current().preparation.context == b"", "what is over needs none"


# Branches


@BOTH
def test_a_token_ends_the_branches_as_they_were_prepared(driver: CoordinatorDriver, commit: bool):
    owner = driver.owned()
    sealed, abandoned = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    prepared = driver.prepare(owner, sealed)
    driver.settle()
    assert driver.reply_to(prepared).producer == owner

    refused = [driver.open_branch(owner), driver.add(sealed, ORDERS_1, version=2), driver.add(owner, version=2)]
    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.INVALID_TXN_STATE}
    shared = driver.begin_branched(is_shared=True, opens_branch=True)
    assert driver.error_of(shared) is ErrorCode.INVALID_TXN_STATE

    recovered = driver.restarted()
    recovered.complete(owner, commit=commit)
    recovered.settle()

    [markers] = recovered.written
    outcomes = {branch.producer.producer_id: branch.commit for branch in markers.branches}
    assert outcomes == {sealed.producer_id: commit, abandoned.producer_id: False}


def test_branches_that_were_not_opened_cannot_be_prepared(driver: CoordinatorDriver):
    owner = driver.owned()
    driver.opened(owner, ORDERS_0)

    assert driver.error_of(driver.prepare(owner, ProducerIdentity(5, 0))) is ErrorCode.INVALID_REQUEST
    assert not driver.current().is_prepared


def test_a_driver_commits_the_branches_that_it_has_prepared_and_no_others(driver: CoordinatorDriver):
    owner = driver.owned()
    first, second = driver.opened(owner, ORDERS_0), driver.opened(owner, ORDERS_1)
    driver.prepare(owner, first)
    driver.settle()

    assert driver.error_of(driver.end_branched(owner, first, second)) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.prepare(owner, second)) is ErrorCode.INVALID_TXN_STATE
    assert driver.error_of(driver.prepare(owner, first)) is ErrorCode.NONE
    committed = driver.end_branched(owner, first)
    driver.settle()
    assert driver.error_of(committed) is ErrorCode.NONE
    assert driver.error_of(driver.complete(owner)) is ErrorCode.NONE


def test_branches_that_are_not_prepared_are_never_committed_by_a_token(driver: CoordinatorDriver):
    owner = driver.owned()
    driver.opened(owner, ORDERS_0)

    assert driver.error_of(driver.complete(owner, is_unprepared=True)) is ErrorCode.INVALID_TXN_STATE
    aborted = driver.complete(owner, commit=False, is_unprepared=True)
    driver.settle()
    assert driver.error_of(aborted) is ErrorCode.NONE


# Queries


def test_a_prepared_transaction_is_shown_as_ongoing_and_since_when(driver: CoordinatorDriver):
    driver.now_ms = 70
    token = driver.prepared(ORDERS_0, context=b"42")

    driver.send(DescribeTransaction(900, TRANSACTIONAL_ID))
    driver.send(ListTransactions(901, states=("Ongoing",)))

    described = driver.replies[900].transaction
    assert (described.state, described.prepared_ms, described.context) == ("Ongoing", 70, b"42")
    assert described.producer == token
    assert driver.replies[901].transactions == (described,)
    driver.complete(token)
    driver.settle()
    driver.send(DescribeTransaction(902, TRANSACTIONAL_ID))
    assert (driver.replies[902].transaction.prepared_ms, driver.replies[902].transaction.context) == (-1, b"")
