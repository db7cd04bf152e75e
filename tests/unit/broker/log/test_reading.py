"""What a reader gets: up to where, how much, and which aborted transactions with it."""

import pytest

from eagleray.broker.log import (
    AbortedTransaction,
    Isolation,
    LogDamaged,
    OffsetOutOfRange,
    PartitionLog,
    TimestampType,
)
from eagleray.broker.log.reading import TimestampedOffset
from eagleray.broker.messages import Marker
from eagleray.protocol.records import CompressionType
from tests.support.batches import NOW_MS, data_batch, offsets_of, whole_batches
from tests.support.consumer import committed_records
from tests.support.logs import DIRECTORY, OpenLog, append, append_markers, base_offsets, end_marker
from tests.support.simulated_disk import SimulatedDisk

COMMITTED = Isolation.READ_COMMITTED
UNCOMMITTED = Isolation.READ_UNCOMMITTED
BATCH_BYTES = data_batch().header.size_bytes
BATCHES_A_SEGMENT = 1024 // BATCH_BYTES
ENOUGH_BYTES = 2**30


def transactional(producer_id: int, sequence: int = 0, count: int = 1):
    return data_batch(count, producer_id=producer_id, sequence=sequence, transactional=True)


def abort(producer_id: int) -> Marker:
    return end_marker(producer_id, 0, False, 0)


def commit(producer_id: int) -> Marker:
    return end_marker(producer_id, 0, True, 0)


def replicate(log: PartitionLog) -> None:
    log.advance_high_watermark(log.log_end_offset)


def read_offsets(log: PartitionLog, offset: int, isolation: Isolation, max_bytes: int = ENOUGH_BYTES) -> list[int]:
    return offsets_of(log.read(offset, max_bytes=max_bytes, isolation=isolation).records)


# All of it


@pytest.mark.parametrize("read_bytes", [1, BATCH_BYTES, BATCH_BYTES + 1, 3 * BATCH_BYTES - 1, ENOUGH_BYTES])
def test_all_batches_are_given_once_however_little_is_read_at_a_time(open_log: OpenLog, read_bytes: int) -> None:
    log = open_log(segment_bytes=1024)
    count = 2 * BATCHES_A_SEGMENT + 3
    for _ in range(count):
        append(log, data_batch())
    assert [batch.header.base_offset for batch in log.batches(read_bytes=read_bytes)] == [*range(count)]


def test_a_damaged_batch_ends_the_batches_of_a_log_with_an_error(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    disk.rot(f"{DIRECTORY}/{0:020}.log", 2 * BATCH_BYTES - 1, 1)
    batches = log.batches()
    assert next(batches).header.base_offset == 0
    with pytest.raises(LogDamaged, match="offset 1 or behind it is damaged"):
        next(batches)


# Up to where


def test_nothing_above_the_high_watermark_is_seen(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), data_batch())
    assert read_offsets(log, 0, UNCOMMITTED) == []
    log.advance_high_watermark(2)
    assert read_offsets(log, 0, UNCOMMITTED) == [0, 1]
    assert read_offsets(log, 2, UNCOMMITTED) == []
    assert read_offsets(log, 3, UNCOMMITTED) == []
    assert offsets_of(log.read_for_replica(0, max_bytes=ENOUGH_BYTES)) == [0, 1, 2]


def test_open_transaction_ends_what_a_committed_reader_sees(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), transactional(7), data_batch())
    replicate(log)
    assert read_offsets(log, 0, COMMITTED) == [0]
    assert read_offsets(log, 0, UNCOMMITTED) == [0, 1, 2]
    assert read_offsets(log, 1, COMMITTED) == []


def test_a_decided_transaction_is_seen_once_its_marker_is_replicated(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), transactional(7))
    append_markers(log, commit(7))
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    assert read_offsets(log, 0, COMMITTED) == [0, 1, 2]


def test_the_last_stable_offset_is_never_above_the_high_watermark(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), transactional(7))
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 1


def test_a_slice_says_where_the_log_stands(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(3), transactional(7), data_batch())
    log.advance_high_watermark(4)
    log.delete_records(1)
    found = log.read(1, max_bytes=ENOUGH_BYTES, isolation=UNCOMMITTED)
    assert (found.log_start_offset, found.last_stable_offset, found.high_watermark) == (1, 3, 4)
    assert found.aborted_transactions == []


@pytest.mark.parametrize("offset", [0, 1, 4, 99])
def test_an_offset_outside_of_the_log_is_refused(open_log: OpenLog, offset: int) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), data_batch())
    replicate(log)
    log.delete_records(2)
    with pytest.raises(OffsetOutOfRange) as refusal:
        log.read(offset, max_bytes=ENOUGH_BYTES, isolation=COMMITTED)
    assert str(refusal.value) == f"offset {offset} is outside of the log; expected one from 2 to 3"
    with pytest.raises(OffsetOutOfRange):
        log.read_for_replica(offset, max_bytes=ENOUGH_BYTES)


# How much


def test_a_read_begins_with_the_batch_that_holds_the_offset(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(3), data_batch(3))
    replicate(log)
    assert read_offsets(log, 2, UNCOMMITTED) == [0, 1, 2, 3, 4, 5]
    assert read_offsets(log, 3, UNCOMMITTED) == [3, 4, 5]


@pytest.mark.parametrize("max_bytes", [-1, 0, 1, BATCH_BYTES])
def test_the_first_batch_is_whole_however_little_was_asked_for(open_log: OpenLog, max_bytes: int) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    replicate(log)
    records = log.read(0, max_bytes=max_bytes, isolation=UNCOMMITTED).records
    assert len(records) == BATCH_BYTES
    assert offsets_of(records) == [0]


def test_the_last_batch_may_be_cut_at_the_limit(open_log: OpenLog) -> None:
    log = open_log()
    append(log, *[data_batch() for _ in range(5)])
    replicate(log)
    records = log.read(1, max_bytes=3 * BATCH_BYTES - 1, isolation=UNCOMMITTED).records
    assert len(records) == 3 * BATCH_BYTES - 1
    assert offsets_of(records) == [1, 2]


def test_a_read_ends_with_its_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    append(log, *[data_batch() for _ in range(2 * BATCHES_A_SEGMENT)])
    replicate(log)
    assert read_offsets(log, 1, UNCOMMITTED) == list(range(1, BATCHES_A_SEGMENT))
    assert read_offsets(log, BATCHES_A_SEGMENT, UNCOMMITTED) == list(range(BATCHES_A_SEGMENT, 2 * BATCHES_A_SEGMENT))


def test_a_high_watermark_inside_a_segment_ends_a_read_there(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    append(log, *[data_batch() for _ in range(2 * BATCHES_A_SEGMENT)])
    log.advance_high_watermark(BATCHES_A_SEGMENT + 2)
    assert read_offsets(log, BATCHES_A_SEGMENT, UNCOMMITTED) == [BATCHES_A_SEGMENT, BATCHES_A_SEGMENT + 1]
    log.advance_high_watermark(BATCHES_A_SEGMENT)


# Aborted transactions


def test_a_committed_reader_is_told_what_to_leave_out(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional(7), transactional(8), transactional(7, 1), data_batch())
    append_markers(log, abort(7), commit(8))
    replicate(log)
    found = log.read(0, max_bytes=ENOUGH_BYTES, isolation=COMMITTED)
    assert found.aborted_transactions == [AbortedTransaction(7, 0, 4, 1)]
    visible = committed_records(whole_batches(found.records), found.aborted_transactions)
    assert [record.offset for record in visible] == [1, 3]


def test_an_uncommitted_reader_is_told_nothing(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional(7))
    append_markers(log, abort(7))
    replicate(log)
    found = log.read(0, max_bytes=ENOUGH_BYTES, isolation=UNCOMMITTED)
    assert found.aborted_transactions == []
    assert offsets_of(found.records) == [0, 1]


def test_a_read_from_the_middle_of_an_aborted_transaction_still_names_it(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional(7), transactional(7, 1), transactional(7, 2))
    append_markers(log, abort(7))
    replicate(log)
    for offset in (1, 2, 3):
        found = log.read(offset, max_bytes=ENOUGH_BYTES, isolation=COMMITTED)
        assert found.aborted_transactions == [AbortedTransaction(7, 0, 3, 4)]
    assert log.read(4, max_bytes=ENOUGH_BYTES, isolation=COMMITTED).aborted_transactions == []


def test_a_marker_in_a_later_segment_is_found(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    append(log, transactional(7), *[data_batch() for _ in range(3 * BATCHES_A_SEGMENT)])
    append_markers(log, abort(7))
    replicate(log)
    assert len(base_offsets(log)) == 4
    marker_offset = log.log_end_offset - 1
    found = log.read(0, max_bytes=ENOUGH_BYTES, isolation=COMMITTED)
    assert found.aborted_transactions == [AbortedTransaction(7, 0, marker_offset, marker_offset + 1)]
    assert log.read(marker_offset, max_bytes=1, isolation=COMMITTED).aborted_transactions == found.aborted_transactions


def test_transactions_behind_the_end_of_the_slice_are_not_named(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=0)
    for sequence in range(10):
        append(log, transactional(7, sequence))
        append_markers(log, abort(7))
    replicate(log)
    # The index has an entry for each batch, so the bound of a short read is the batch right behind it.
    found = log.read(4, max_bytes=1, isolation=COMMITTED)
    assert offsets_of(found.records) == [4]
    assert found.aborted_transactions == [AbortedTransaction(7, 4, 5, 6)]


# By timestamp


def test_the_first_record_that_is_young_enough_is_found(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=0)
    append(log, data_batch(3, timestamps_ms=[10, 20, 15]), data_batch(2, timestamps_ms=[12, 30]))
    replicate(log)
    expected = {5: (10, 0), 10: (10, 0), 11: (20, 1), 20: (20, 1), 21: (30, 4), 30: (30, 4)}
    for timestamp_ms, (found_ms, offset) in expected.items():
        assert log.offset_for_timestamp(timestamp_ms, UNCOMMITTED) == TimestampedOffset(found_ms, offset)
    assert log.offset_for_timestamp(31, UNCOMMITTED) is None


@pytest.mark.parametrize("codec", CompressionType)
def test_records_in_compressed_batches_are_found_too(open_log: OpenLog, codec: CompressionType) -> None:
    log = open_log()
    append(log, data_batch(3, timestamps_ms=[10, 20, 30], compression=codec))
    replicate(log)
    assert log.offset_for_timestamp(15, UNCOMMITTED) == TimestampedOffset(20, 1)


def test_only_what_a_reader_sees_is_found(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(timestamps_ms=[10]), transactional(7), data_batch())
    replicate(log)
    assert log.offset_for_timestamp(11, UNCOMMITTED) == TimestampedOffset(NOW_MS, 1)
    assert log.offset_for_timestamp(11, COMMITTED) is None
    log.delete_records(1)
    assert log.offset_for_timestamp(5, UNCOMMITTED) == TimestampedOffset(NOW_MS, 1)


def test_markers_are_found_by_their_timestamps(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional(7))
    append_markers(log, commit(7), now_ms=NOW_MS + 5)
    replicate(log)
    assert log.offset_for_timestamp(NOW_MS + 1, COMMITTED) == TimestampedOffset(NOW_MS + 5, 1)


def test_a_topic_with_append_time_is_searched_by_it(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    for number in range(3):
        append(log, data_batch(2, timestamps_ms=[1, 2]), now_ms=NOW_MS + number)
    replicate(log)
    assert log.offset_for_timestamp(1, UNCOMMITTED) == TimestampedOffset(NOW_MS, 0)
    assert log.offset_for_timestamp(NOW_MS + 1, UNCOMMITTED) == TimestampedOffset(NOW_MS + 1, 2)
    assert log.offset_for_timestamp(NOW_MS + 3, UNCOMMITTED) is None


def test_the_first_record_of_the_largest_timestamp_is_found(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    assert log.offset_of_largest_timestamp(UNCOMMITTED) is None
    append(log, data_batch(3, timestamps_ms=[10, 30, 30]), data_batch(value=b"x" * 900, timestamps_ms=[30]))
    append(log, data_batch(timestamps_ms=[20]))
    replicate(log)
    assert base_offsets(log) == [0, 3, 4]
    assert log.offset_of_largest_timestamp(UNCOMMITTED) == TimestampedOffset(30, 1)


def test_records_without_timestamps_have_no_largest(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(timestamps_ms=[-1]))
    replicate(log)
    assert log.offset_of_largest_timestamp(UNCOMMITTED) is None
    assert log.offset_for_timestamp(0, UNCOMMITTED) is None
