"""A scrub finds what a disk has changed of what was closed or flushed, and nothing where nothing was changed."""

import pytest

from eagleray.broker.log import LogConfig, LogDamaged, LogReadFailed, PartitionLog
from eagleray.broker.log.scrubbing import Scrub
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.simulated_disk import SimulatedDisk

FIRST = "/log/00000000000000000000.log"


def log_of_segments(disk):
    log = PartitionLog.open(disk, "/log", LogConfig(segment_bytes=1024), now_ms=NOW_MS)
    for _ in range(30):
        log.append([data_batch(value=b"v" * 100)], leader_epoch=0, now_ms=NOW_MS)
    assert len(log.segments) > 3
    return log


def scrub(log, max_bytes=300):
    own = Scrub(log)
    steps = 1
    while own.step(max_bytes):
        steps += 1
    return steps


def test_a_whole_log_is_looked_at_in_steps():
    log = log_of_segments(SimulatedDisk())
    assert scrub(log, max_bytes=1) == log.active_segment.base_offset
    assert scrub(log, max_bytes=2**20) == len(log.segments) - 1


@pytest.mark.parametrize("position", [100, 500, 900])
def test_a_bit_that_has_changed_is_found(position):
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    disk.rot(FIRST, position, 0b100)
    with pytest.raises(LogDamaged):
        scrub(log)


@pytest.mark.parametrize("number", [0, 1, -2], ids=["first", "second", "last closed"])
def test_a_segment_that_has_lost_its_end_is_found(number):
    """What is left is whole: a disk said that it had flushed the rest, and had not when the machine lost its power."""
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    segment = log.segments[number]
    last = segment.last_location()
    segment.truncate(last.position)
    with pytest.raises(LogDamaged):
        scrub(log)


def test_what_compaction_leaves_is_whole():
    disk = SimulatedDisk()
    config = LogConfig(segment_bytes=1024, cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0)
    log = PartitionLog.open(disk, "/log", config, now_ms=NOW_MS)
    for number in range(60):
        log.append([data_batch(value=b"v" * 100, keys=[b"%d" % (number % 7)])], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    compaction = log.compaction(NOW_MS)
    assert compaction is not None
    while compaction.step():
        pass
    assert log.cleaned_up_to > 0
    assert scrub(log) < log.active_segment.base_offset


def test_a_disk_that_does_not_answer_has_damaged_nothing():
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.READ)), pytest.raises(LogReadFailed):
        scrub(log)


def test_what_is_still_being_written_is_left_alone():
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    disk.rot(f"/log/{log.active_segment.base_offset:020}.log", 100, 1)
    scrub(log)


def test_a_bit_that_has_changed_in_the_flushed_part_of_the_active_segment_is_found():
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    log.flush()
    assert scrub(log, max_bytes=1) == log.log_end_offset
    disk.rot(f"/log/{log.active_segment.base_offset:020}.log", 100, 1)
    with pytest.raises(LogDamaged):
        scrub(log)


def test_what_is_deleted_meanwhile_is_passed_over():
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    own = Scrub(log)
    assert own.step(1)
    disk.rot(FIRST, 500, 1)
    log.advance_high_watermark(log.log_end_offset)
    log.delete_records(log.active_segment.base_offset)
    assert not own.step(2**20)


@pytest.mark.parametrize("position", [7, 15], ids=["offset", "leader epoch"])
def test_what_no_checksum_covers_is_compared_with_what_is_known(position):
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    second = log.segments[0].locate(1)
    disk.rot(FIRST, second.position + position, 0b100)
    with pytest.raises(LogDamaged):
        scrub(log)


def test_offset_that_is_missing_is_damage_where_no_compaction_can_have_taken_it():
    disk = SimulatedDisk()
    log = log_of_segments(disk)
    first, second = (log.segments[0].locate(offset) for offset in (0, 1))
    data = disk.tree()[FIRST]
    file = disk.open(FIRST)
    file.truncate(0)
    file.write((data[: second.position] + data[second.position + second.size_bytes :] + data[: first.size_bytes],))
    with pytest.raises(LogDamaged):
        scrub(log, max_bytes=1)
