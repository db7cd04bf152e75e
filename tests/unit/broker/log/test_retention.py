"""Which segments go, by size, by age and by the start of the log."""

import errno

import pytest

from eagleray.broker.log import Flush, LogConfig, LogWriteFailed, PartitionLog
from eagleray.broker.log.retention import count_expired
from tests.support.batches import NOW_MS, data_batch, offsets_of
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.logs import (
    DIRECTORY,
    OpenLog,
    append,
    append_markers,
    base_offsets,
    end_marker,
    everything,
    transactional,
)
from tests.support.simulated_disk import SimulatedDisk

SEGMENT_BYTES = 1024
HOUR_MS = 3_600_000


def full_segment(timestamp_ms: int = NOW_MS):
    """A batch that leaves no room for another in its segment."""
    return data_batch(value=b"x" * 900, timestamps_ms=[timestamp_ms], keys=[b"key"])


BATCH_BYTES = full_segment().header.size_bytes


def log_of(open_log: OpenLog, count: int, *, step_ms: int = 0, replicated: bool = True, **settings) -> PartitionLog:
    """Make a log of `count` segments with one batch each, `step_ms` apart."""
    log = open_log(segment_bytes=SEGMENT_BYTES, **settings)
    for number in range(count):
        append(log, full_segment(NOW_MS + number * step_ms), now_ms=NOW_MS + count * step_ms)
    if replicated:
        log.advance_high_watermark(log.log_end_offset)
    assert base_offsets(log) == list(range(count))
    return log


# By size


def test_segments_go_while_the_rest_is_still_as_large_as_the_limit(open_log: OpenLog) -> None:
    log = log_of(open_log, 5, retention_bytes=3 * BATCH_BYTES)
    assert log.apply_retention(NOW_MS) == 2 * BATCH_BYTES
    assert base_offsets(log) == [2, 3, 4]
    assert log.log_start_offset == 2
    assert log.apply_retention(NOW_MS) == 0


def test_a_segment_stays_if_the_log_were_smaller_than_the_limit_without_it(open_log: OpenLog) -> None:
    log = log_of(open_log, 3, retention_bytes=2 * BATCH_BYTES + 1)
    assert log.apply_retention(NOW_MS) == 0
    assert base_offsets(log) == [0, 1, 2]


def test_a_limit_of_zero_bytes_takes_even_the_active_segment(open_log: OpenLog) -> None:
    log = log_of(open_log, 2, retention_bytes=0)
    assert log.apply_retention(NOW_MS) == 2 * BATCH_BYTES
    assert (base_offsets(log), log.size_bytes) == ([2], 0)
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)


def test_without_a_limit_size_does_not_matter(open_log: OpenLog) -> None:
    log = log_of(open_log, 3, retention_bytes=-1)
    assert log.apply_retention(NOW_MS) == 0


# By age


def test_segments_go_once_their_newest_record_is_older_than_the_limit(open_log: OpenLog) -> None:
    log = log_of(open_log, 4, step_ms=100, retention_ms=HOUR_MS)
    assert log.apply_retention(NOW_MS + 100 + HOUR_MS) == BATCH_BYTES
    assert base_offsets(log) == [1, 2, 3]
    assert log.apply_retention(NOW_MS + 101 + HOUR_MS) == BATCH_BYTES
    assert base_offsets(log) == [2, 3]


def test_a_young_segment_keeps_older_ones_behind_it(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=SEGMENT_BYTES, retention_ms=HOUR_MS)
    for age_ms in (0, 500, 0):
        append(log, full_segment(NOW_MS + age_ms))
    log.advance_high_watermark(3)
    log.apply_retention(NOW_MS + HOUR_MS + 1)
    assert base_offsets(log) == [1, 2]


def test_the_active_segment_goes_for_its_age_and_the_offsets_go_on(open_log: OpenLog) -> None:
    log = log_of(open_log, 2, retention_ms=HOUR_MS)
    assert log.apply_retention(NOW_MS + HOUR_MS + 1) == 2 * BATCH_BYTES
    assert (base_offsets(log), log.log_start_offset, log.log_end_offset, log.high_watermark) == ([2], 2, 2, 2)
    append(log, data_batch(timestamps_ms=[NOW_MS + HOUR_MS]), now_ms=NOW_MS + HOUR_MS)
    assert offsets_of(everything(log)) == [2]


def test_an_empty_active_segment_is_not_rolled_again_and_again(open_log: OpenLog) -> None:
    log = log_of(open_log, 1, retention_ms=HOUR_MS)
    log.apply_retention(NOW_MS + HOUR_MS + 1)
    for _ in range(3):
        assert log.apply_retention(NOW_MS + 100 * HOUR_MS) == 0
    assert base_offsets(log) == [1]


def test_without_a_limit_age_does_not_matter(open_log: OpenLog) -> None:
    log = log_of(open_log, 3, retention_ms=-1)
    assert log.apply_retention(2**60) == 0


def test_records_without_timestamps_are_as_old_as_their_segment(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=SEGMENT_BYTES, retention_ms=HOUR_MS, now_ms=NOW_MS)
    append(log, full_segment(-1), full_segment(-1))
    log.advance_high_watermark(2)
    assert log.apply_retention(NOW_MS + HOUR_MS) == 0
    assert log.apply_retention(NOW_MS + HOUR_MS + 1) == 2 * BATCH_BYTES


# By the start of the log


def test_segments_below_the_start_go_at_once(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = log_of(open_log, 4)
    log.delete_records(2)
    assert base_offsets(log) == [2, 3]
    assert not [name for name in disk.list_directory(DIRECTORY) if name < "00000000000000000002"]


def test_compaction_alone_deletes_neither_by_age_nor_by_size(open_log: OpenLog) -> None:
    settings = {"cleanup_delete": False, "cleanup_compact": True, "retention_bytes": 0, "retention_ms": 0}
    log = log_of(open_log, 3, **settings)
    assert log.apply_retention(2**60) == 0
    log.delete_records(1)
    assert base_offsets(log) == [1, 2]


def test_the_start_of_the_log_never_takes_the_active_segment(open_log: OpenLog) -> None:
    log = log_of(open_log, 2)
    log.delete_records(2)
    assert (base_offsets(log), log.log_start_offset) == ([1], 2)
    assert log.apply_retention(NOW_MS) == 0


# By what is replicated


def test_nothing_above_the_high_watermark_goes(open_log: OpenLog) -> None:
    log = log_of(open_log, 4, replicated=False, retention_ms=HOUR_MS, retention_bytes=0)
    assert log.apply_retention(2**60) == 0
    log.advance_high_watermark(2)
    log.apply_retention(2**60)
    assert base_offsets(log) == [2, 3]
    log.advance_high_watermark(3)
    log.apply_retention(2**60)
    assert base_offsets(log) == [3]


@pytest.mark.parametrize("settings", [{"retention_ms": HOUR_MS}, {"retention_bytes": 0}], ids=["age", "size"])
def test_records_of_an_open_transaction_and_those_behind_them_stay(open_log: OpenLog, settings: dict[str, int]) -> None:
    log = open_log(segment_bytes=SEGMENT_BYTES, **settings)
    append(log, full_segment())
    append(log, transactional(value=b"x" * 900))
    append(log, full_segment())
    log.advance_high_watermark(log.log_end_offset)
    assert log.apply_retention(2**60) > 0
    assert base_offsets(log) == [1, 2], "only what is decided is old"

    append_markers(log, end_marker(7, 0, True, 1))
    assert log.apply_retention(2**60) == 0, "the end of the transaction is not replicated yet"
    log.advance_high_watermark(log.log_end_offset)
    log.apply_retention(2**60)

    assert log.log_start_offset == log.log_end_offset


def test_the_start_of_the_log_may_be_moved_beyond_an_open_transaction(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=SEGMENT_BYTES)
    append(log, transactional(value=b"x" * 900))
    append(log, full_segment())
    log.advance_high_watermark(log.log_end_offset)

    log.delete_records(1)
    log.apply_retention(NOW_MS)

    assert base_offsets(log) == [1], "an operator who deletes records means all of them"


# All of them


def test_the_reasons_are_taken_together_from_the_oldest_on(open_log: OpenLog) -> None:
    log = log_of(open_log, 6, step_ms=100, retention_bytes=4 * BATCH_BYTES, retention_ms=HOUR_MS)
    # Two too many by size, and the third is too old.
    assert count_expired(log, NOW_MS + 201 + HOUR_MS) == 3
    assert count_expired(log, NOW_MS) == 2


def test_the_epochs_of_deleted_records_go_too(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=SEGMENT_BYTES)
    for epoch in range(4):
        append(log, full_segment(), leader_epoch=epoch)
    log.advance_high_watermark(4)
    log.delete_records(2)
    assert [(start.epoch, start.start_offset) for start in log.epochs] == [(2, 2), (3, 3)]


def test_idle_producers_are_forgotten(open_log: OpenLog) -> None:
    log = open_log(producer_id_expiration_ms=HOUR_MS)
    append(log, data_batch(producer_id=7), data_batch(producer_id=8, transactional=True))
    log.apply_retention(NOW_MS + HOUR_MS - 1)
    assert len(log.producers) == 2
    log.apply_retention(NOW_MS + HOUR_MS)
    assert [entry.producer_id for entry in log.producers] == [8]


def test_a_log_of_one_empty_segment_has_nothing_to_give(open_log: OpenLog) -> None:
    log = open_log(retention_ms=0, retention_bytes=0)
    assert log.apply_retention(2**60) == 0
    assert log.config == LogConfig(retention_ms=0, retention_bytes=0)


# On a disk that is full


def full_log_of(open_log: OpenLog, disk: SimulatedDisk, count: int, **settings) -> PartitionLog:
    """Make a log of segments that are all too old, on a disk that has no room left."""
    log = log_of(open_log, count, retention_ms=HOUR_MS, **settings)
    disk.free_bytes = 0
    with pytest.raises(LogWriteFailed, match="No space left"):
        append(log, full_segment())
    return log


def test_a_full_disk_gets_room_by_retention(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = full_log_of(open_log, disk, 3)
    assert log.apply_retention(NOW_MS + 2 * HOUR_MS) >= 2 * BATCH_BYTES
    assert log.is_online
    assert log.apply_retention(NOW_MS + 2 * HOUR_MS) in (0, BATCH_BYTES)
    assert log.log_start_offset == log.log_end_offset == 3
    assert disk.free_bytes >= 2 * BATCH_BYTES
    append(log, full_segment())


def test_a_full_disk_gets_room_by_deleting_records(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = full_log_of(open_log, disk, 3)
    assert log.delete_records(2) == 2
    assert (log.log_start_offset, base_offsets(log)[:1]) == (2, [2])


def test_a_log_without_its_oldest_segments_starts_where_the_others_do(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """The checkpoint had no room, even after the first of two segments was gone, and then the process died."""
    log = log_of(open_log, 4)
    refused = Fault(
        Outcome.FAIL,
        on=Operation.WRITE,
        path_ending=".tmp",
        error_number=errno.ENOSPC,
        is_lasting=True,
    )
    with disk.injected(refused), pytest.raises(LogWriteFailed, match="the start of the log stays at 2"):
        log.delete_records(2)
    assert (log.log_start_offset, base_offsets(log), log.is_online) == (2, [2, 3], True)
    disk.crash_process()
    again = open_log(segment_bytes=SEGMENT_BYTES)
    assert (again.log_start_offset, again.log_end_offset, base_offsets(again)) == (2, 4, [2, 3])
    assert offsets_of(everything(again)) == [2, 3]


def test_a_loss_of_power_leaves_no_gap_where_segments_went_first(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = log_of(open_log, 4, flush=Flush.COMMIT)
    log.flush()
    refused = Fault(Outcome.FAIL, on=Operation.WRITE, path_ending=".tmp", error_number=errno.ENOSPC, is_lasting=True)
    log.close()
    config = LogConfig(segment_bytes=SEGMENT_BYTES, flush=Flush.COMMIT)
    for operation, skip, first in [
        (Operation.RENAME, 0, 0),
        (Operation.TRUNCATE, 0, 1),
        (Operation.RENAME, 1, 1),
        (Operation.TRUNCATE, 1, 2),
    ]:
        unlucky = disk.copy()
        other = PartitionLog.open(unlucky, DIRECTORY, config, now_ms=NOW_MS)
        power = Fault(Outcome.KILL, on=operation, path_ending=".deleted", skip=skip)
        with unlucky.injected(refused), unlucky.injected(power), pytest.raises(ProcessKilled):
            other.delete_records(2)
        unlucky.lose_power(lambda: False)
        found = PartitionLog.open(unlucky, DIRECTORY, config, now_ms=NOW_MS)
        assert base_offsets(found) == list(range(first, 4))


def test_a_segment_that_cannot_be_begun_leaves_the_log_as_it_was(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = log_of(open_log, 1, retention_ms=HOUR_MS)
    full = Fault(Outcome.FAIL, on=Operation.CREATE, error_number=errno.ENOSPC)
    with disk.injected(full):
        assert log.apply_retention(NOW_MS + 2 * HOUR_MS) == 0
    assert (base_offsets(log), log.is_online) == ([0], True)
    assert append(log, data_batch())[0].base_offset == 1
