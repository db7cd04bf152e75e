"""One workload, killed at every operation of the disk, and one append, killed at every byte."""

import copy
from operator import methodcaller

import pytest

from eagleray.broker.log.config import Flush, LogConfig
from tests.support import log_driver as steps
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.log_checks import check_recovered
from tests.support.log_crashes import killed_everywhere, telling_parts
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


def take_all(driver: LogDriver, workload: tuple[steps.Step, ...]) -> None:
    for step in workload:
        driver.take(step)


def die(disk: SimulatedDisk, keeps) -> None:
    disk.crash_process() if keeps is None else disk.lose_power(keeps)


@pytest.mark.parametrize(("config", "keeps"), endings())
def test_a_workload_survives_a_crash_at_every_operation(config: LogConfig, keeps):
    driver = LogDriver(SimulatedDisk(), config)
    driver.take(WORKLOAD[0])
    resumed = 0
    for step in WORKLOAD[1:]:
        for again in killed_everywhere(driver, methodcaller("take", step), telling_parts):
            die(again._file_system, keeps)
            again.open()
            check_recovered(again, lost_power=keeps is not None)
            resumed += again.log.recovery.known_bytes > 0
        driver.take(step)
    assert (resumed > 0) is (keeps is None), "a bookmark is for those who outlive a process in the same boot"


@pytest.mark.parametrize(("config", "keeps"), endings(("flushed by the system",)))
def test_an_append_survives_a_crash_at_every_byte(config: LogConfig, keeps):
    driver = LogDriver(SimulatedDisk(), config)
    take_all(driver, WORKLOAD[:3])
    for again in killed_everywhere(driver, methodcaller("take", WORKLOAD[3])):
        die(again._file_system, keeps)
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
    rehearsal.open()
    assert rehearsal.log.recovery.cut_bytes == 70
    for again in killed_everywhere(driver, LogDriver.open, telling_parts):
        die(again._file_system, keeps)
        again.open()
        check_recovered(again, lost_power=True)
