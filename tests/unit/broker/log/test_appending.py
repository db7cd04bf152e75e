"""What an append checks, writes and answers."""

import errno

import pytest

from eagleray.broker.log import (
    AbortedTransaction,
    Appended,
    Isolation,
    LogWriteFailed,
    Origin,
    Rejection,
    TimestampType,
)
from eagleray.protocol.errors import ErrorCode, InvalidRecord
from eagleray.protocol.records import split_batches
from tests.support.batches import NOW_MS, data_batch, marker_batch, offsets_of, one_batch, placed, records_of
from tests.support.faults import Fault, Operation, Outcome
from tests.support.logs import DIRECTORY, OpenLog, append, append_markers, base_offsets, end_marker, everything
from tests.support.simulated_disk import SimulatedDisk
from tests.unit.protocol.forge import forge

BATCH_BYTES = data_batch().header.size_bytes
ABORT = end_marker(7, 0, False, 0)
COMMIT = end_marker(7, 0, True, 0)


def assert_refused(result: Appended | Rejection, error_code: ErrorCode, *words: str) -> None:
    assert isinstance(result, Rejection), result
    assert result.error_code is error_code
    for word in words:
        assert word in result.message


# Offsets and epochs


def test_batches_get_consecutive_offsets_and_the_leaders_epoch(open_log: OpenLog) -> None:
    log = open_log()
    assert append(log, data_batch(3), data_batch(), leader_epoch=4) == [Appended(0, 2), Appended(3, 3)]
    assert append(log, data_batch(2), leader_epoch=6) == [Appended(4, 5)]
    batches = split_batches(everything(log))
    assert [(b.header.base_offset, b.header.partition_leader_epoch) for b in batches] == [(0, 4), (3, 4), (4, 6)]
    assert [(start.epoch, start.start_offset) for start in log.epochs] == [(4, 0), (6, 4)]
    assert log.log_end_offset == 6


def test_nothing_but_the_place_of_a_batch_is_changed(open_log: OpenLog) -> None:
    log = open_log()
    sent = data_batch(3, producer_id=7, epoch=2, sequence=9, base_offset=77, timestamps_ms=[NOW_MS - 5, NOW_MS, -1])
    append(log, sent, leader_epoch=1)
    assert everything(log) == bytes(placed(sent, 0, 1).view)


def test_an_append_of_nothing_changes_nothing(open_log: OpenLog) -> None:
    log = open_log()
    assert append(log) == []
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_the_epoch_of_an_older_leader_is_fenced(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), leader_epoch=5)
    batches = append(log, data_batch(), data_batch(), leader_epoch=4)
    markers = append_markers(log, ABORT, leader_epoch=4)
    for result in (*batches, *markers):
        assert_refused(result, ErrorCode.FENCED_LEADER_EPOCH, "leader epoch 4 came after one with 5", "find it")
    assert len(batches) == 2
    assert log.log_end_offset == 1


# Limits


def test_a_batch_may_be_as_large_as_the_topic_allows(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=BATCH_BYTES)
    small, large = data_batch(), data_batch(value=b"value!")
    assert_refused(
        append(log, large)[0],
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a batch of {BATCH_BYTES + 1} bytes is larger than max.message.bytes ({BATCH_BYTES})",
        "send smaller batches",
    )
    assert append(log, small) == [Appended(0, 0)]


def test_a_batch_has_to_fit_into_one_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024, max_message_bytes=4096)
    header_bytes = BATCH_BYTES - len(b"value")
    # From 64 bytes on the lengths of value and record take two bytes each instead of one.
    fitting = data_batch(value=b"x" * (1024 - header_bytes - 2))
    assert fitting.header.size_bytes == 1024
    assert append(log, fitting) == [Appended(0, 0)]
    result = append(log, data_batch(value=b"x" * (1024 - header_bytes - 1)))[0]
    assert_refused(result, ErrorCode.RECORD_LIST_TOO_LARGE, "1025 bytes", "segment.bytes (1024)")


@pytest.mark.parametrize("before_ms", [0, 100])
@pytest.mark.parametrize("after_ms", [0, 50])
def test_timestamps_have_a_window(open_log: OpenLog, before_ms: int, after_ms: int) -> None:
    log = open_log(message_timestamp_before_max_ms=before_ms, message_timestamp_after_max_ms=after_ms)
    for timestamp_ms in (NOW_MS - before_ms, NOW_MS + after_ms):
        assert isinstance(append(log, data_batch(timestamps_ms=[timestamp_ms]))[0], Appended)
    for timestamp_ms in (NOW_MS - before_ms - 1, NOW_MS + after_ms + 1):
        assert_refused(
            append(log, data_batch(timestamps_ms=[timestamp_ms]))[0],
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {timestamp_ms} is outside of {NOW_MS - before_ms} to {NOW_MS + after_ms}",
            "message.timestamp.before.max.ms",
        )


def test_a_record_without_a_timestamp_is_never_untimely(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_before_max_ms=0)
    assert append(log, data_batch(timestamps_ms=[-1])) == [Appended(0, 0)]


def test_a_refused_batch_does_not_stop_those_beside_it(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=BATCH_BYTES)
    results = append(log, data_batch(), data_batch(value=b"x" * 900), data_batch())
    assert results[0] == Appended(0, 0)
    assert isinstance(results[1], Rejection)
    assert results[2] == Appended(1, 1)
    assert offsets_of(everything(log)) == [0, 1]


# Append time


def test_a_topic_with_append_time_stamps_every_batch(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME, message_timestamp_before_max_ms=0)
    sent = data_batch(2, timestamps_ms=[5, 9])
    assert append(log, sent, now_ms=NOW_MS) == [Appended(0, 1, NOW_MS)]
    assert append(log, data_batch(), now_ms=NOW_MS + 3) == [Appended(2, 2, NOW_MS + 3)]
    batches = split_batches(everything(log), verify_crc=True)
    assert [record.timestamp for batch in batches for record in batch.records()] == [NOW_MS, NOW_MS, NOW_MS + 3]
    assert log.active_segment.largest_timestamp_ms == NOW_MS + 3


def test_a_repeat_is_answered_with_the_first_append_time(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    batch = data_batch(2, producer_id=7, timestamps_ms=[5, 9])
    append(log, batch, now_ms=NOW_MS)
    assert append(log, batch, now_ms=NOW_MS + 50) == [Appended(0, 1, NOW_MS, is_duplicate=True)]


def test_without_append_time_a_repeat_carries_no_timestamp(open_log: OpenLog) -> None:
    log = open_log()
    batch = data_batch(2, producer_id=7)
    append(log, batch)
    assert append(log, batch) == [Appended(0, 1, -1, is_duplicate=True)]


# Producers, in one append


def test_each_batch_is_decided_on_what_those_before_it_in_the_same_append_left(open_log: OpenLog) -> None:
    log = open_log()
    first, second = data_batch(2, producer_id=7), data_batch(producer_id=7, sequence=2)
    stray = data_batch(producer_id=7, sequence=9)
    results = append(log, first, first, stray, second, data_batch(producer_id=8, sequence=4))
    assert results[0] == Appended(0, 1)
    assert results[1] == Appended(0, 1, is_duplicate=True)
    assert_refused(results[2], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert results[3:] == [Appended(2, 2), Appended(3, 3)]
    assert offsets_of(everything(log)) == [0, 1, 2, 3]


def test_a_coordinators_batches_are_fenced_by_epoch_only(open_log: OpenLog) -> None:
    log = open_log()
    batch = data_batch(producer_id=7, epoch=3, sequence=-1, transactional=True)
    assert append(log, batch, batch, origin=Origin.COORDINATOR) == [Appended(0, 0), Appended(1, 1)]
    zombie = data_batch(producer_id=7, epoch=2, sequence=-1, transactional=True)
    assert_refused(append(log, zombie, origin=Origin.COORDINATOR)[0], ErrorCode.INVALID_PRODUCER_EPOCH)


# Markers


def test_a_marker_is_a_control_batch_at_its_own_offset(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(2, producer_id=7, epoch=3, transactional=True))
    marker = end_marker(7, 4, True, 12, transaction_version=2)
    assert append_markers(log, marker, now_ms=NOW_MS + 1, leader_epoch=0) == [Appended(2, 2)]
    batch = split_batches(everything(log))[-1]
    assert bytes(batch.view) == bytes(
        marker_batch(7, epoch=4, coordinator_epoch=12, timestamp_ms=NOW_MS + 1, base_offset=2).view
    )


def test_only_aborted_transactions_with_records_are_indexed(open_log: OpenLog) -> None:
    log = open_log()
    append_markers(log, ABORT)
    append(log, data_batch(producer_id=7, transactional=True))
    append_markers(log, COMMIT, ABORT)
    append(log, data_batch(producer_id=7, sequence=1, transactional=True))
    append_markers(log, ABORT)
    index = log.active_segment.transaction_index
    assert [index[number] for number in range(len(index))] == [AbortedTransaction(7, 4, 5, 6)]


def test_a_fenced_marker_is_not_written(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(producer_id=7, transactional=True))
    append_markers(log, end_marker(7, 0, True, 5))
    results = append_markers(log, end_marker(7, 0, True, 4), end_marker(7, 0, True, 5))
    assert_refused(results[0], ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    assert results[1] == Appended(2, 2)


# Replication


def test_a_follower_takes_offsets_and_epochs_as_they_are(open_log: OpenLog) -> None:
    log = open_log()
    batches = [
        placed(data_batch(2, producer_id=7, transactional=True), 0, 3),
        placed(data_batch(producer_id=8, epoch=1, sequence=5), 10, 5),
        marker_batch(7, commit=False, base_offset=11, leader_epoch=5),
    ]
    assert log.append_replicated(batches, now_ms=NOW_MS) == [Appended(0, 1), Appended(10, 10), Appended(11, 11)]
    assert everything(log) == b"".join(bytes(batch.view) for batch in batches)
    # What lay between may have been of the later epoch.
    assert [(start.epoch, start.start_offset) for start in log.epochs] == [(3, 0), (5, 2)]
    assert log.active_segment.transaction_index[0] == AbortedTransaction(7, 0, 11, 12)
    assert log.log_end_offset == 12


def test_a_follower_does_not_write_over_what_it_has(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(3))
    (result,) = log.append_replicated([placed(data_batch(), 2, 1)], now_ms=NOW_MS)
    assert_refused(result, ErrorCode.OFFSET_OUT_OF_RANGE, "begins at offset 2", "already ends at 3", "truncate it")
    assert log.log_end_offset == 3


def test_a_marker_that_cannot_be_read_leaves_nothing_of_its_append(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch())
    broken = placed(forge(b"", attributes=0x30, producer_id=7, producer_epoch=0, record_count=1), 2, 0)
    with pytest.raises(InvalidRecord):
        log.append_replicated([placed(data_batch(), 1, 0), broken], now_ms=NOW_MS)
    assert (log.log_end_offset, offsets_of(everything(log))) == (1, [0])
    assert append(log, data_batch()) == [Appended(1, 1)]


def test_offsets_too_far_apart_for_one_segment_begin_another(open_log: OpenLog) -> None:
    log = open_log()
    far = 2**31 + 5
    log.append_replicated([placed(data_batch(), far, 0), placed(data_batch(), 2 * far, 0)], now_ms=NOW_MS)
    assert base_offsets(log) == [0, far, 2 * far]
    assert offsets_of(log.read_for_replica(0, max_bytes=10)) == [far]
    assert offsets_of(log.read_for_replica(far + 1, max_bytes=10)) == [2 * far]


# Rolling


def test_a_segment_is_filled_and_never_overfilled(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    fitting = 1024 // BATCH_BYTES
    append(log, *[data_batch() for _ in range(2 * fitting + 1)])
    assert base_offsets(log) == [0, fitting, 2 * fitting]
    assert [segment.size_bytes for segment in log.segments] == [fitting * BATCH_BYTES] * 2 + [BATCH_BYTES]


def test_a_segment_that_is_filled_exactly_is_not_rolled(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    append(log, data_batch(value=b"x" * (1024 - BATCH_BYTES + len(b"value") - 2)))
    assert log.size_bytes == 1024
    assert base_offsets(log) == [0]
    append(log, data_batch())
    assert base_offsets(log) == [0, 1]


def test_a_segment_rolls_by_the_time_of_its_records(open_log: OpenLog) -> None:
    log = open_log(segment_ms=100)
    for age_ms in (0, 100, 50, 101, 0, 201, 202):
        append(log, data_batch(timestamps_ms=[NOW_MS + age_ms], keys=[b"key"]), now_ms=NOW_MS + 10**6)
    # 101 is more than 100 behind 0; then 201 is not more than 100 behind 101, but 202 is.
    assert base_offsets(log) == [0, 3, 6]


def test_a_compacted_topic_rolls_in_time_for_its_largest_compaction_lag(open_log: OpenLog) -> None:
    log = open_log(cleanup_compact=True, max_compaction_lag_ms=100)
    for age_ms in (0, 100, 50, 101, 0, 201, 202):
        append(log, data_batch(timestamps_ms=[NOW_MS + age_ms], keys=[b"key"]), now_ms=NOW_MS + 10**6)
    # 101 is more than 100 behind 0; then 201 is not more than 100 behind 101, but 202 is.
    assert base_offsets(log) == [0, 3, 6]


def test_records_without_timestamps_roll_by_the_age_of_the_segment(open_log: OpenLog) -> None:
    log = open_log(segment_ms=100, now_ms=NOW_MS)
    for now_ms in (NOW_MS, NOW_MS + 100, NOW_MS + 101, NOW_MS + 201, NOW_MS + 202):
        append(log, data_batch(timestamps_ms=[-1]), now_ms=now_ms)
    assert base_offsets(log) == [0, 2, 4]


def test_an_empty_segment_does_not_roll_for_its_age(open_log: OpenLog) -> None:
    log = open_log(segment_ms=100)
    append(log, data_batch(), now_ms=NOW_MS + 10**9)
    assert base_offsets(log) == [0]


def test_a_segment_rolls_when_an_index_is_full(open_log: OpenLog) -> None:
    log = open_log(index_interval_bytes=0, segment_index_bytes=24)
    for number in range(7):
        append(log, data_batch(timestamps_ms=[NOW_MS + number]))
    # The first batch of a segment has no entry; two entries of twelve bytes fill the time index.
    assert base_offsets(log) == [0, 3, 6]


def test_a_marker_can_be_the_first_of_a_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    append(log, data_batch(producer_id=7, transactional=True, value=b"x" * 930))
    append_markers(log, ABORT)
    assert base_offsets(log) == [0, 1]
    assert len(log.segments[0].transaction_index) == 0
    assert log.segments[1].transaction_index[0] == AbortedTransaction(7, 0, 1, 2)


def test_a_roll_leaves_complete_indexes_and_a_snapshot_behind(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(segment_bytes=1024)
    append(log, data_batch(producer_id=7, transactional=True, value=b"x" * 930))
    append(log, data_batch(producer_id=7, transactional=True, sequence=1, value=b"x" * 930))
    assert disk.list_directory(DIRECTORY) == [
        "00000000000000000000.checksums",
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.log",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "leader-epoch-checkpoint.checksum",
        "partition-checkpoint",
    ]


# Failures


def test_a_failed_write_leaves_the_log_as_it_was(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(2, producer_id=7, transactional=True))
    log.advance_high_watermark(2)
    fault = Fault(Outcome.FAIL, on=Operation.WRITE, done_bytes=30, error_number=errno.ENOSPC)
    with disk.injected(fault), pytest.raises(LogWriteFailed, match=r"nothing was appended: .*No space left"):
        append(log, data_batch(producer_id=7, sequence=2, transactional=True))
    assert (log.log_end_offset, log.high_watermark, log.last_stable_offset) == (2, 2, 0)
    assert append(log, data_batch(2, producer_id=7, transactional=True)) == [Appended(0, 1, is_duplicate=True)]
    assert append(log, data_batch(producer_id=7, sequence=2, transactional=True)) == [Appended(2, 2)]
    append_markers(log, ABORT)
    log.advance_high_watermark(log.log_end_offset)
    assert offsets_of(log.read(0, max_bytes=10**6, isolation=Isolation.READ_COMMITTED).records) == [0, 1, 2, 3]


def test_what_is_read_back_is_what_was_appended(open_log: OpenLog) -> None:
    log = open_log()
    sent = data_batch(2, keys=[b"a", None], timestamps_ms=[NOW_MS, NOW_MS - 1])
    append(log, sent)
    expected = one_batch(bytes(sent.view)).records()
    assert records_of(everything(log)) == expected


def test_the_brokers_own_records_are_one_batch_of_nobody(open_log: OpenLog) -> None:
    log = open_log()
    result = log.append_records([(b"a", b"1"), (b"b", None)], leader_epoch=3, now_ms=NOW_MS)
    assert result == Appended(0, 1)
    (batch,) = split_batches(everything(log))
    assert (batch.header.partition_leader_epoch, batch.header.producer_id) == (3, -1)
    assert [(record.key, record.value, record.timestamp) for record in batch.records()] == [
        (b"a", b"1", NOW_MS),
        (b"b", None, NOW_MS),
    ]


def test_the_brokers_own_records_are_fenced_and_limited_as_others_are(open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=100)
    log.append_records([(b"a", b"1")], leader_epoch=3, now_ms=NOW_MS)
    fenced = log.append_records([(b"a", b"2")], leader_epoch=2, now_ms=NOW_MS)
    large = log.append_records([(b"a", bytes(100))], leader_epoch=3, now_ms=NOW_MS)
    assert [fenced.error_code, large.error_code] == [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.MESSAGE_TOO_LARGE]
    assert log.log_end_offset == 1
