"""The whole log: its offsets, deleting at its front, flushing, closing and opening again."""

import pickle
from pathlib import Path

import pytest

from eagleray.broker.filesystem import LocalFileSystem
from eagleray.broker.log import (
    AbortedTransaction,
    Appended,
    Isolation,
    LogConfig,
    LogOffline,
    LogWriteFailed,
    OffsetOutOfRange,
    PartitionLog,
    Rejection,
)
from eagleray.broker.log.leader_epochs import EpochEnd
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch, offsets_of, placed
from tests.support.faults import Fault, Operation, Outcome
from tests.support.logs import (
    DIRECTORY,
    OpenLog,
    aborted_in,
    append,
    append_markers,
    base_offsets,
    end_marker,
    everything,
    full_segment,
    transactional,
)
from tests.support.simulated_disk import SimulatedDisk

COMMITTED = Isolation.READ_COMMITTED
UNCOMMITTED = Isolation.READ_UNCOMMITTED
ENOUGH_BYTES = 2**30
ABORT = end_marker(7, 0, False, 0)
COMMIT = end_marker(7, 0, True, 0)


def state_of(log: PartitionLog) -> dict[str, object]:
    """Everything that a log knows and a restart must not change."""
    return {
        "offsets": (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset),
        "segments": base_offsets(log),
        "records": everything(log),
        "epochs": list(log.epochs),
        "aborted": aborted_in(log),
        "producers": sorted(
            (entry.producer_id, entry.epoch, entry.last_sequence, entry.coordinator_epoch, entry.open_since_offset)
            for entry in log.producers
        ),
        "timestamps": [
            (segment.first_timestamp_ms, segment.largest_timestamp_ms, segment.offset_of_largest_timestamp)
            for segment in log.segments
        ],
    }


# A new log


def test_a_new_log_is_empty(open_log: OpenLog) -> None:
    log = open_log()
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset) == (0, 0, 0, 0)
    assert log.size_bytes == 0
    assert log.read(0, max_bytes=ENOUGH_BYTES, isolation=UNCOMMITTED).records == b""
    assert log.end_of_epoch(0) == EpochEnd(-1, -1)


# The high watermark


def test_the_high_watermark_rises_to_the_end_and_never_falls(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(5))
    log.advance_high_watermark(3)
    log.advance_high_watermark(1)
    assert log.high_watermark == 3
    log.advance_high_watermark(99)
    assert log.high_watermark == 5


def test_an_append_does_not_move_the_high_watermark(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(5))
    assert (log.high_watermark, log.log_end_offset) == (0, 5)


# Epochs


def test_the_end_of_an_epoch_is_where_the_next_began(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(2), leader_epoch=3)
    append(log, data_batch(2), leader_epoch=5)
    assert log.end_of_epoch(3) == EpochEnd(3, 2)
    assert log.end_of_epoch(4) == EpochEnd(3, 2)
    assert log.end_of_epoch(5) == EpochEnd(5, 4)
    assert log.end_of_epoch(6) == EpochEnd(-1, -1)


def test_a_new_epoch_is_on_disk_with_its_first_batch(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(2), leader_epoch=3)
    append(log, data_batch(2), leader_epoch=5)
    assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n3 0\n5 2\n"


# Deleting records


def test_deleted_records_are_gone_even_inside_a_batch(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(5))
    log.advance_high_watermark(5)
    assert log.delete_records(2) == 2
    assert log.log_start_offset == 2
    with pytest.raises(OffsetOutOfRange):
        log.read(1, max_bytes=ENOUGH_BYTES, isolation=UNCOMMITTED)
    # The batch stays whole on disk, and a consumer skips what it did not ask for.
    assert offsets_of(log.read(2, max_bytes=ENOUGH_BYTES, isolation=UNCOMMITTED).records) == [0, 1, 2, 3, 4]


def test_the_start_never_falls(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(5))
    log.advance_high_watermark(5)
    log.delete_records(3)
    assert log.delete_records(1) == 3
    assert log.delete_records(3) == 3


@pytest.mark.parametrize("offset", [-1, 4, 5, 6])
def test_only_replicated_records_can_be_deleted(open_log: OpenLog, offset: int) -> None:
    log = open_log()
    append(log, data_batch(5))
    log.advance_high_watermark(3)
    with pytest.raises(OffsetOutOfRange, match=f"^offset {offset} is outside of the log; expected one from 0 to 3$"):
        log.delete_records(offset)
    assert log.log_start_offset == 0


def test_a_deletion_is_on_disk_when_it_returns(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(segment_bytes=1024)
    append(log, full_segment(), full_segment(1), full_segment(2))
    log.advance_high_watermark(3)
    log.flush()
    log.delete_records(2)
    disk.lose_power(lambda: False)
    again = open_log(segment_bytes=1024)
    assert (again.log_start_offset, offsets_of(everything(again))) == (2, [2])


def test_deleting_everything_leaves_the_offsets_to_go_on(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(5))
    log.advance_high_watermark(5)
    assert log.delete_records(5) == 5
    assert log.read(5, max_bytes=ENOUGH_BYTES, isolation=UNCOMMITTED).records == b""
    assert append(log, data_batch()) == [Appended(5, 5)]


def test_producers_outlive_their_deleted_records(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=1024)
    append(log, full_segment(), full_segment(1))
    append_markers(log, COMMIT)
    log.advance_high_watermark(3)
    log.delete_records(3)
    (result,) = append(log, transactional(5))
    assert isinstance(result, Rejection)
    assert result.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_stable_offset_is_never_below_the_start(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional(), transactional(1), transactional(2))
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 0
    log.delete_records(2)
    assert log.last_stable_offset == 2
    append_markers(log, ABORT)
    assert log.last_stable_offset == 2
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    # What is left of the transaction is still named as aborted.
    found = log.read(2, max_bytes=ENOUGH_BYTES, isolation=COMMITTED)
    assert found.aborted_transactions == [AbortedTransaction(7, 0, 3, 4)]


# Flushing


def test_a_flush_moves_the_recovery_point(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(3))
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 3


def test_what_was_flushed_survives_the_loss_of_power(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(segment_bytes=1024)
    append(log, full_segment(), full_segment(1))
    log.flush()
    append(log, full_segment(2))
    disk.lose_power(lambda: False)
    assert offsets_of(everything(open_log(segment_bytes=1024))) == [0, 1]


def test_a_flush_that_fails_takes_the_log_offline(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    log.advance_high_watermark(1)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH)), pytest.raises(LogOffline, match="flushing failed"):
        log.flush()
    assert_offline(log)
    log.close()


def assert_offline(log: PartitionLog) -> None:
    attempts = [
        lambda: append(log, data_batch()),
        lambda: append_markers(log, ABORT),
        lambda: log.append_replicated([placed(data_batch(), 9, 0)], now_ms=NOW_MS),
        lambda: log.read(0, max_bytes=1, isolation=UNCOMMITTED),
        lambda: log.read_for_replica(0, max_bytes=1),
        lambda: log.offset_for_timestamp(0, UNCOMMITTED),
        lambda: log.offset_of_largest_timestamp(UNCOMMITTED),
        lambda: log.delete_records(0),
        lambda: log.truncate(0, now_ms=NOW_MS),
        lambda: log.apply_retention(NOW_MS),
        log.flush,
        log.write_checkpoint,
    ]
    for attempt in attempts:
        with pytest.raises(LogOffline, match="the log is closed or failed; open it anew"):
            attempt()


# Closing and opening again


def busy_log(open_log: OpenLog, **settings) -> PartitionLog:
    """A log in which something of everything has happened."""
    log = open_log(segment_bytes=1024, index_interval_bytes=100, **settings)
    append(log, data_batch(producer_id=9, sequence=4, value=b"x" * 400), leader_epoch=1)
    append(log, transactional(), transactional(producer_id=8), leader_epoch=1)
    append_markers(log, ABORT, leader_epoch=1)
    append(log, full_segment(1), leader_epoch=2)
    append_markers(log, end_marker(8, 2, True, 6), leader_epoch=2)
    append(log, transactional(producer_id=10), data_batch(2, timestamps_ms=[NOW_MS + 70, NOW_MS + 9]), leader_epoch=2)
    log.advance_high_watermark(8)
    log.delete_records(1)
    return log


def test_a_closed_log_opens_as_it_was_without_reading_it(open_log: OpenLog) -> None:
    log = busy_log(open_log)
    before = state_of(log)
    log.close()
    again = open_log(segment_bytes=1024, index_interval_bytes=100)
    assert (again.recovery.scanned_bytes, again.recovery.replayed_bytes, again.recovery.cut_bytes) == (0, 0, 0)
    assert state_of(again) == before


def test_a_log_whose_process_died_opens_as_it_was(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = busy_log(open_log)
    log.write_checkpoint()
    before = state_of(log)
    disk.crash_process()
    again = open_log(segment_bytes=1024, index_interval_bytes=100)
    assert again.recovery.scanned_bytes == again.active_segment.size_bytes
    assert state_of(again) == before


def test_a_log_goes_on_after_it_was_opened_again(open_log: OpenLog) -> None:
    log = busy_log(open_log)
    end_offset = log.log_end_offset
    log.close()
    again = open_log(segment_bytes=1024, index_interval_bytes=100)
    assert append(again, data_batch(producer_id=9, sequence=5), leader_epoch=2) == [Appended(end_offset, end_offset)]
    append_markers(again, end_marker(10, 0, False, 0), end_marker(7, 0, True, 0), leader_epoch=2)
    again.advance_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset
    before = state_of(again)
    again.close()
    assert state_of(open_log(segment_bytes=1024, index_interval_bytes=100)) == before


def test_a_closed_log_refuses_everything(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    log.close()
    files = disk.tree()
    assert_offline(log)
    log.close()
    assert disk.tree() == files


def test_a_log_that_was_only_opened_and_closed_writes_no_batch(open_log: OpenLog, disk: SimulatedDisk) -> None:
    open_log().close()
    assert open_log().log_end_offset == 0
    assert disk.tree()[f"{DIRECTORY}/00000000000000000000.log"] == b""


def test_the_high_watermark_of_the_last_checkpoint_comes_back(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(3), data_batch(3))
    log.advance_high_watermark(3)
    log.write_checkpoint()
    log.advance_high_watermark(6)
    disk.crash_process()
    assert open_log().high_watermark == 3


def test_the_operating_systems_disk_serves_as_well(tmp_path: Path) -> None:
    def open_(**settings: int) -> PartitionLog:
        return PartitionLog.open(LocalFileSystem(), str(tmp_path / "log"), LogConfig(**settings), now_ms=NOW_MS)

    log = busy_log(open_)
    before = state_of(log)
    log.close()
    again = open_(segment_bytes=1024, index_interval_bytes=100)
    assert state_of(again) == before
    again.truncate(5, now_ms=NOW_MS)
    again.close()


# Errors travel between processes


@pytest.mark.parametrize(
    "error", [OffsetOutOfRange(9, 1, 5), LogWriteFailed("/log: nothing was appended"), LogOffline("/log: closed")]
)
def test_errors_can_be_pickled(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.args) == (str(error), error.args)
