"""What a log finds of itself after a crash: one case for each way in which it could go wrong."""

import errno

import pytest

from eagleray.broker.log import Flush, Isolation, LogOffline, LogWriteFailed, PartitionLog
from eagleray.broker.log.errors import LogDamaged, LogReadFailed
from tests.support.batches import NOW_MS, data_batch, offsets_of, placed
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.logs import DIRECTORY, OpenLog, append, append_markers, base_offsets, end_marker, everything
from tests.support.simulated_disk import SimulatedDisk

SMALL = {"segment_bytes": 1024, "index_interval_bytes": 0}
LARGE_VALUE = bytes(600)
"""A batch with this value fills more than half of a small segment, so that each has a segment of its own."""


def nothing() -> bool:
    return False


def everything_written() -> bool:
    return True


def log_file(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def fill(log: PartitionLog, count: int, *, leader_epoch: int = 0) -> None:
    """Append batches of one record each, every one in a segment of its own."""
    for _ in range(count):
        append(log, data_batch(value=LARGE_VALUE), leader_epoch=leader_epoch)


def abort_one(log: PartitionLog) -> None:
    append(log, data_batch(producer_id=7, transactional=True))
    append_markers(log, end_marker(7, 0, commit=False, coordinator_epoch=0))


# A torn tail


@pytest.mark.parametrize("torn_bytes", [1, 12, 16, 17, 60, 61, 100])
def test_a_torn_batch_is_cut(open_log: OpenLog, disk: SimulatedDisk, torn_bytes: int) -> None:
    log = open_log()
    append(log, data_batch(3))
    whole_bytes = log.size_bytes
    with disk.injected(Fault(Outcome.KILL, done_bytes=torn_bytes)), pytest.raises(ProcessKilled):
        append(log, data_batch(2, value=LARGE_VALUE))
    disk.crash_process()
    again = open_log()
    assert (again.log_end_offset, again.size_bytes) == (3, whole_bytes)
    assert (again.recovery.cut_bytes, again.recovery.scanned_bytes) == (torn_bytes, whole_bytes + torn_bytes)
    append(again, data_batch(2))
    assert offsets_of(everything(again)) == [0, 1, 2, 3, 4]


def test_the_first_batch_of_a_log_may_be_torn_anywhere(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """The sector with the length survives and the one with the magic does not: still no message of an old format."""
    log = open_log()
    append(log, data_batch(value=LARGE_VALUE))
    assert disk.read_bytes(log_file(0))[12:17] == b"\0\0\0\0\x02"
    disk.crash_process()
    disk.rot(log_file(0), 16, 0x02)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert open_log().log_end_offset == 0


def test_after_the_death_of_a_process_only_the_last_segment_is_scanned(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, 4)
    last_bytes = log.active_segment.size_bytes
    disk.crash_process()
    again = open_log(**SMALL)
    assert again.recovery.scanned_bytes == last_bytes
    assert again.recovery.replayed_bytes == 0


def test_after_a_loss_of_power_everything_behind_the_recovery_point_is_scanned(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log(**SMALL)
    fill(log, 2)
    log.flush()
    log.write_checkpoint()
    fill(log, 2)
    disk.lose_power(everything_written)
    again = open_log(**SMALL)
    assert again.recovery.scanned_bytes == 2 * again.segments[0].size_bytes
    assert again.log_end_offset == 4


def test_a_segment_that_lost_its_end_is_not_followed_by_the_next(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """Whole batches can be missing, so that nothing is torn; only the next segment's name tells."""
    log = open_log(**SMALL)
    append(log, data_batch())
    log.flush()
    append(log, data_batch())
    fill(log, 2)
    disk.open(log_file(2)).flush()
    disk.open(log_file(3)).flush()
    disk.flush_directory(DIRECTORY)
    disk.lose_power(nothing)
    again = open_log(**SMALL)
    assert (again.log_end_offset, base_offsets(again)) == (1, [0])


def test_a_follower_of_a_compacted_log_keeps_its_segments_together(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """Its leader has offsets missing where the follower begins a segment, which is no loss of this disk."""
    log = open_log(**SMALL)
    batches = [placed(data_batch(value=LARGE_VALUE), offset, 0) for offset in (0, 10, 500)]
    log.append_replicated(batches, now_ms=NOW_MS)
    assert base_offsets(log) == [0, 1, 11]
    disk.lose_power(everything_written)
    assert offsets_of(everything(open_log(**SMALL))) == [0, 10, 500]


def test_an_offset_that_no_index_can_hold_is_damage(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, data_batch(), data_batch())
    disk.crash_process()
    disk.rot(log_file(0), log.segments[0].size_bytes // 2 + 2, 0x01)
    with pytest.raises(LogDamaged, match="nothing was changed"):
        open_log(**SMALL)


def test_an_offset_that_goes_back_is_damage(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, data_batch(), data_batch(), data_batch())
    disk.crash_process()
    disk.rot(log_file(0), log.segments[0].size_bytes // 3 + 7, 0x01)
    with pytest.raises(LogDamaged, match="nothing was changed"):
        open_log(**SMALL)


# What was refused


def test_an_append_over_two_segments_that_fails_leaves_neither_half(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, data_batch())
    batches = [data_batch(value=LARGE_VALUE, producer_id=5, sequence=number) for number in range(3)]
    full = Fault(Outcome.FAIL, on=Operation.WRITE, path_ending=log_file(3), error_number=errno.ENOSPC)
    with disk.injected(full), pytest.raises(LogWriteFailed, match="No space left"):
        append(log, *batches)
    assert (log.log_end_offset, base_offsets(log)) == (1, [0])
    assert log.producers.get(5) is None
    results = append(log, *batches)
    assert [result.base_offset for result in results] == [1, 2, 3]
    assert not any(result.is_duplicate for result in results)


def test_a_new_segment_that_was_refused_is_not_there(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """An empty segment behind the end would make the log begin again at its offset."""
    log = open_log(**SMALL)
    append(log, data_batch())
    refused = Fault(Outcome.FAIL, on=Operation.CREATE, path_ending=log_file(2), done_bytes=1)
    with disk.injected(refused), pytest.raises(LogWriteFailed):
        append(log, data_batch(value=LARGE_VALUE), data_batch(value=LARGE_VALUE))
    assert log.log_end_offset == 1
    assert append(log, data_batch())[0].base_offset == 1


def test_an_append_whose_leader_epoch_is_not_written_is_refused(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    fault = Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending="leader-epoch-checkpoint.tmp")
    with disk.injected(fault), pytest.raises(LogWriteFailed):
        append(log, data_batch(), leader_epoch=1)
    assert (log.log_end_offset, log.epochs.latest_epoch) == (1, 0)
    append(log, data_batch(), leader_epoch=1)
    assert log.end_of_epoch(0).end_offset == 1


def test_a_disk_that_fails_twice_takes_the_log_offline(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    torn = Fault(Outcome.FAIL, on=Operation.WRITE, done_bytes=40)
    stuck = Fault(Outcome.FAIL, on=Operation.TRUNCATE, is_lasting=True)
    with disk.injected(torn), disk.injected(stuck), pytest.raises(LogOffline):
        append(log, data_batch())
    with pytest.raises(LogOffline):
        log.read(0, max_bytes=1, isolation=Isolation.READ_UNCOMMITTED)
    assert open_log().log_end_offset == 1


def test_a_log_that_cannot_be_opened_says_so(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    disk.crash_process()
    with disk.injected(Fault(Outcome.FAIL, on=Operation.READ)), pytest.raises(LogOffline, match="could not be opened"):
        open_log()
    assert open_log().log_end_offset == 1


def test_a_deletion_that_cannot_be_written_down_deletes_nothing(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, 3)
    log.advance_high_watermark(3)
    refused = Fault(Outcome.FAIL, on=Operation.WRITE)
    with disk.injected(refused), pytest.raises(LogWriteFailed, match="the start of the log stays at 0"):
        log.delete_records(2)
    assert (log.log_start_offset, base_offsets(log)) == (0, [0, 1, 2])
    assert log.delete_records(2) == 2


def test_a_deletion_that_may_or_may_not_be_written_down_takes_the_log_offline(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log(**SMALL)
    fill(log, 3)
    log.advance_high_watermark(3)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH_DIRECTORY)), pytest.raises(LogOffline):
        log.delete_records(2)
    assert open_log(**SMALL).log_start_offset == 2


# Leader epochs


def test_an_epoch_that_begins_in_a_closed_segment_is_known_after_a_crash(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    """The process dies between the two segments of one append, the first of the new epoch."""
    log = open_log(**SMALL)
    append(log, data_batch())
    with disk.injected(Fault(Outcome.KILL, path_ending=log_file(2), done_bytes=1)), pytest.raises(ProcessKilled):
        append(log, data_batch(value=LARGE_VALUE), data_batch(value=LARGE_VALUE), leader_epoch=5)
    disk.crash_process()
    again = open_log(**SMALL)
    assert again.end_of_epoch(0).end_offset == 1
    assert again.epochs.epoch_at(1) == 5


def test_an_epoch_that_recovery_found_outlives_a_clean_close(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    fault = Fault(Outcome.KILL, on=Operation.CREATE, path_ending="leader-epoch-checkpoint.tmp")
    with disk.injected(fault), pytest.raises(ProcessKilled):
        append(log, data_batch(), leader_epoch=5)
    disk.crash_process()
    open_log().close()
    assert open_log().epochs.epoch_at(1) == 5


def test_epochs_without_their_file_come_from_the_batches(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    for epoch in (1, 2, 3):
        fill(log, 2, leader_epoch=epoch)
    before = list(log.epochs)
    log.close()
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert list(open_log(**SMALL).epochs) == before


# Cutting and deleting


def test_a_cut_of_a_log_that_was_closed_is_noticed_by_the_next_process(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, 4)
    log.close()
    again = open_log(**SMALL)
    fault = Fault(Outcome.KILL, on=Operation.REMOVE, path_ending=log_file(3), done_bytes=1)
    with disk.injected(fault), pytest.raises(ProcessKilled):
        again.truncate(2, now_ms=NOW_MS)
    disk.crash_process()
    assert open_log(**SMALL).log_end_offset == 3


def test_what_was_cut_does_not_come_back_between_what_was_written_after(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(value=b"old 0"), data_batch(value=b"old 1"))
    log.truncate(0, now_ms=NOW_MS)
    append(log, data_batch(value=b"new 0"), data_batch(value=b"new 1"))
    size_bytes = log.size_bytes // 2
    kept = iter([True] * (log.size_bytes // 32 * 2 + 4))
    assert size_bytes * 2 == log.size_bytes
    # Of the two writes the first sectors survive, of the names everything.
    disk.lose_power(lambda: next(kept, False))
    assert b"old" not in everything(open_log())


def test_a_cut_that_a_process_has_seen_stays_cut(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """A process died between cutting the file and flushing the cut; another has seen what was left, and went on."""
    log = open_log()
    append(log, data_batch(), data_batch(value=b"old"))
    log.flush()
    log.write_checkpoint()
    log.write_bookmark()
    cut = Fault(Outcome.KILL, on=Operation.TRUNCATE, path_ending=".log", done_bytes=1)
    with disk.injected(cut), pytest.raises(ProcessKilled):
        log.truncate(1, now_ms=NOW_MS)
    disk.crash_process()
    assert open_log().log_end_offset == 1
    disk.lose_power(nothing)
    assert open_log().log_end_offset == 1


def test_a_segment_that_comes_back_from_below_the_start_does_no_harm(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """Its removal was not flushed, and neither were its batches: it is torn, and the rest of the log is not."""
    log = open_log(**SMALL)
    fill(log, 3, leader_epoch=-1)
    log.advance_high_watermark(3)
    log.delete_records(2)
    disk.open(log_file(2)).flush()
    disk.lose_power(nothing)
    assert disk.exists(log_file(0))
    again = open_log(**SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (2, 3)
    assert offsets_of(everything(again)) == [2]


def test_a_log_that_lost_more_than_was_deleted_goes_on_at_its_start(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, 3)
    log.advance_high_watermark(3)
    log.delete_records(3)
    disk.lose_power(nothing)
    again = open_log(**SMALL)
    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (3, 3, 3)
    assert append(again, data_batch())[0].base_offset == 3


# The loss of power


def test_flushing_keeps_the_names_of_new_segments(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, 3)
    log.flush()
    disk.lose_power(nothing)
    assert open_log(**SMALL).log_end_offset == 3


def test_the_indexes_of_closed_segments_outlive_a_loss_of_power(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    abort_one(log)
    fill(log, 2)
    log.flush()
    log.write_checkpoint()
    disk.lose_power(nothing)
    again = open_log(**SMALL)
    assert again.recovery.scanned_bytes < again.size_bytes
    again.advance_high_watermark(4)
    assert len(again.read(0, max_bytes=10**6, isolation=Isolation.READ_COMMITTED).aborted_transactions) == 1
    assert again.segments[0].largest_timestamp_ms == NOW_MS


def test_indexes_that_recovery_built_outlive_a_loss_of_power(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    abort_one(log)
    fill(log, 2)
    disk.lose_power(everything_written)
    again = open_log(**SMALL)
    assert again.recovery.scanned_bytes == again.size_bytes
    again.flush()
    again.write_checkpoint()
    disk.lose_power(nothing)
    last = open_log(**SMALL)
    last.advance_high_watermark(4)
    assert len(last.read(0, max_bytes=10**6, isolation=Isolation.READ_COMMITTED).aborted_transactions) == 1


def test_what_a_process_has_seen_of_names_stays_seen(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """A process died between writing the new start and flushing its name; another showed that start to readers."""
    log = open_log(**SMALL)
    fill(log, 3, leader_epoch=-1)
    log.advance_high_watermark(3)
    log.flush()
    with disk.injected(Fault(Outcome.KILL, on=Operation.FLUSH_DIRECTORY)), pytest.raises(ProcessKilled):
        log.delete_records(2)
    disk.crash_process()
    assert open_log(**SMALL).log_start_offset == 2
    disk.lose_power(nothing)
    assert open_log(**SMALL).log_start_offset == 2


@pytest.mark.parametrize("dies", [True, False], ids=["in a new process", "in the same process"])
def test_after_a_failed_flush_everything_is_written_again(open_log: OpenLog, disk: SimulatedDisk, dies: bool) -> None:
    log = open_log(**SMALL)
    fill(log, 2)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=log_file(0))), pytest.raises(LogOffline):
        log.flush()
    if dies:
        disk.crash_process()
    again = open_log(**SMALL)
    again.flush()
    disk.lose_power(nothing)
    assert offsets_of(everything(open_log(**SMALL))) == [0, 1]


def test_a_segment_that_cannot_be_flushed_is_not_closed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL, flush=Flush.COMMIT)
    fill(log, 1)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=log_file(0))), pytest.raises(LogOffline):
        fill(log, 1)
    again = open_log(**SMALL, flush=Flush.COMMIT)
    assert base_offsets(again) == [0]
    fill(again, 1)
    again.flush()
    disk.lose_power(nothing)
    assert open_log(**SMALL).log_end_offset == 2


# Damage


def test_a_damaged_checkpoint_deletes_nothing(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    fill(log, 3)
    log.close()
    digits = disk.read_bytes(f"{DIRECTORY}/partition-checkpoint").index(b'"log_start_offset": 0') + 20
    disk.rot(f"{DIRECTORY}/partition-checkpoint", digits, 0x09)
    again = open_log(**SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (0, 3)
    assert again.recovery.scanned_bytes == again.size_bytes


def test_closed_log_whose_end_is_missing_is_damaged(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """It was flushed when the log was closed."""
    log = open_log()
    append(log, data_batch())
    size_bytes = log.size_bytes
    append(log, data_batch())
    log.close()
    disk.open(log_file(0)).truncate(size_bytes)
    with pytest.raises(LogDamaged, match="it ends at 1, and the log went on to 2"):
        open_log()


def test_a_lost_index_is_built_for_its_segment_alone(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    abort_one(log)
    fill(log, 4)
    aborted = log.segments[0].transaction_index[0]
    log.close()
    for suffix in (".index", ".timeindex", ".txnindex"):
        disk.remove(log_file(0, suffix))
    again = open_log(**SMALL)
    assert again.recovery.scanned_bytes == again.segments[0].size_bytes
    assert again.segments[0].transaction_index[0] == aborted
    again.close()
    assert open_log(**SMALL).recovery.scanned_bytes == 0


def test_a_damaged_closed_segment_is_reported_and_left_alone(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """Nothing was being written there, so it is no torn tail, and what follows must not go with it."""
    log = open_log(**SMALL)
    fill(log, 4)
    log.close()
    disk.remove(log_file(1, ".index"))
    disk.rot(log_file(1), 100, 0xFF)
    before = disk.tree()[log_file(3)]
    with pytest.raises(LogDamaged, match="segment 1 is damaged"):
        open_log(**SMALL)
    assert disk.tree()[log_file(3)] == before


def test_a_batch_that_cannot_be_stepped_over_is_not_skipped_by_readers(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, data_batch(), data_batch(), data_batch())
    size_bytes = log.size_bytes // 3
    fill(log, 2)
    log.close()
    disk.rot(log_file(0), size_bytes + 8, 0xFF)
    again = open_log(**SMALL)
    with pytest.raises(LogDamaged):
        again.read_for_replica(1, max_bytes=10**6)
    assert offsets_of(again.read_for_replica(3, max_bytes=10**6)) == [3]


def test_a_disk_that_cannot_be_read_says_so_and_may_be_asked_again(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    log.advance_high_watermark(1)
    for read in (
        lambda: log.read(0, max_bytes=100, isolation=Isolation.READ_UNCOMMITTED),
        lambda: log.read_for_replica(0, max_bytes=100),
        lambda: log.offset_for_timestamp(NOW_MS, Isolation.READ_UNCOMMITTED),
        lambda: log.offset_of_largest_timestamp(Isolation.READ_UNCOMMITTED),
    ):
        with (
            disk.injected(Fault(Outcome.FAIL, on=Operation.READ)),
            pytest.raises(LogReadFailed, match="reading failed"),
        ):
            read()
        assert read()


def test_a_record_that_cannot_be_decoded_is_no_surprise_to_a_search_by_time(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log(**SMALL)
    append(log, data_batch())
    fill(log, 1)
    log.advance_high_watermark(2)
    log.close()
    disk.rot(log_file(0), 61, 0xFF)
    again = open_log(**SMALL)
    with pytest.raises(LogReadFailed):
        again.offset_for_timestamp(NOW_MS, Isolation.READ_UNCOMMITTED)


def test_a_rotten_index_entry_is_found_out_when_it_is_used(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, *[data_batch()] * 4)
    fill(log, 1)
    log.close()
    # The second entry now claims an offset of its predecessor's batch, and would lead past it.
    disk.rot(log_file(0, ".index"), 8 + 3, 0x01)
    again = open_log(**SMALL)
    assert [offsets_of(again.read_for_replica(offset, max_bytes=1)) for offset in range(4)] == [[0], [1], [2], [3]]


@pytest.mark.parametrize("damage", ["flipped", "missing", "empty"])
def test_a_damaged_snapshot_gives_way_to_an_older_one(open_log: OpenLog, disk: SimulatedDisk, damage: str) -> None:
    log = open_log(**SMALL)
    for sequence in range(4):
        append(log, data_batch(value=LARGE_VALUE, producer_id=5, sequence=sequence))
    disk.crash_process()
    path = log_file(3, ".snapshot")
    if damage == "flipped":
        disk.rot(path, 20, 0x01)
    elif damage == "empty":
        disk.open(path).truncate(0)
    else:
        disk.remove(path)
    again = open_log(**SMALL)
    assert again.recovery.replayed_bytes > 0
    entry = again.producers.get(5)
    assert entry is not None
    assert entry.last_sequence == 3
    repeated = append(again, data_batch(value=LARGE_VALUE, producer_id=5, sequence=3))[0]
    assert (repeated.base_offset, repeated.is_duplicate) == (3, True)


def test_a_lost_time_index_still_tells_how_young_the_segment_is(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(segment_bytes=1024, index_interval_bytes=10**6, retention_ms=1000)
    append(log, data_batch(timestamps_ms=[NOW_MS]), data_batch(timestamps_ms=[NOW_MS + 500]))
    fill(log, 1)
    log.advance_high_watermark(3)
    log.close()
    disk.open(log_file(0, ".timeindex")).truncate(0)
    again = open_log(segment_bytes=1024, index_interval_bytes=10**6, retention_ms=1000)
    assert again.segments[0].largest_timestamp_ms == NOW_MS + 500
    assert again.apply_retention(NOW_MS + 1400) == 0
