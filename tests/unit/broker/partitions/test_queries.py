"""What a leader tells about its partitions, and the deletion of records."""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Isolation, LogConfig
from eagleray.broker.partitions.events import (
    EARLIEST_TIMESTAMP,
    LARGEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    TO_HIGH_WATERMARK,
    DeleteRecords,
    DescribePartition,
    DescribeProducers,
    EpochEndFound,
    EpochEndOffset,
    ListOffset,
    OffsetListed,
    PartitionDescribed,
    ProducerDescription,
    ProducersDescribed,
    RecordsDeleted,
)
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.leading import (
    ELSEWHERE,
    LEADER_EPOCH,
    ORDERS,
    PRODUCER,
    alone,
    fetch,
    in_transaction,
    lead,
    markers,
    open_transaction,
    plain,
    verified,
)
from tests.support.simulated_disk import SimulatedDisk

COMMITTED = Isolation.READ_COMMITTED


@pytest.fixture
def leaders():
    return lead(SimulatedDisk())


def ask(leaders, query):
    (answer,) = leaders.handle([query], NOW_MS, NOW_MS)
    return answer


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (ListOffset(1, ELSEWHERE, LATEST_TIMESTAMP), OffsetListed(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (DeleteRecords(1, ELSEWHERE, 0), RecordsDeleted(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (DescribeProducers(1, ELSEWHERE), ProducersDescribed(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (EpochEndOffset(1, ELSEWHERE, 0), EpochEndFound(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (DescribePartition(1, ELSEWHERE), PartitionDescribed(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    ],
)
def test_a_partition_that_is_led_elsewhere_is_not_told_of(leaders, query, answer):
    assert ask(leaders, query) == answer


# Offsets by timestamp


def test_the_latest_offset_is_bounded_by_what_the_reader_may_see(leaders):
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    (question,) = leaders.handle([in_transaction(2)], NOW_MS, NOW_MS)
    leaders.handle([verified(question)], NOW_MS, NOW_MS)
    everything = ask(leaders, ListOffset(3, ORDERS, LATEST_TIMESTAMP))
    committed = ask(leaders, ListOffset(4, ORDERS, LATEST_TIMESTAMP, COMMITTED))
    assert everything == OffsetListed(3, ErrorCode.NONE, 2, -1, LEADER_EPOCH)
    assert committed == OffsetListed(4, ErrorCode.NONE, 1, -1, LEADER_EPOCH)


def test_the_earliest_offset_is_where_the_log_begins(leaders):
    leaders.handle([plain(1, count=3), DeleteRecords(2, ORDERS, 2)], NOW_MS, NOW_MS)
    assert ask(leaders, ListOffset(3, ORDERS, EARLIEST_TIMESTAMP)) == OffsetListed(
        3, ErrorCode.NONE, 2, -1, LEADER_EPOCH
    )


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (NOW_MS, (0, NOW_MS, LEADER_EPOCH)),
        (NOW_MS + 1, (1, NOW_MS + 20, LEADER_EPOCH)),
        (NOW_MS + 20, (1, NOW_MS + 20, LEADER_EPOCH)),
        (NOW_MS + 21, (-1, -1, -1)),
        (0, (0, NOW_MS, LEADER_EPOCH)),
        (LARGEST_TIMESTAMP, (1, NOW_MS + 20, LEADER_EPOCH)),
    ],
)
def test_a_timestamp_stands_for_the_first_record_that_is_as_young(leaders, timestamp, found):
    leaders.handle([plain(1, count=3, timestamps_ms=[NOW_MS, NOW_MS + 20, NOW_MS + 10])], NOW_MS, NOW_MS)
    answer = ask(leaders, ListOffset(2, ORDERS, timestamp))
    assert answer.error_code is ErrorCode.NONE
    assert (answer.offset, answer.timestamp, answer.leader_epoch) == found


def test_a_committed_reader_finds_no_record_of_an_open_transaction_by_its_timestamp(leaders):
    open_transaction(leaders)
    assert ask(leaders, ListOffset(2, ORDERS, NOW_MS, COMMITTED)) == OffsetListed(2, ErrorCode.NONE)
    assert ask(leaders, ListOffset(3, ORDERS, NOW_MS)).offset == 0


def test_a_record_is_told_with_the_epoch_of_the_leader_that_wrote_it(leaders):
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    log, _ = leaders.resign(ORDERS)
    leaders.lead(ORDERS, alone(log, LEADER_EPOCH + 1))
    leaders.handle([plain(2, timestamps_ms=[NOW_MS + 5])], NOW_MS, NOW_MS)
    assert ask(leaders, ListOffset(3, ORDERS, NOW_MS)).leader_epoch == LEADER_EPOCH
    assert ask(leaders, ListOffset(4, ORDERS, NOW_MS + 5)).leader_epoch == LEADER_EPOCH + 1


def test_a_timestamp_that_means_nothing_is_refused(leaders):
    assert ask(leaders, ListOffset(1, ORDERS, -4)) == OffsetListed(1, ErrorCode.INVALID_TIMESTAMP)


@pytest.mark.parametrize(
    ("epoch", "error_code"),
    [
        (LEADER_EPOCH, ErrorCode.NONE),
        (LEADER_EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER_EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_question_for_an_offset_with_another_leader_epoch_is_refused(leaders, epoch, error_code):
    answer = ask(leaders, ListOffset(1, ORDERS, LATEST_TIMESTAMP, leader_epoch=epoch))
    assert answer.error_code is error_code


# Leader epochs


def led_again(leaders, epoch):
    log, _ = leaders.resign(ORDERS)
    leaders.lead(ORDERS, alone(log, epoch))


@pytest.mark.parametrize(
    ("epoch", "found"),
    [
        (-1, (-1, -1)),
        (LEADER_EPOCH - 1, (LEADER_EPOCH - 1, 0)),
        (LEADER_EPOCH, (LEADER_EPOCH, 2)),
        (LEADER_EPOCH + 1, (LEADER_EPOCH, 2)),
        (LEADER_EPOCH + 2, (LEADER_EPOCH + 2, 5)),
        (LEADER_EPOCH + 3, (LEADER_EPOCH + 2, 5)),
        (LEADER_EPOCH + 4, (LEADER_EPOCH + 4, 5)),
        (LEADER_EPOCH + 5, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_one_that_wrote_begins(leaders, epoch, found):
    leaders.handle([plain(1, count=2)], NOW_MS, NOW_MS)
    led_again(leaders, LEADER_EPOCH + 2)
    leaders.handle([plain(2, count=3)], NOW_MS, NOW_MS)
    led_again(leaders, LEADER_EPOCH + 4)
    assert ask(leaders, EpochEndOffset(3, ORDERS, epoch)) == EpochEndFound(3, ErrorCode.NONE, *found)


def test_every_epoch_ends_at_the_beginning_of_a_log_that_was_never_written(leaders):
    for epoch in (0, LEADER_EPOCH):
        assert ask(leaders, EpochEndOffset(1, ORDERS, epoch)) == EpochEndFound(1, ErrorCode.NONE, epoch, 0)


@pytest.mark.parametrize(
    ("epoch", "error_code"),
    [
        (LEADER_EPOCH, ErrorCode.NONE),
        (LEADER_EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER_EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_question_for_the_end_of_an_epoch_with_another_leader_epoch_is_refused(leaders, epoch, error_code):
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    assert ask(leaders, EpochEndOffset(2, ORDERS, LEADER_EPOCH, epoch)).error_code is error_code


# Deleting


def test_records_are_deleted_before_an_offset_or_up_to_the_high_watermark(leaders):
    leaders.handle([plain(1, count=3)], NOW_MS, NOW_MS)
    assert ask(leaders, DeleteRecords(2, ORDERS, 1)) == RecordsDeleted(2, ErrorCode.NONE, 1)
    assert ask(leaders, DeleteRecords(3, ORDERS, 0)) == RecordsDeleted(3, ErrorCode.NONE, 1)
    assert ask(leaders, DeleteRecords(4, ORDERS, TO_HIGH_WATERMARK)) == RecordsDeleted(4, ErrorCode.NONE, 3)


def test_deleted_records_stay_deleted_when_the_process_dies():
    disk = SimulatedDisk()
    leaders = lead(disk)
    leaders.handle([plain(1, count=3), DeleteRecords(2, ORDERS, 2)], NOW_MS, NOW_MS)
    disk.crash_process()
    assert ask(lead(disk), DescribePartition(3, ORDERS)).log_start_offset == 2


@pytest.mark.parametrize("offset", [-2, 4])
def test_an_offset_outside_of_the_log_cannot_be_deleted_up_to(leaders, offset):
    leaders.handle([plain(1, count=3)], NOW_MS, NOW_MS)
    assert ask(leaders, DeleteRecords(2, ORDERS, offset)) == RecordsDeleted(2, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert ask(leaders, DescribePartition(3, ORDERS)).log_start_offset == 0


def test_a_topic_that_is_only_compacted_keeps_its_records():
    leaders = lead(SimulatedDisk(), LogConfig(cleanup_delete=False, cleanup_compact=True))
    leaders.handle([plain(1, keys=[b"key"])], NOW_MS, NOW_MS)
    assert ask(leaders, DeleteRecords(2, ORDERS, 1)) == RecordsDeleted(2, ErrorCode.POLICY_VIOLATION)
    assert ask(leaders, DescribePartition(3, ORDERS)).log_start_offset == 0


def test_a_topic_that_is_compacted_and_deleted_from_may_lose_records():
    leaders = lead(SimulatedDisk(), LogConfig(cleanup_delete=True, cleanup_compact=True))
    leaders.handle([plain(1, keys=[b"key"])], NOW_MS, NOW_MS)
    assert ask(leaders, DeleteRecords(2, ORDERS, 1)) == RecordsDeleted(2, ErrorCode.NONE, 1)


def test_a_fetch_that_waits_where_records_were_deleted_is_out_of_range(leaders):
    open_transaction(leaders)
    assert leaders.handle([fetch(2, isolation=COMMITTED)], NOW_MS, NOW_MS) == []
    deleted, fetched = leaders.handle([DeleteRecords(3, ORDERS, TO_HIGH_WATERMARK)], NOW_MS, NOW_MS)
    assert deleted.log_start_offset == 1
    (partition,) = fetched.partitions
    assert (partition.error_code, partition.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 1)
    assert leaders.handle([Tick()], NOW_MS + 10_000, NOW_MS + 10_000) == []


# Describing


def test_producers_are_described_with_their_open_transactions(leaders):
    open_transaction(leaders)
    leaders.handle([in_transaction(2, 1)], NOW_MS, NOW_MS)
    leaders.handle([markers(3, ORDERS, producer=ProducerIdentity(8, 2), coordinator_epoch=5)], NOW_MS, NOW_MS)
    described = ask(leaders, DescribeProducers(4, ORDERS))
    assert described == ProducersDescribed(
        4,
        ErrorCode.NONE,
        (
            ProducerDescription(PRODUCER, 1, NOW_MS, -1, 0),
            ProducerDescription(ProducerIdentity(8, 2), -1, NOW_MS, 5, -1),
        ),
    )


def test_a_partition_is_described_by_its_offsets_its_epoch_and_its_size(leaders):
    event = plain(1, count=2)
    leaders.handle([event, DeleteRecords(2, ORDERS, 1)], NOW_MS, NOW_MS)
    described = ask(leaders, DescribePartition(3, ORDERS))
    assert described == PartitionDescribed(3, ErrorCode.NONE, LEADER_EPOCH, 1, 2, 2, 2, len(event.records))


def test_an_open_transaction_holds_the_last_stable_offset_back(leaders):
    open_transaction(leaders)
    described = ask(leaders, DescribePartition(2, ORDERS))
    assert (described.last_stable_offset, described.high_watermark) == (0, 1)


def test_a_query_sees_the_batches_of_its_own_turn(leaders):
    described, _ = sorted(
        leaders.handle([DescribePartition(1, ORDERS), plain(2)], NOW_MS, NOW_MS), key=lambda effect: effect.request_id
    )
    assert described.high_watermark == 1
