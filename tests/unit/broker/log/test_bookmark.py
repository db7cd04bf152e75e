"""A bookmark spares an opening what lies before it, and is believed only where it is true."""

import errno
from collections.abc import Callable

import pytest

from eagleray.broker.log import Isolation, LogConfig, LogOffline, LogWriteFailed, PartitionLog
from eagleray.broker.log.checkpoint import note_failed_flush
from tests.support.batches import NOW_MS, data_batch, offsets_of
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.log_checks import describe_producers, offset_entries, time_entries
from tests.support.logs import (
    DIRECTORY,
    OpenLog,
    aborted_in,
    append,
    append_markers,
    base_offsets,
    end_marker,
    everything,
)
from tests.support.simulated_disk import SimulatedDisk

SMALL = {"segment_bytes": 1024, "index_interval_bytes": 0}
BOOKMARK = f"{DIRECTORY}/segment-bookmark"
ABORT = end_marker(7, 0, commit=False, coordinator_epoch=0)
COMMIT = end_marker(7, 0, commit=True, coordinator_epoch=0)


def file_of(base_offset: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}{suffix}"


def begin_transaction(log: PartitionLog, sequence: int = 0, value: bytes = b"value") -> None:
    append(log, data_batch(producer_id=7, sequence=sequence, transactional=True, value=value))


def work(log: PartitionLog) -> None:
    """Leave something of every kind in a log: an aborted transaction, an open one, a repeatable batch, two epochs."""
    begin_transaction(log)
    append(log, data_batch(2, producer_id=5), data_batch(timestamps_ms=[NOW_MS + 500]))
    append_markers(log, ABORT)
    begin_transaction(log, sequence=1)
    append(log, data_batch(producer_id=5, sequence=2), leader_epoch=1)


def put_back(disk: SimulatedDisk, data: bytes) -> None:
    """Have a bookmark that should be gone, as if whoever cut the log had forgotten it."""
    disk.remove(BOOKMARK)
    disk.open(BOOKMARK).write([data])


def state_of(log: PartitionLog) -> tuple:
    """Everything that an opening finds out."""
    return (
        log.log_end_offset,
        describe_producers(log),
        list(log.epochs),
        aborted_in(log),
        offset_entries(log.active_segment),
        time_entries(log.active_segment),
        log.producers.unstable.unreplicated,
        everything(log),
    )


def scanned_whole(disk: SimulatedDisk, **settings: object) -> tuple:
    """What a scan of the whole segment finds on a copy of the disk."""

    copy = disk.copy()
    copy.crash_process()
    copy.remove(BOOKMARK)
    return state_of(PartitionLog.open(copy, DIRECTORY, LogConfig(**settings), now_ms=NOW_MS))


# What it spares


def test_after_a_kill_only_what_came_behind_the_bookmark_is_scanned(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    known_bytes = log.size_bytes
    append_markers(log, COMMIT, leader_epoch=1)
    append(log, data_batch(producer_id=5, sequence=3), leader_epoch=2)
    disk.crash_process()
    again = open_log(index_interval_bytes=0)
    assert again.recovery.known_bytes == known_bytes
    assert again.recovery.scanned_bytes == log.size_bytes - known_bytes > 0
    assert state_of(again) == scanned_whole(disk, index_interval_bytes=0)


def test_a_bookmark_at_the_end_spares_everything(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    disk.crash_process()
    again = open_log(index_interval_bytes=0)
    assert (again.recovery.known_bytes, again.recovery.scanned_bytes) == (log.size_bytes, 0)
    assert state_of(again) == scanned_whole(disk, index_interval_bytes=0)


def test_it_serves_one_process_after_the_other(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    known_bytes = log.size_bytes
    for _ in range(3):
        append(log, data_batch(), leader_epoch=1)
        disk.crash_process()
        log = open_log(index_interval_bytes=0)
        assert log.recovery.known_bytes == known_bytes
    log.write_bookmark()
    append(log, data_batch(), leader_epoch=1)
    disk.crash_process()
    again = open_log(index_interval_bytes=0)
    assert again.recovery.known_bytes == log.size_bytes - data_batch().header.size_bytes
    assert state_of(again) == scanned_whole(disk, index_interval_bytes=0)


def test_a_clean_close_leaves_one_for_a_later_process_that_is_killed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    work(log)
    size_bytes = log.size_bytes
    log.close()
    log = open_log()
    append(log, data_batch(), leader_epoch=1)
    disk.crash_process()
    again = open_log()
    assert again.recovery.known_bytes == size_bytes
    assert again.log_end_offset == log.log_end_offset


def test_all_five_batches_of_a_producer_are_known_for_repeats(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """A snapshot of Kafka's keeps one, and a producer may have five on their way when its leader dies."""
    log = open_log()
    for sequence in range(7):
        append(log, data_batch(producer_id=5, sequence=sequence))
    log.write_bookmark()
    disk.crash_process()
    again = open_log()
    results = append(again, *[data_batch(producer_id=5, sequence=sequence) for sequence in range(2, 7)])
    assert [(result.base_offset, result.is_duplicate) for result in results] == [(each, True) for each in range(2, 7)]


def test_a_decision_that_is_not_replicated_holds_back_committed_readers(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    begin_transaction(log)
    append_markers(log, COMMIT)
    log.advance_high_watermark(1)
    log.write_bookmark()
    disk.crash_process()
    again = open_log()
    assert again.recovery.known_bytes == log.size_bytes
    assert (again.last_stable_offset, again.high_watermark) == (0, 1), "the high watermark came with the bookmark"
    again.advance_high_watermark(2)
    assert again.last_stable_offset == 2


def test_an_index_that_goes_on_has_no_entry_twice(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """The process died while it closed the segment, with more in the files than the bookmark knows."""
    log = open_log(**SMALL)
    work(log)
    log.write_bookmark()
    append_markers(log, ABORT, leader_epoch=1)
    kill = Fault(Outcome.KILL, on=Operation.REMOVE, path_ending="segment-bookmark")
    with disk.injected(kill), pytest.raises(ProcessKilled):
        append(log, data_batch(value=bytes(900)), leader_epoch=1)
    disk.crash_process()
    again = open_log(**SMALL)
    assert again.recovery.known_bytes > 0
    append(again, data_batch(value=bytes(900)), leader_epoch=1)
    assert base_offsets(again) == [0, 8]
    offsets, times, aborted = offset_entries(again.segments[0]), time_entries(again.segments[0]), aborted_in(again)
    again.close()
    closed = open_log(**SMALL)
    assert (offset_entries(closed.segments[0]), time_entries(closed.segments[0])) == (offsets, times)
    assert aborted_in(closed) == aborted
    assert len(aborted) == 2


def test_what_it_wrote_of_the_indexes_is_flushed_with_the_segment(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """No transaction is aborted behind the bookmark, so that closing the segment has nothing to add to that index."""
    log = open_log(**SMALL)
    work(log)
    log.write_bookmark()
    append(log, data_batch(value=bytes(900)), leader_epoch=1)
    log.flush()
    log.write_checkpoint()
    expected = aborted_in(log)
    disk.lose_power(lambda: False)
    again = open_log(**SMALL)
    assert again.recovery.scanned_bytes == again.active_segment.size_bytes
    assert aborted_in(again) == expected != []


# When it is not believed


CutsLog = Callable[[PartitionLog, SimulatedDisk], None]


def cut_the_end(log: PartitionLog, disk: SimulatedDisk) -> None:
    log.truncate(5, now_ms=NOW_MS)


def cut_behind_the_bookmark(log: PartitionLog, disk: SimulatedDisk) -> None:
    log.truncate(log.log_end_offset - 1, now_ms=NOW_MS)


def begin_anew(log: PartitionLog, disk: SimulatedDisk) -> None:
    log.restart_at(0, now_ms=NOW_MS)


def begin_anew_further_on(log: PartitionLog, disk: SimulatedDisk) -> None:
    log.restart_at(100, now_ms=NOW_MS)


def begin_another_segment(log: PartitionLog, disk: SimulatedDisk) -> None:
    append(log, data_batch(value=bytes(900)), leader_epoch=1)


def let_everything_expire(log: PartitionLog, disk: SimulatedDisk) -> None:
    append_markers(log, ABORT, leader_epoch=1)
    assert disk.exists(BOOKMARK), "what is left open would not expire"
    log.advance_high_watermark(log.log_end_offset)
    log.apply_retention(NOW_MS + 10**12)


def refuse_an_append(log: PartitionLog, disk: SimulatedDisk) -> None:
    torn = Fault(Outcome.FAIL, on=Operation.WRITE, done_bytes=40, error_number=errno.ENOSPC)
    with disk.injected(torn), pytest.raises(LogWriteFailed):
        append(log, data_batch(), leader_epoch=1)


@pytest.mark.parametrize(
    "change",
    [
        cut_the_end,
        cut_behind_the_bookmark,
        begin_anew,
        begin_anew_further_on,
        begin_another_segment,
        let_everything_expire,
    ],
)
def test_whatever_changes_the_segment_removes_it(open_log: OpenLog, disk: SimulatedDisk, change: CutsLog) -> None:
    log = open_log(**SMALL)
    work(log)
    log.write_bookmark()
    append(log, data_batch(), leader_epoch=1)
    assert disk.exists(BOOKMARK)
    change(log, disk)
    assert not disk.exists(BOOKMARK)


def test_a_refused_append_leaves_it(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    work(log)
    log.write_bookmark()
    before = disk.tree()[BOOKMARK]
    refuse_an_append(log, disk)
    assert disk.tree()[BOOKMARK] == before


@pytest.mark.parametrize("cut_to", [1, 5])
def test_one_that_was_not_removed_by_whoever_cut_the_log_does_not_fit(
    open_log: OpenLog, disk: SimulatedDisk, cut_to: int
) -> None:
    """What is written in the place of what was cut has the same offsets and the same lengths."""
    log = open_log()
    work(log)
    log.write_bookmark()
    stale, size_bytes = disk.read_bytes(BOOKMARK), log.size_bytes
    log.truncate(cut_to, now_ms=NOW_MS)
    append(log, data_batch(6 - cut_to, producer_id=8, value=b"other"), leader_epoch=2)
    append(log, *[data_batch(value=b"other")] * 9, leader_epoch=2)
    assert log.size_bytes > size_bytes
    put_back(disk, stale)
    disk.crash_process()
    again = open_log()
    assert again.recovery.known_bytes == 0
    assert again.log_end_offset == log.log_end_offset
    assert describe_producers(again) == describe_producers(log)
    assert not disk.exists(BOOKMARK), "nobody else may believe it either"


def test_batches_of_the_same_place_and_length_are_told_apart(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(producer_id=5, value=b"old"))
    log.write_bookmark()
    stale = disk.read_bytes(BOOKMARK)
    log.truncate(0, now_ms=NOW_MS)
    append(log, data_batch(producer_id=5, value=b"new"))
    put_back(disk, stale)
    disk.crash_process()
    assert open_log().recovery.known_bytes == 0


def test_another_boot_does_not_believe_it(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    log.flush()
    append(log, data_batch())
    log.write_bookmark()
    disk.lose_power(lambda: True)
    again = open_log()
    assert (again.recovery.known_bytes, again.recovery.scanned_bytes) == (0, log.size_bytes)
    assert not disk.exists(BOOKMARK)


def test_the_boot_of_a_failed_flush_does_not_believe_it(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    log.write_bookmark()
    written = disk.read_bytes(BOOKMARK)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".log")), pytest.raises(LogOffline):
        log.flush()
    assert not disk.exists(BOOKMARK)
    put_back(disk, written)
    again = open_log()
    assert (again.recovery.known_bytes, again.recovery.scanned_bytes) == (0, log.size_bytes)


def test_a_note_of_a_failed_flush_takes_it_away(disk: SimulatedDisk, open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch())
    log.write_bookmark()
    note_failed_flush(disk, DIRECTORY)
    assert not disk.exists(BOOKMARK)


def test_an_index_whose_flush_failed_is_built_anew(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    work(log)
    log.write_bookmark()
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".txnindex")), pytest.raises(LogOffline):
        log.close()
    again = open_log()
    assert again.recovery.known_bytes == 0
    assert not disk.exists(file_of(0, ".txnindex"))


def test_a_machine_without_a_boot_id_has_none(open_log: OpenLog, disk: SimulatedDisk, monkeypatch) -> None:
    monkeypatch.setattr(disk, "boot_id", lambda: "")
    log = open_log()
    append(log, data_batch())
    log.write_bookmark()
    log.close()
    assert not disk.exists(BOOKMARK)


def test_an_empty_segment_has_none(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    log.write_bookmark()
    assert not disk.exists(BOOKMARK)


@pytest.mark.parametrize("torn_bytes", [1, 40, 100])
def test_nothing_is_cut_on_its_word_alone(open_log: OpenLog, disk: SimulatedDisk, torn_bytes: int) -> None:
    log = open_log()
    work(log)
    log.write_bookmark()
    append(log, data_batch(), leader_epoch=1)
    end_offset, size_bytes = log.log_end_offset, log.size_bytes
    with disk.injected(Fault(Outcome.KILL, done_bytes=torn_bytes)), pytest.raises(ProcessKilled):
        append(log, data_batch(value=bytes(100)), leader_epoch=1)
    disk.crash_process()
    again = open_log()
    assert (again.log_end_offset, again.recovery.cut_bytes, again.recovery.known_bytes) == (end_offset, torn_bytes, 0)
    assert again.recovery.scanned_bytes == size_bytes + torn_bytes
    assert not disk.exists(BOOKMARK)


def test_damage_of_any_byte_of_it_costs_time_only(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    disk.crash_process()
    expected = scanned_whole(disk, index_interval_bytes=0)
    pristine = disk.copy()
    for position in range(len(disk.read_bytes(BOOKMARK))):
        struck = pristine.copy()
        struck.rot(BOOKMARK, position, 0x01)
        again = PartitionLog.open(struck, DIRECTORY, log.config, now_ms=NOW_MS)
        assert again.recovery.known_bytes == 0
        assert state_of(again) == expected
    torn = pristine.copy()
    torn.open(BOOKMARK).truncate(0)
    assert state_of(PartitionLog.open(torn, DIRECTORY, log.config, now_ms=NOW_MS)) == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("damage", ["flipped", "missing", "shorter"])
def test_an_index_that_is_not_as_it_was_is_built_anew(
    open_log: OpenLog, disk: SimulatedDisk, suffix: str, damage: str
) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    disk.crash_process()
    path = file_of(0, suffix)
    if damage == "flipped":
        disk.rot(path, 7, 0x01)
    elif damage == "missing":
        disk.remove(path)
    else:
        disk.open(path).truncate(len(disk.read_bytes(path)) - 1)
    again = open_log(index_interval_bytes=0)
    assert again.recovery.known_bytes == 0
    assert state_of(again) == scanned_whole(disk, index_interval_bytes=0)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_leader_epochs_that_were_lost_come_from_the_batches(
    open_log: OpenLog, disk: SimulatedDisk, damage: str
) -> None:
    log = open_log()
    work(log)
    log.write_bookmark()
    disk.crash_process()
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    disk.remove(path) if damage == "missing" else disk.rot(path, 0, 0x04)
    again = open_log()
    assert again.recovery.known_bytes == 0
    assert list(again.epochs) == list(log.epochs)


def test_a_log_whose_records_were_deleted_behind_it_still_has_it(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    work(log)
    log.write_bookmark()
    append(log, *[data_batch()] * 3, leader_epoch=1)
    log.advance_high_watermark(log.log_end_offset)
    log.delete_records(log.log_end_offset - 1)
    disk.crash_process()
    again = open_log()
    assert again.recovery.known_bytes > 0
    assert (again.log_start_offset, again.log_end_offset) == (log.log_start_offset, log.log_end_offset)
    assert list(again.epochs) == list(log.epochs)


# When it cannot be written


@pytest.mark.parametrize("path_ending", [".index", ".timeindex", ".txnindex", "segment-bookmark.tmp"])
@pytest.mark.parametrize("done_bytes", [0, 5])
def test_one_that_could_not_be_written_leaves_the_one_before(
    open_log: OpenLog, disk: SimulatedDisk, path_ending: str, done_bytes: int
) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    known_bytes = log.size_bytes
    append_markers(log, ABORT, leader_epoch=1)
    append(log, data_batch(timestamps_ms=[NOW_MS + 900]), data_batch(timestamps_ms=[NOW_MS + 901]), leader_epoch=1)
    full = Fault(Outcome.FAIL, on=Operation.WRITE, path_ending=path_ending, done_bytes=done_bytes)
    with disk.injected(full), pytest.raises(LogWriteFailed, match="the bookmark was not written"):
        log.write_bookmark()
    copy = disk.copy()
    copy.crash_process()
    again = PartitionLog.open(copy, DIRECTORY, log.config, now_ms=NOW_MS)
    assert again.recovery.known_bytes == known_bytes
    assert state_of(again) == scanned_whole(disk, index_interval_bytes=0)
    # The log itself goes on, and the next one has what this one should have had.
    append(log, data_batch(), leader_epoch=1)
    log.write_bookmark()
    disk.crash_process()
    again = open_log(index_interval_bytes=0)
    assert again.recovery.known_bytes == log.size_bytes
    assert state_of(again) == scanned_whole(disk, index_interval_bytes=0)


def test_a_segment_that_cannot_be_stepped_over_is_not_marked(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=10**6)
    append(log, data_batch(), data_batch())
    log.write_bookmark()
    disk.rot(file_of(0), 8, 0xFF)
    log.write_bookmark()
    assert not disk.exists(BOOKMARK)
    log.close()


def test_readers_find_what_they_look_for_after_going_on_from_one(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    work(log)
    log.write_bookmark()
    append(log, data_batch(timestamps_ms=[NOW_MS + 900]), leader_epoch=1)
    end_offset = log.log_end_offset
    disk.crash_process()
    again = open_log(index_interval_bytes=0)
    again.advance_high_watermark(end_offset)
    assert offsets_of(everything(again)) == list(range(end_offset))
    found = again.offset_for_timestamp(NOW_MS + 500, Isolation.READ_UNCOMMITTED)
    assert found is not None
    assert found.offset == 3
    assert again.offset_for_timestamp(NOW_MS + 600, Isolation.READ_UNCOMMITTED).offset == end_offset - 1
    aborted = again.read(0, max_bytes=10**6, isolation=Isolation.READ_COMMITTED).aborted_transactions
    assert [(each.first_offset, each.last_offset) for each in aborted] == [(0, 4)]
