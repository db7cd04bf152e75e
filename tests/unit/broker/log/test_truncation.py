"""Cutting the end of a log off, as a follower does whose leader does not have it."""

import pytest

from eagleray.broker.log import AbortedTransaction, Appended, LogDamaged
from eagleray.broker.log.leader_epochs import EpochEnd
from tests.support.batches import NOW_MS, data_batch, offsets_of, placed
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

ABORT = end_marker(7, 0, False, 0)
COMMIT = end_marker(7, 0, True, 0)


@pytest.mark.parametrize(
    ("to_offset", "end_offset"),
    [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (5, 5), (6, 6), (7, 6), (8, 6), (9, 9), (99, 9)],
)
def test_a_cut_takes_whole_batches(open_log: OpenLog, to_offset: int, end_offset: int) -> None:
    log = open_log()
    append(log, data_batch(2), data_batch(2), data_batch(), data_batch(), data_batch(3))
    log.truncate(to_offset, now_ms=NOW_MS)
    assert log.log_end_offset == end_offset
    assert offsets_of(everything(log)) == list(range(end_offset))
    assert append(log, data_batch()) == [Appended(end_offset, end_offset)]


@pytest.mark.parametrize("to_offset", range(6))
def test_a_cut_goes_through_any_number_of_segments(open_log: OpenLog, disk: SimulatedDisk, to_offset: int) -> None:
    log = open_log(segment_bytes=1024)
    append(log, *[full_segment(sequence) for sequence in range(6)])
    log.truncate(to_offset, now_ms=NOW_MS)
    assert base_offsets(log) == list(range(max(to_offset, 1)))
    assert log.log_end_offset == to_offset
    behind = [name for name in disk.list_directory(DIRECTORY) if name[:20].isdigit() and int(name[:20]) > to_offset]
    assert behind == []
    assert append(log, full_segment(to_offset)) == [Appended(to_offset, to_offset)]


def test_a_log_that_loses_more_than_it_should_by_a_cut_goes_offline(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """The disk has damaged a closed segment, of which the cut makes the last: the one that is looked at again."""
    log = open_log(segment_bytes=1024)
    append(log, *[full_segment(sequence) for sequence in range(3)])
    disk.rot(f"{DIRECTORY}/{1:020}.log", 100, 1)
    with pytest.raises(LogDamaged):
        log.truncate(2, now_ms=NOW_MS)
    assert not log.is_online
    assert open_log(segment_bytes=1024).log_end_offset == 1


def test_a_cut_takes_back_what_the_producers_did(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional())
    append_markers(log, ABORT)
    append(log, transactional(1), transactional(2))
    append_markers(log, end_marker(7, 3, False, 9))
    log.truncate(3, now_ms=NOW_MS)
    entry = log.producers.get(7)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.coordinator_epoch, entry.open_since_offset) == (0, 1, 0, 2)
    assert aborted_in(log) == [AbortedTransaction(7, 0, 1, 2)]
    assert append(log, transactional(1)) == [Appended(2, 2, is_duplicate=True)]
    assert append(log, transactional(2)) == [Appended(3, 3)]


def test_a_cut_takes_the_high_watermark_and_the_last_stable_offset_along(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), transactional())
    append_markers(log, COMMIT)
    append(log, data_batch())
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    log.truncate(3, now_ms=NOW_MS)
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)
    log.truncate(2, now_ms=NOW_MS)
    # Without its marker the transaction is open again.
    assert (log.high_watermark, log.last_stable_offset) == (2, 1)


def test_a_cut_takes_the_epochs_of_what_is_gone(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    for epoch in (1, 2, 3):
        append(log, data_batch(2), leader_epoch=epoch)
    log.truncate(4, now_ms=NOW_MS)
    assert [(start.epoch, start.start_offset) for start in log.epochs] == [(1, 0), (2, 2)]
    assert disk.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n2 2\n"
    assert append(log, data_batch(), leader_epoch=2) == [Appended(4, 4)]


def test_a_cut_below_the_start_leaves_an_empty_log_at_its_start(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(4), data_batch(4))
    log.advance_high_watermark(8)
    log.delete_records(6)
    log.truncate(3, now_ms=NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (6, 6, 6)
    assert everything(log) == b""
    assert append(log, data_batch()) == [Appended(6, 6)]


def test_a_follower_that_cuts_can_take_the_leaders_batches(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), leader_epoch=1)
    log.truncate(1, now_ms=NOW_MS)
    batch = placed(data_batch(2), 1, 2)
    assert log.append_replicated([batch], now_ms=NOW_MS) == [Appended(1, 2)]
    assert log.end_of_epoch(1) == EpochEnd(1, 1)


def test_cut_inside_of_a_batch_takes_all_of_it_and_is_no_damage(open_log: OpenLog) -> None:
    log = open_log()
    append(log, data_batch(4), data_batch(4))
    log.advance_high_watermark(8)
    log.truncate(5, now_ms=NOW_MS)
    assert (log.log_end_offset, log.high_watermark) == (4, 4)
