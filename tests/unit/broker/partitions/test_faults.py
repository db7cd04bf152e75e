"""What a leader answers when the disk under one of its logs fails."""

import contextlib

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Flush, Isolation, LogConfig
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.events import (
    LATEST_TIMESTAMP,
    DeleteRecords,
    DescribePartition,
    Fetched,
    ListOffset,
    MarkersAnswered,
    Produced,
    RecordsDeleted,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.replication.events import PartitionFailed
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, offsets_of
from tests.support.faults import Fault, Operation, Outcome
from tests.support.leading import (
    LEADER_EPOCH,
    ORDERS,
    PAYMENTS,
    PRODUCER,
    alone,
    fetch,
    in_transaction,
    lead,
    markers,
    open_log,
    open_transaction,
    plain,
    verified,
)
from tests.support.simulated_disk import SimulatedDisk

ORDERS_FILE = f"/{ORDERS}/00000000000000000000.log"


@pytest.fixture
def disk():
    return SimulatedDisk()


@pytest.fixture
def leaders(disk):
    return lead(disk)


def fails(operation, **when):
    return Fault(Outcome.FAIL, on=operation, path_ending=ORDERS_FILE, **when)


@contextlib.contextmanager
def breaking_log(disk):
    """Let a write to the log of `ORDERS` fail such that it cannot be undone either, which takes the log offline."""
    torn = fails(Operation.WRITE, done_bytes=1)
    with disk.injected(torn), disk.injected(fails(Operation.TRUNCATE, is_lasting=True)):
        yield


def codes(effects):
    """Return the error code of each answer by its request id, leaving out fetches and failures."""
    return {effect.request_id: effect.error_code for effect in effects if isinstance(effect, Produced)}


def failures(effects):
    return [effect.partition for effect in effects if isinstance(effect, PartitionFailed)]


# A log that serves on


def test_a_write_that_fails_is_answered_for_its_own_partition_alone(disk, leaders):
    with disk.injected(fails(Operation.WRITE)):
        effects = leaders.handle([plain(1), plain(2, PAYMENTS), plain(3)], NOW_MS, NOW_MS)
    assert codes(effects) == {
        1: ErrorCode.KAFKA_STORAGE_ERROR,
        2: ErrorCode.NONE,
        3: ErrorCode.KAFKA_STORAGE_ERROR,
    }
    assert failures(effects) == []


def test_after_a_write_that_failed_the_same_batch_is_taken_once(disk, leaders):
    with disk.injected(fails(Operation.WRITE, done_bytes=20)):
        leaders.handle([plain(1, producer_id=7)], NOW_MS, NOW_MS)
    (answer,) = leaders.handle([plain(2, producer_id=7)], NOW_MS, NOW_MS)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


def test_without_acks_a_write_that_fails_is_not_answered(disk, leaders):
    with disk.injected(fails(Operation.WRITE)):
        assert leaders.handle([plain(1, acks=0)], NOW_MS, NOW_MS) == []


def test_a_confirmed_batch_whose_write_fails_is_verified_again(disk, leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    with disk.injected(fails(Operation.WRITE)):
        effects = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert codes(effects) == {1: ErrorCode.KAFKA_STORAGE_ERROR}
    (again,) = leaders.handle([in_transaction(2)], NOW_MS, NOW_MS)
    assert isinstance(again, VerifyTransaction)


def test_markers_that_could_not_be_written_are_told_from_those_that_were(disk, leaders):
    marker = Marker(PRODUCER, True, 0, 1, (ORDERS, PAYMENTS))
    other = Marker(ProducerIdentity(8, 0), True, 0, 1, (ORDERS,))
    with disk.injected(fails(Operation.WRITE)):
        (answer,) = leaders.handle([WriteMarkers(1, (marker, other))], NOW_MS, NOW_MS)
    assert answer.error_codes == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    (answer,) = leaders.handle([WriteMarkers(2, (marker, other))], NOW_MS, NOW_MS)
    assert answer == MarkersAnswered(2)


def test_a_batch_waits_on_for_its_coordinator_where_the_marker_was_not_written(disk, leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    with disk.injected(fails(Operation.WRITE)):
        assert [type(effect) for effect in leaders.handle([markers(2, ORDERS)], NOW_MS, NOW_MS)] == [MarkersAnswered]
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code) == (1, ErrorCode.NONE)


def test_a_read_that_fails_is_answered_for_its_own_partition_alone(disk, leaders):
    leaders.handle([plain(1), plain(2, PAYMENTS)], NOW_MS, NOW_MS)
    with disk.injected(fails(Operation.READ)):
        (fetched,) = leaders.handle([fetch(3, partitions=(ORDERS, PAYMENTS))], NOW_MS, NOW_MS)
    orders, payments = fetched.partitions
    assert (orders.error_code, orders.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert (payments.error_code, offsets_of(payments.records)) == (ErrorCode.NONE, [0])
    (fetched,) = leaders.handle([fetch(4)], NOW_MS, NOW_MS)
    assert offsets_of(fetched.partitions[0].records) == [0]


def test_a_search_that_fails_is_answered_and_the_log_serves_on(disk, leaders):
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    with disk.injected(fails(Operation.READ)):
        (listed,) = leaders.handle([ListOffset(2, ORDERS, NOW_MS)], NOW_MS, NOW_MS)
    assert listed.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    (listed,) = leaders.handle([ListOffset(3, ORDERS, NOW_MS)], NOW_MS, NOW_MS)
    assert listed.offset == 0


def test_a_batch_that_the_disk_has_damaged_is_an_error_and_no_end_of_the_log(disk, leaders):
    leaders.handle([plain(1), plain(2)], NOW_MS, NOW_MS)
    disk.rot(ORDERS_FILE, 8, 0x7F)
    (fetched,) = leaders.handle([fetch(3)], NOW_MS, NOW_MS)
    assert fetched.partitions[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_records_that_could_not_be_deleted_are_all_there(disk, leaders):
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.CREATE)):
        (answer,) = leaders.handle([DeleteRecords(2, ORDERS, 1)], NOW_MS, NOW_MS)
    assert answer == RecordsDeleted(2, ErrorCode.KAFKA_STORAGE_ERROR)
    (described,) = leaders.handle([DescribePartition(3, ORDERS)], NOW_MS, NOW_MS)
    assert described.log_start_offset == 0


# A log that has to be opened anew


def test_a_log_that_cannot_go_on_is_told_of_once(disk, leaders):
    with breaking_log(disk):
        effects = leaders.handle([plain(1), plain(2, PAYMENTS)], NOW_MS, NOW_MS)
    assert codes(effects) == {1: ErrorCode.KAFKA_STORAGE_ERROR, 2: ErrorCode.NONE}
    assert failures(effects) == [ORDERS]
    effects = leaders.handle([plain(3), plain(4, PAYMENTS), fetch(5)], NOW_MS, NOW_MS)
    assert codes(effects) == {3: ErrorCode.KAFKA_STORAGE_ERROR, 4: ErrorCode.NONE}
    assert failures(effects) == []


def test_everything_that_is_asked_of_a_failed_log_is_a_storage_error(disk, leaders):
    with breaking_log(disk):
        leaders.handle([plain(1)], NOW_MS, NOW_MS)
    events = [
        fetch(2),
        markers(3, ORDERS),
        ListOffset(4, ORDERS, LATEST_TIMESTAMP),
        DeleteRecords(5, ORDERS, 0),
        DescribePartition(6, ORDERS),
    ]
    for event in events:
        (effect,) = leaders.handle([event], NOW_MS, NOW_MS)
        if isinstance(effect, Fetched):
            assert effect.partitions[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
        elif isinstance(effect, MarkersAnswered):
            assert effect.error_codes == (ErrorCode.KAFKA_STORAGE_ERROR,)
        else:
            assert effect.error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_failed_log_does_not_add_itself_to_transactions(disk, leaders):
    with breaking_log(disk):
        leaders.handle([plain(1)], NOW_MS, NOW_MS)
    effects = leaders.handle([in_transaction(2, version=2)], NOW_MS, NOW_MS)
    assert codes(effects) == {2: ErrorCode.KAFKA_STORAGE_ERROR}
    assert len(effects) == 1


def test_producer_that_waits_for_a_coordinator_when_the_log_fails_is_told_when_it_has_answered(disk, leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    with breaking_log(disk):
        leaders.handle([plain(2)], NOW_MS, NOW_MS)
    assert codes(leaders.handle([verified(question)], NOW_MS, NOW_MS)) == {1: ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_fetch_that_waits_is_told_when_the_log_fails(disk, leaders):
    leaders.handle([fetch(1)], NOW_MS, NOW_MS)
    with breaking_log(disk):
        effects = leaders.handle([plain(2)], NOW_MS, NOW_MS)
    (fetched,) = [effect for effect in effects if isinstance(effect, Fetched)]
    assert fetched.partitions[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_batch_written_before_the_log_failed_in_the_same_turn_has_an_unknown_outcome(disk, leaders):
    open_transaction(leaders)
    one, two = fails(Operation.WRITE, skip=2, done_bytes=1), fails(Operation.TRUNCATE, is_lasting=True)
    with disk.injected(one), disk.injected(two):
        effects = leaders.handle([in_transaction(2, 1), markers(3, ORDERS, PAYMENTS), plain(4)], NOW_MS, NOW_MS)
    assert codes(effects) == {2: ErrorCode.KAFKA_STORAGE_ERROR, 4: ErrorCode.KAFKA_STORAGE_ERROR}
    (answered,) = [effect for effect in effects if isinstance(effect, MarkersAnswered)]
    assert answered.error_codes == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)


def test_a_log_that_is_opened_anew_is_led_at_a_later_epoch_and_has_each_batch_once(disk, leaders):
    leaders.handle([plain(1, producer_id=7)], NOW_MS, NOW_MS)
    with breaking_log(disk):
        leaders.handle([plain(2, producer_id=7, sequence=1)], NOW_MS, NOW_MS)
    leaders.resign(ORDERS)
    leaders.lead(ORDERS, alone(open_log(disk), LEADER_EPOCH + 1))
    effects = leaders.handle([plain(3, producer_id=7), plain(4, producer_id=7, sequence=1)], NOW_MS, NOW_MS)
    assert [(one.error_code, one.base_offset) for one in effects] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    with breaking_log(disk):
        assert failures(leaders.handle([plain(5)], NOW_MS, NOW_MS)) == [ORDERS]


# A flush that fails


@pytest.fixture
def flushing(disk):
    return lead(disk, LogConfig(flush=Flush.COMMIT))


def test_batch_that_could_not_be_flushed_has_an_unknown_outcome(disk, flushing):
    gap = plain(2, producer_id=7, sequence=5)
    with disk.injected(fails(Operation.FLUSH)):
        effects = flushing.handle(
            [plain(1, producer_id=7), gap, plain(3, PAYMENTS), markers(4, ORDERS, PAYMENTS)], NOW_MS, NOW_MS
        )
    assert codes(effects) == {
        1: ErrorCode.KAFKA_STORAGE_ERROR,
        2: ErrorCode.KAFKA_STORAGE_ERROR,
        3: ErrorCode.NONE,
    }
    (answered,) = [effect for effect in effects if isinstance(effect, MarkersAnswered)]
    assert answered.error_codes == (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE)
    assert failures(effects) == [ORDERS]


def test_records_that_could_not_be_flushed_are_not_read(disk, flushing):
    flushing.handle([fetch(1)], NOW_MS, NOW_MS)
    with disk.injected(fails(Operation.FLUSH)):
        effects = flushing.handle([plain(2), fetch(3, isolation=Isolation.READ_COMMITTED)], NOW_MS, NOW_MS)
    fetched = [effect for effect in effects if isinstance(effect, Fetched)]
    assert {one.request_id for one in fetched} == {1, 3}
    assert all(one.partitions[0].records == b"" for one in fetched)
    assert flushing.handle([Tick()], NOW_MS + 10_000, NOW_MS + 10_000) == []


def test_a_log_that_cannot_be_flushed_when_it_is_taken_over_is_told_of(disk):
    leaders = lead(disk)
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    leaders.resign(ORDERS)
    log = open_log(disk, config=LogConfig(flush=Flush.COMMIT))
    with disk.injected(fails(Operation.FLUSH)):
        leaders.lead(ORDERS, alone(log, LEADER_EPOCH + 1))
        assert failures(leaders.handle([Tick()], NOW_MS, NOW_MS)) == [ORDERS]
