"""The newest writes of a log, in memory: what is kept, and when it is let go."""

import pytest

from eagleray.broker.log import LogConfig, LogWriteFailed, PartitionLog
from eagleray.broker.log.tail import TAIL_BYTES, Tail
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.logs import append, everything, full_segment
from tests.support.simulated_disk import SimulatedDisk


def kept_log(disk: SimulatedDisk | None = None, **settings: object) -> PartitionLog:
    log = PartitionLog.open(disk or SimulatedDisk(), "/log", LogConfig(**settings), now_ms=NOW_MS)
    log.tail.is_wanted = True
    return log


def test_it_gives_everything_from_the_beginning_of_a_write_on():
    log = kept_log()
    append(log, data_batch(), data_batch())
    append(log, data_batch())
    assert log.tail.since(0) == everything(log)
    assert log.tail.since(2) == log.read_for_replica(2, max_bytes=TAIL_BYTES)


def test_inside_of_a_write_and_where_nothing_was_written_it_knows_nothing():
    log = kept_log()
    append(log, data_batch(), data_batch())
    assert log.tail.since(1) is None
    assert log.tail.since(2) is None


def test_nothing_is_kept_unless_somebody_wants_it():
    log = kept_log()
    log.tail.is_wanted = False
    append(log, data_batch())
    assert log.tail.since(0) is None


def test_a_write_that_begins_a_segment_begins_there():
    log = kept_log(segment_bytes=1024)
    append(log, full_segment(0), full_segment(1))
    assert len(log.segments) == 2
    assert log.tail.since(0) == everything(log)
    assert log.tail.since(1) == log.read_for_replica(1, max_bytes=TAIL_BYTES)


def test_the_oldest_goes_when_there_is_too_much():
    tail = Tail()
    half = bytes(TAIL_BYTES // 2)
    for offset in range(3):
        tail.add(offset, half)
    assert tail.since(0) is None
    assert tail.since(1) == half + half


def test_a_write_that_is_too_large_leaves_no_gap():
    log = kept_log(max_message_bytes=2 * TAIL_BYTES)
    append(log, data_batch())
    append(log, data_batch(value=bytes(TAIL_BYTES)))
    assert log.tail.since(0) is None
    append(log, data_batch())
    assert log.tail.since(1) is None
    assert log.tail.since(2) == log.read_for_replica(2, max_bytes=TAIL_BYTES)


def test_what_everybody_has_is_let_go():
    tail = Tail()
    for offset in range(3):
        tail.add(offset, b"x")
    tail.forget_before(2)
    assert tail.since(1) is None
    assert tail.since(2) == b"x"


def test_what_was_not_written_or_was_cut_off_is_not_kept():
    disk = SimulatedDisk()
    log = kept_log(disk)
    append(log, data_batch())
    with disk.injected(Fault(Outcome.FAIL, on=Operation.WRITE)), pytest.raises(LogWriteFailed):
        append(log, data_batch())
    assert log.tail.since(1) is None
    append(log, data_batch(), data_batch())
    log.truncate(2, now_ms=NOW_MS)
    assert log.tail.since(1) is None
    append(log, data_batch())
    assert log.tail.since(2) == log.read_for_replica(2, max_bytes=TAIL_BYTES)
