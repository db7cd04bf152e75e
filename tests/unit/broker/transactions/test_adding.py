"""AddPartitionsToTxn and AddOffsetsToTxn, and what leaders verify."""

import pytest

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import LogConfig
from eagleray.broker.transactions.events import AddPartitions, EndTransaction
from eagleray.broker.transactions.log_records import encode_value
from eagleray.broker.transactions.states import TransactionState
from eagleray.protocol.errors import ErrorCode
from tests.support.coordinators import ORDERS_0, ORDERS_1, TIMEOUT_MS, TRANSACTIONAL_ID, CoordinatorDriver

HOLD = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def driver() -> CoordinatorDriver:
    return CoordinatorDriver()


def test_the_timer_starts_with_the_first_partition(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.now_ms = 1000
    driver.begun(producer)
    driver.now_ms = 2000

    driver.add(producer, ORDERS_1)
    driver.settle()

    assert driver.current().state is TransactionState.ONGOING
    assert driver.current().start_ms == 1000
    assert driver.current().updated_ms == 2000
    assert driver.current().partitions == {ORDERS_0, ORDERS_1}


def test_the_next_transaction_begins_without_the_partitions_and_the_timer_of_the_last(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)
    driver.now_ms = 5000

    driver.add(producer, ORDERS_1)
    driver.settle()

    assert driver.current().partitions == {ORDERS_1}
    assert driver.current().start_ms == 5000


@pytest.mark.parametrize("version", [1, 2])
def test_clock_that_is_set_back_stops_neither_a_transaction_nor_its_timeout(driver: CoordinatorDriver, version: int):
    """KAFKA-8803: there the transaction does not begin, and never expires."""
    driver.now_ms = 1_000_000
    producer = driver.initialized()
    driver.begun(producer, version=version)
    producer = driver.ended(producer, version=version)
    driver.now_ms = 500_000

    request_id = driver.add(producer, ORDERS_0, version=version)
    driver.append()
    assert driver.error_of(request_id) is ErrorCode.NONE
    assert driver.current().start_ms == 500_000
    driver.tick(500_000 + TIMEOUT_MS + 1)
    driver.settle()

    assert driver.current().state is TransactionState.COMPLETE_ABORT


def test_a_partition_that_is_in_already_needs_no_record(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.add(producer, ORDERS_0, ORDERS_1)
    driver.settle()

    request_id = driver.add(producer, ORDERS_1)

    assert driver.error_of(request_id) is ErrorCode.NONE
    assert not driver.appends


def test_to_add_nothing_begins_nothing(driver: CoordinatorDriver):
    producer = driver.initialized()

    driver.send(AddPartitions(99, TRANSACTIONAL_ID, producer, ()))

    assert driver.error_of(99) is ErrorCode.NONE
    assert not driver.appends


def test_an_empty_transactional_id_is_refused(driver: CoordinatorDriver):
    request_id = driver.add(ProducerIdentity(1, 1), transactional_id="")

    assert driver.error_of(request_id) is ErrorCode.INVALID_REQUEST


def test_a_loss_leaves_the_transaction_as_it_was(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    before = driver.current()
    request_id = driver.add(producer, ORDERS_1)

    driver.lose()

    assert driver.error_of(request_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.current() == before == driver.logged()[TRANSACTIONAL_ID]


def test_the_next_transaction_waits_for_the_markers_of_the_last(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.end(producer)
    driver.append()

    request_id = driver.add(producer, ORDERS_1)
    assert request_id not in driver.replies
    driver.write_markers()

    assert request_id not in driver.replies, "the log has to have it first"
    driver.append()
    assert driver.error_of(request_id) is ErrorCode.NONE
    assert driver.current().partitions == {ORDERS_1}


# Verification


def test_leaders_learn_of_each_partition_by_itself(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)

    request_id = driver.add(producer, ORDERS_1, ORDERS_0, verify_only=True)

    reply = driver.reply_to(request_id)
    assert reply.error_code is ErrorCode.NONE
    assert reply.partition_errors == (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE)
    assert not driver.appends, "to look adds nothing"


def test_verification_waits_for_all_that_was_appended_before_it(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.add(producer, ORDERS_1)

    known, added = driver.add(producer, verify_only=True), driver.add(producer, ORDERS_1, verify_only=True)

    assert {known, added}.isdisjoint(driver.replies)
    driver.append()
    assert driver.reply_to(known).partition_errors == (ErrorCode.NONE,)
    assert driver.reply_to(added).partition_errors == (ErrorCode.NONE,)


def test_what_is_asked_in_one_turn_builds_on_what_was_asked_before(driver: CoordinatorDriver):
    producer = driver.initialized()

    driver.send(
        AddPartitions(91, TRANSACTIONAL_ID, producer, (ORDERS_0,)),
        AddPartitions(92, TRANSACTIONAL_ID, producer, (ORDERS_1,)),
        EndTransaction(93, TRANSACTIONAL_ID, producer, commit=True),
    )

    [append] = driver.appends
    [(_, begun), (_, decided)] = append.records
    assert begun.state is TransactionState.ONGOING
    assert begun.partitions == {ORDERS_0, ORDERS_1}, "what joins takes the place of what was there before"
    assert decided.state is TransactionState.PREPARE_COMMIT
    assert not driver.markers
    driver.append()
    assert [driver.error_of(request_id) for request_id in (91, 92, 93)] == [ErrorCode.NONE] * 3
    assert len(driver.markers) == 1


def test_a_log_that_refuses_changes_nothing(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    before = driver.current()
    driver.refusal = ErrorCode.NOT_COORDINATOR

    refused = [driver.add(producer, ORDERS_1), driver.end(producer), driver.init(), driver.init("unheard-of")]

    assert {driver.error_of(request_id) for request_id in refused} == {ErrorCode.NOT_COORDINATOR}
    assert driver.error_of(driver.add(producer)) is ErrorCode.NONE, "it is in already, and needs no record"
    assert not driver.appends
    assert driver.current() == before
    assert [transaction.transactional_id for transaction in driver.coordinator] == [TRANSACTIONAL_ID]
    driver.refusal = ErrorCode.NONE
    driver.ended(producer)


def test_after_the_end_nothing_verifies(driver: CoordinatorDriver):
    producer = driver.initialized()
    driver.begun(producer)
    driver.ended(producer)

    reply = driver.reply_to(driver.add(producer, verify_only=True))

    assert reply.partition_errors == (ErrorCode.TRANSACTION_ABORTABLE,)


@pytest.mark.parametrize(
    ("partition", "code"),
    [
        (TopicPartition("__transaction_state", 0), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (TopicPartition("__cluster_metadata", 0), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (TopicPartition("orders", -1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("o" * 250, 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [1, 2])
def test_partition_that_takes_no_marker_cannot_join_a_transaction(driver, partition, code, version):
    producer = driver.initialized()
    driver.begun(producer)

    request = driver.add(producer, ORDERS_1, partition, version=version)
    driver.settle()

    assert driver.error_of(request) is code
    assert driver.current().partitions == {ORDERS_0}
    driver.ended(producer)


def test_more_partitions_than_a_record_has_room_for_are_refused(driver: CoordinatorDriver):
    producer = driver.initialized()
    many = tuple(TopicPartition(f"{number:0249}", 0) for number in range(3_400))
    fits = driver.add(producer, *many)
    driver.settle()
    assert driver.error_of(fits) is ErrorCode.NONE

    too_many = driver.add(producer, *(TopicPartition(f"x{number:0248}", 0) for number in range(200)))
    driver.settle()

    assert driver.error_of(too_many) is ErrorCode.MESSAGE_TOO_LARGE
    assert driver.current().partitions == set(many)
    assert len(encode_value(driver.current())) < LogConfig().max_message_bytes - 1024
    driver.ended(producer)
