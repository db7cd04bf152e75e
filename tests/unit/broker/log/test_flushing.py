"""A flush beside the log's work: what it promises whatever happens to the log meanwhile."""

import pytest

from eagleray.broker.log import Flush, LogConfig, PartitionLog, Surroundings
from eagleray.broker.log.errors import LogDamaged
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.logs import DIRECTORY, OpenLog, append
from tests.support.simulated_disk import SimulatedDisk

SMALL = {"segment_bytes": 1024, "index_interval_bytes": 0}
LARGE_VALUE = bytes(600)
NOTE = f"{DIRECTORY}/recovery-point"


def flush_now(log: PartitionLog) -> None:
    begun = log.begin_flush()
    log.finish_flush(begun, begun.run())


def nothing() -> bool:
    return False


def test_closed_segments_and_the_open_one_are_flushed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    for _ in range(4):
        append(log, data_batch(value=LARGE_VALUE))
    flush_now(log)
    assert log.recovery_point == 4
    disk.lose_power(nothing)
    again = open_log(**SMALL)
    assert (again.log_end_offset, again.recovery_point) == (4, 4)
    assert again.recovery.scanned_bytes == again.active_segment.size_bytes


def test_what_is_appended_meanwhile_is_not_taken_for_flushed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log(**SMALL)
    append(log, data_batch())
    begun = log.begin_flush()
    append(log, data_batch(value=LARGE_VALUE), data_batch(value=LARGE_VALUE))
    log.finish_flush(begun, begun.run())
    assert log.recovery_point == 1
    log.flush()
    disk.lose_power(nothing)
    assert open_log(**SMALL).log_end_offset == 3, "the names of segments begun meanwhile are flushed, too"


def test_log_that_is_cut_meanwhile_does_not_count_as_flushed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(), data_batch(), data_batch())
    begun = log.begin_flush()
    log.truncate(1, now_ms=NOW_MS)
    append(log, data_batch(), data_batch(), data_batch())
    log.finish_flush(begun, begun.run())
    assert log.recovery_point <= 1
    disk.crash_process()
    assert open_log().recovery_point <= 1


def test_note_of_another_generation_of_the_checkpoint_says_nothing(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    flush_now(log)
    log.truncate(0, now_ms=NOW_MS)
    disk.crash_process()
    assert open_log().recovery_point == 0


def test_log_is_not_opened_as_that_of_another_topic(disk: SimulatedDisk) -> None:
    def open_as(topic_id: bytes) -> PartitionLog:
        return PartitionLog.open(
            disk, DIRECTORY, LogConfig(), now_ms=NOW_MS, surroundings=Surroundings(topic_id=topic_id)
        )

    log = open_as(b"one")
    append(log, data_batch())
    flush_now(log)
    disk.crash_process()
    assert open_as(b"one").recovery_point == 1
    with pytest.raises(LogDamaged, match=b"one".hex()):
        open_as(b"two")


@pytest.mark.parametrize("is_gone", [True, False])
def test_note_that_is_damaged_or_gone_costs_time_only(open_log: OpenLog, disk: SimulatedDisk, is_gone: bool) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    flush_now(log)
    disk.crash_process()
    disk.remove(NOTE) if is_gone else disk.rot(NOTE, 30, 0x01)
    again = open_log()
    assert (again.log_end_offset, again.recovery_point) == (2, 0)


def test_disk_that_takes_no_note_has_flushed_all_the_same(open_log: OpenLog, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, data_batch())
    begun = log.begin_flush()
    with disk.injected(Fault(Outcome.FAIL, on=Operation.CREATE, path_ending="recovery-point.tmp")):
        assert begun.run() is None
    log.finish_flush(begun, None)
    assert log.recovery_point == 1


def test_byte_that_rots_behind_a_flush_is_damage_after_a_boot(open_log: OpenLog, disk: SimulatedDisk) -> None:
    """The checkpoint was written before anything was flushed."""
    log = open_log()
    append(log, data_batch(), data_batch())
    flush_now(log)
    disk.lose_power(nothing)
    disk.rot(f"{DIRECTORY}/{0:020d}.log", log.size_bytes // 2 + 30, 0x01)
    with pytest.raises(LogDamaged):
        open_log()


@pytest.mark.parametrize("flush", Flush)
@pytest.mark.parametrize("others_in_sync", [False, True])
def test_end_that_is_gone_without_a_trace_is_uncertain(
    open_log: OpenLog, disk: SimulatedDisk, flush: Flush, others_in_sync: bool
) -> None:
    """Only a sole replica that acknowledges before it flushes can have lost something so."""
    log = open_log(flush=flush)
    append(log, data_batch())
    flush_now(log)
    append(log, data_batch(), data_batch())
    disk.lose_power(nothing)
    surroundings = Surroundings(others_in_sync=others_in_sync)
    again = PartitionLog.open(disk, DIRECTORY, LogConfig(flush=flush), now_ms=NOW_MS, surroundings=surroundings)
    assert again.log_end_offset == 1
    assert again.recovery.verdict is None
    assert again.recovery.uncertain_from == (1 if flush is Flush.OS and not others_in_sync else None)


@pytest.mark.parametrize("ends", ["by kill", "by close"])
def test_end_of_a_log_that_lost_no_power_is_certain(open_log: OpenLog, disk: SimulatedDisk, ends: str) -> None:
    log = open_log()
    append(log, data_batch())
    if ends == "by close":
        log.close()
        disk.lose_power(nothing)
    else:
        disk.crash_process()
    again = open_log()
    assert (again.log_end_offset, again.recovery.uncertain_from) == (1, None)


def test_log_that_ends_at_its_bookmark_and_before_its_recovery_point_is_damaged(
    open_log: OpenLog, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, data_batch(), data_batch())
    log.write_bookmark()
    size_bytes = log.active_segment.size_bytes
    append(log, data_batch(), data_batch())
    flush_now(log)
    disk.crash_process()
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(size_bytes)
    file.close()
    with pytest.raises(LogDamaged, match="it ends at 2, and the log went on to 4"):
        open_log()
