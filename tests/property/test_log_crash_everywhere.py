"""One workload, killed at every operation of the disk, and one append, killed at every byte."""

import copy

import pytest

from eagleray.broker.log.config import Flush, LogConfig
from tests.support import log_driver as steps
from tests.support.faults import Fault, Outcome, ProcessKilled, Step
from tests.support.log_checks import check_recovered
from tests.support.log_driver import IDEMPOTENT, PLAIN, TRANSACTIONAL, LogDriver, NewBatch
from tests.support.simulated_disk import SimulatedDisk

CONFIGS = {
    "flushed by the system": LogConfig(segment_bytes=1024, index_interval_bytes=0, retention_ms=1000),
    "flushed by commit": LogConfig(segment_bytes=1024, index_interval_bytes=0, retention_ms=1000, flush=Flush.COMMIT),
}
ENDINGS = {
    "the process dies": None,
    "power is lost with everything unflushed": lambda: False,
    "power is lost with nothing unflushed": lambda: True,
}

WORKLOAD = (
    steps.Append((NewBatch(TRANSACTIONAL[0]), NewBatch(IDEMPOTENT, 2), NewBatch(PLAIN))),
    steps.EndTransactions((False, False, False)),
    steps.ElectLeader(),
    # Two segments in one append, the second of which begins inside of the new epoch.
    steps.Append(
        (NewBatch(TRANSACTIONAL[1], 1, 300), NewBatch(TRANSACTIONAL[0], 1, 300), NewBatch(IDEMPOTENT, 1, 300))
    ),
    steps.AdvanceHighWatermark(60),
    steps.WriteBookmark(),
    steps.BeginFlush(),
    steps.EndTransactions((True, False, False)),
    steps.FinishFlush(),
    steps.Flush(),
    steps.WriteCheckpoint(),
    steps.WriteBookmark(),
    steps.Append((NewBatch(TRANSACTIONAL[0], 2, 40), NewBatch(TRANSACTIONAL[2], 2, 300))),
    steps.WriteBookmark(),
    steps.Truncate(3),
    # The cut batches and those in their place are of the same length.
    steps.Append((NewBatch(TRANSACTIONAL[0], 2, 40), NewBatch(TRANSACTIONAL[2], 2, 300))),
    steps.Truncate(1),
    steps.Append((NewBatch(IDEMPOTENT, 1, 300), NewBatch(TRANSACTIONAL[0], 1, 300), NewBatch(PLAIN, 3, 40))),
    steps.Reopen(),
    steps.Append((NewBatch(TRANSACTIONAL[1]),)),
    steps.WriteBookmark(),
    steps.BeginFlush(),
    steps.Truncate(1),
    steps.EndTransactions((False, True, False), even_empty=True),
    steps.FinishFlush(),
    steps.AdvanceHighWatermark(100),
    steps.DeleteRecords(70),
    steps.Append((NewBatch(TRANSACTIONAL[2]), NewBatch(IDEMPOTENT, in_new_epoch=True))),
    steps.AdvanceHighWatermark(100),
    steps.ApplyRetention(2000),
    steps.Append((NewBatch(IDEMPOTENT), NewBatch(TRANSACTIONAL[0]))),
    steps.Reopen(),
)


def endings(config_names=tuple(CONFIGS)):
    return [
        pytest.param(CONFIGS[name], keeps, id=f"{name}, {ending}")
        for name in config_names
        for ending, keeps in ENDINGS.items()
    ]


def parts_of(step: Step) -> list[int]:
    """How much of an operation happens before the process dies: nothing, all, and for a write what lies between."""
    size_bytes = step.size_bytes
    return sorted({0, 1, size_bytes // 2, size_bytes - 1, size_bytes})


def take_all(driver: LogDriver, workload: tuple[steps.Step, ...]) -> None:
    for step in workload:
        driver.take(step)


def die(disk: SimulatedDisk, keeps) -> None:
    disk.crash_process() if keeps is None else disk.lose_power(keeps)


@pytest.mark.parametrize(("config", "keeps"), endings())
def test_a_workload_survives_a_crash_at_every_operation(config: LogConfig, keeps):
    rehearsal = SimulatedDisk()
    driver = LogDriver(rehearsal, config)
    driver.take(WORKLOAD[0])
    beginning = len(rehearsal.trace)
    take_all(driver, WORKLOAD[1:])
    resumed = 0
    for number, operation in enumerate(rehearsal.trace[beginning:]):
        for done_bytes in parts_of(operation):
            disk = SimulatedDisk()
            driver = LogDriver(disk, config)
            driver.take(WORKLOAD[0])
            with disk.injected(Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)), pytest.raises(ProcessKilled):
                take_all(driver, WORKLOAD[1:])
            die(disk, keeps)
            driver.open()
            check_recovered(driver, lost_power=keeps is not None)
            resumed += driver.log.recovery.known_bytes > 0
    assert (resumed > 0) is (keeps is None), "a bookmark is for those who outlive a process in the same boot"


@pytest.mark.parametrize(("config", "keeps"), endings(("flushed by the system",)))
def test_an_append_survives_a_crash_at_every_byte(config: LogConfig, keeps):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    take_all(driver, WORKLOAD[:3])
    rehearsal = copy.deepcopy(driver)
    done = len(disk.trace)
    rehearsal.take(WORKLOAD[3])
    for number, operation in enumerate(rehearsal._file_system.trace[done:]):
        for done_bytes in range(operation.size_bytes + 1):
            again = copy.deepcopy(driver)
            disk = again._file_system
            with disk.injected(Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)), pytest.raises(ProcessKilled):
                again.take(WORKLOAD[3])
            die(disk, keeps)
            again.open()
            check_recovered(again, lost_power=keeps is not None)


@pytest.mark.parametrize(("config", "keeps"), endings(("flushed by the system",)))
def test_a_recovery_survives_a_crash_at_every_operation(config: LogConfig, keeps):
    """The log was left with a torn batch in the second of its segments, and dies again while that is repaired."""
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    take_all(driver, WORKLOAD[:11])
    torn = Fault(Outcome.KILL, done_bytes=70)
    with disk.injected(torn), pytest.raises(ProcessKilled):
        driver.take(steps.Append((NewBatch(IDEMPOTENT, 1, 40),)))
    # The torn bytes reach the disk, so that every recovery has to cut them.
    disk.lose_power(lambda: True)
    rehearsal = copy.deepcopy(driver)
    done = len(disk.trace)
    rehearsal.open()
    assert rehearsal.log.recovery.cut_bytes == 70
    for number, operation in enumerate(rehearsal._file_system.trace[done:]):
        for done_bytes in parts_of(operation):
            again = copy.deepcopy(driver)
            disk = again._file_system
            with disk.injected(Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)), pytest.raises(ProcessKilled):
                again.open()
            die(disk, keeps)
            again.open()
            check_recovered(again, lost_power=True)
