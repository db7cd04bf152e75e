"""Beginning a log anew at an offset, as a follower does that shares nothing with its leader's log."""

import contextlib
import random

import pytest

from eagleray.broker.log import Appended, LogConfig, PartitionLog
from tests.support.batches import NOW_MS, data_batch, offsets_of, placed
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.logs import DIRECTORY, OpenLog, append, base_offsets, everything, full_segment
from tests.support.simulated_disk import SimulatedDisk


@pytest.mark.parametrize("offset", [0, 2, 4, 6, 50])
def test_a_restarted_log_is_empty_and_goes_on_at_the_offset(open_log: OpenLog, offset: int) -> None:
    log = open_log(segment_bytes=1024)
    append(log, *[full_segment(sequence) for sequence in range(6)], leader_epoch=9)
    log.advance_high_watermark(4)
    log.delete_records(2)
    log.restart_at(offset, now_ms=NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (offset, offset, offset)
    assert (log.last_stable_offset, base_offsets(log), everything(log)) == (offset, [offset], b"")
    assert log.producers.get(7) is None
    assert log.epochs.latest_epoch == -1


@pytest.mark.parametrize("offset", [0, 3, 50])
def test_what_follows_is_as_in_a_new_log_even_at_an_older_epoch(open_log: OpenLog, offset: int) -> None:
    log = open_log(segment_bytes=1024)
    append(log, *[full_segment(sequence) for sequence in range(3)], leader_epoch=9)
    log.restart_at(offset, now_ms=NOW_MS)
    batch = placed(data_batch(producer_id=7, sequence=4), offset, 3)
    assert log.append_replicated([batch], now_ms=NOW_MS) == [Appended(offset, offset)]
    log.close()
    log = open_log(segment_bytes=1024)
    assert offsets_of(everything(log)) == [offset]
    assert [(start.epoch, start.start_offset) for start in log.epochs] == [(3, offset)]
    entry = log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 4


@pytest.mark.parametrize("offset", [1, 3, 40])
@pytest.mark.parametrize("loses_power", [False, True])
def test_a_crash_at_any_step_leaves_a_beginning_of_the_old_log_or_an_empty_one(
    disk: SimulatedDisk, offset: int, loses_power: bool
) -> None:
    log = _open(disk)
    append(log, *[full_segment(sequence) for sequence in range(4)], leader_epoch=9)
    log.advance_high_watermark(4)
    log.delete_records(2)
    log.flush()
    old = everything(log)
    step = 0
    while _restart_and_crash(crashed := disk.copy(), offset, step, loses_power):
        left = _open(crashed)
        assert old.startswith(everything(left))
        assert left.log_start_offset <= left.high_watermark <= left.log_end_offset
        assert left.log_end_offset >= min(offset, 4)
        left.restart_at(offset, now_ms=NOW_MS)
        assert (left.log_start_offset, left.log_end_offset, left.epochs.latest_epoch) == (offset, offset, -1)
        assert left.producers.get(7) is None
        step += 1
    assert step > 10


def _open(disk: SimulatedDisk) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, LogConfig(segment_bytes=1024), now_ms=NOW_MS)


def _restart_and_crash(disk: SimulatedDisk, offset: int, step: int, loses_power: bool) -> bool:
    """Begin the log anew and die at a step of it; False where it has fewer steps."""
    disk.crash_process()
    log = _open(disk)
    with disk.possibly(Fault(Outcome.KILL, skip=step)) as fault, contextlib.suppress(ProcessKilled):
        log.restart_at(offset, now_ms=NOW_MS)
    chance = random.Random(step)
    if loses_power:
        disk.lose_power(lambda: chance.random() < 0.5)
    else:
        disk.crash_process()
    return fault.has_fired
