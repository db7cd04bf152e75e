"""What a log's directory says about a loss of power: whether everything that was acknowledged is on the disk."""

import contextlib

import msgspec
import pytest

from eagleray.broker.log import Flush, LogConfig, LogDamaged, LogOffline, PartitionLog
from eagleray.broker.log.checkpoint import read_checkpoint
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.simulated_disk import SimulatedDisk

COMMIT, OS = LogConfig(flush=Flush.COMMIT), LogConfig(flush=Flush.OS)


def open_log(disk, config):
    return PartitionLog.open(disk, "/log", config, now_ms=NOW_MS)


def append(log, count=1):
    for _ in range(count):
        log.append([data_batch()], leader_epoch=0, now_ms=NOW_MS)


def survives(disk):
    """Whether the disk says so after a loss of power that takes everything that was not flushed."""
    after = disk.copy()
    after.lose_power(lambda: False)
    return read_checkpoint(after, "/log").checkpoint.survives_loss_of_power


def test_a_log_that_flushes_first_says_so_before_anything_is_in_it():
    disk = SimulatedDisk()
    log = open_log(disk, COMMIT)
    append(log)
    assert survives(disk)
    log.flush()
    assert survives(disk)


def test_a_log_that_does_not_flush_survives_where_it_was_closed_and_not_opened_again():
    disk = SimulatedDisk()
    log = open_log(disk, OS)
    append(log)
    log.write_checkpoint()
    assert not survives(disk)
    log.close()
    assert survives(disk)
    log = open_log(disk, OS)
    assert survives(disk), "nothing has changed yet"
    append(log)
    assert not survives(disk)


def test_a_log_that_begins_to_flush_says_so_when_what_it_had_is_flushed():
    disk = SimulatedDisk()
    log = open_log(disk, OS)
    append(log)
    log.reconfigure(COMMIT)
    append(log)
    log.write_checkpoint()
    assert not survives(disk)
    log.flush()
    log.write_checkpoint()
    assert survives(disk)


@pytest.mark.parametrize("is_opened_anew", [False, True])
def test_a_log_that_is_to_flush_no_longer_says_so_before_it_does_not(is_opened_anew):
    disk = SimulatedDisk()
    log = open_log(disk, COMMIT)
    append(log)
    if is_opened_anew:
        disk.crash_process()
        open_log(disk, OS)
    else:
        log.reconfigure(OS)
    assert not survives(disk)


def test_a_log_whose_disk_takes_no_other_settings_is_offline():
    disk = SimulatedDisk()
    log = open_log(disk, COMMIT)
    append(log)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.RENAME)), pytest.raises(LogOffline):
        log.reconfigure(OS)
    assert not log.is_online


def test_a_failed_flush_leaves_it_open_what_survives():
    disk = SimulatedDisk()
    log = open_log(disk, COMMIT)
    append(log)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".log")), pytest.raises(LogOffline):
        log.flush()
    assert not survives(disk)


def test_a_log_that_has_failed_knows_where_it_ended_before():
    disk = SimulatedDisk()
    log = open_log(disk, OS)
    append(log, 3)
    with (
        disk.possibly(Fault(Outcome.FAIL, on=Operation.WRITE, done_bytes=20)),
        disk.injected(Fault(Outcome.FAIL, on=Operation.TRUNCATE, is_lasting=True)),
        pytest.raises(LogOffline),
    ):
        append(log)
    assert (log.is_online, log.log_end_offset) == (False, 3)
    assert open_log(disk, OS).log_end_offset == 3


@pytest.mark.parametrize("number", [0, 1, -2], ids=["first", "second", "last closed"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["short", "empty"])
@pytest.mark.parametrize("closes", [False, True], ids=["killed", "closed"])
def test_a_closed_segment_that_has_lost_its_end_with_the_power_is_missed(number, is_empty, closes):
    """What is left is whole: a disk said that it had flushed the rest, and had not."""
    disk = SimulatedDisk()
    log = open_log(disk, msgspec.structs.replace(COMMIT, segment_bytes=1024))
    append(log, 80)
    log.flush()
    log.write_checkpoint()
    assert len(log.segments) > 3
    segment = log.segments[number]
    left_bytes = 0 if is_empty else segment.last_location().position
    if closes:
        log.close()
    path = f"/log/{segment.base_offset:020}.log"
    with contextlib.closing(disk.open(path)) as file:
        file.truncate(left_bytes)
    disk.lose_power(lambda: True)
    with pytest.raises(LogDamaged, match=f"segment {segment.base_offset} is damaged: it ends at "):
        open_log(disk, COMMIT)
