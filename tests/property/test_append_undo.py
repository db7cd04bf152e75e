"""An append that fails, at whatever step of it, leaves the log in memory and on the disk as it was before."""

import copy
import errno
from operator import methodcaller

import pytest
from hypothesis import event, given, settings

from eagleray.broker.log.config import Flush, LogConfig
from eagleray.broker.log.errors import LogOffline, LogWriteFailed
from tests.support import log_driver as steps
from tests.support import log_steps
from tests.support.faults import Fault, Operation, Outcome
from tests.support.log_checks import check, check_recovered
from tests.support.log_crashes import operations_of, telling_parts
from tests.support.log_driver import IDEMPOTENT, PLAIN, TRANSACTIONAL, LogDriver, NewBatch
from tests.support.log_state import describe_log
from tests.support.simulated_disk import SimulatedDisk

BEFORE = (
    steps.Append((NewBatch(TRANSACTIONAL[0]), NewBatch(IDEMPOTENT, 2), NewBatch(TRANSACTIONAL[2]))),
    steps.ElectLeader(),
    steps.EndTransactions((False, True, True)),
    *[steps.Append((NewBatch(IDEMPOTENT),))] * 6,
    steps.AdvanceHighWatermark(50),
    steps.WriteBookmark(),
    steps.Append((NewBatch(TRANSACTIONAL[1]), NewBatch(TRANSACTIONAL[0]))),
)
FLUSHES = {Operation.FLUSH, Operation.FLUSH_DIRECTORY}
WRITES = {
    "several producers": (steps.Append((NewBatch(IDEMPOTENT), NewBatch(PLAIN), NewBatch(TRANSACTIONAL[2]))),),
    "more than the cached batches of one producer": (steps.Append((NewBatch(IDEMPOTENT),) * 8),),
    "a new leader epoch": (steps.ElectLeader(), steps.Append((NewBatch(IDEMPOTENT, in_new_epoch=True),))),
    "markers": (steps.EndTransactions((False, False, False), even_empty=True),),
    "three segments": (
        steps.ElectLeader(),
        steps.Append((NewBatch(TRANSACTIONAL[0], 1, 300), *[NewBatch(IDEMPOTENT, 2, 300)] * 6)),
    ),
}


def fail_everywhere(driver: LogDriver, write: steps.Step) -> int:
    """Fail a write at each operation and in the middle of it; return how often the log was as it was before."""
    undone = 0
    for number, operation in enumerate(operations_of(driver, methodcaller("take", write))):
        for done_bytes in telling_parts(operation):
            again = copy.deepcopy(driver)
            disk = again._file_system
            before = describe_log(again.log, disk)
            fault = Fault(Outcome.FAIL, skip=number, done_bytes=done_bytes, error_number=errno.ENOSPC)
            looks = Fault(Outcome.FAIL, on=Operation.READ, path_ending=".log", is_lasting=True)
            try:
                with disk.injected(fault), disk.possibly(looks):
                    again.take(write)
            except LogOffline:
                assert operation.operation in FLUSHES, "what is not a flush can be undone"
                assert again.config.flush is Flush.COMMIT
                continue
            except LogWriteFailed:
                undone += 1
            else:
                # The name of a file that goes, or its checksum, may stay.
                assert operation.operation is Operation.REMOVE
                continue
            assert not looks.has_fired, "the batches were read again"
            assert describe_log(again.log, disk) == before
            assert again.log.recovery_point <= again.log.log_end_offset, "what is gone does not count as flushed"
            again.history.in_flight = []
            again.take(write)
            check(again)
    return undone


@pytest.mark.parametrize("flush", Flush)
@pytest.mark.parametrize("name", WRITES)
def test_a_failed_append_leaves_everything_as_it_was(name: str, flush: Flush):
    config = LogConfig(segment_bytes=1024, index_interval_bytes=0, retention_ms=1000, flush=flush)
    driver = LogDriver(SimulatedDisk(), config)
    *before, write = (*BEFORE, *WRITES[name])
    for step in before:
        driver.take(step)
    assert fail_everywhere(driver, write)


@settings(max_examples=20)
@given(log_steps.configs, log_steps.workloads, log_steps.writes)
def test_any_append_that_fails_is_undone(config: LogConfig, workload: list[steps.Step], write: steps.Step):
    driver = LogDriver(SimulatedDisk(), config)
    for step in workload:
        driver.take(step)
    event(f"has undone: {fail_everywhere(driver, write) > 0}")


def test_a_log_is_found_again_after_a_refused_append_and_a_crash():
    """A bookmark from before the append goes on to say the truth."""
    driver = LogDriver(SimulatedDisk(), LogConfig(index_interval_bytes=0))
    for step in BEFORE[:-1]:
        driver.take(step)
    disk = driver._file_system
    torn = Fault(Outcome.FAIL, on=Operation.WRITE, done_bytes=70, error_number=errno.ENOSPC)
    with disk.injected(torn), pytest.raises(LogWriteFailed):
        driver.take(BEFORE[-1])
    driver.history.in_flight = []
    driver.take(steps.Append((NewBatch(IDEMPOTENT), NewBatch(PLAIN))))
    disk.crash_process()
    driver.open()
    assert driver.log.recovery.known_bytes > 0
    check_recovered(driver, lost_power=False)
