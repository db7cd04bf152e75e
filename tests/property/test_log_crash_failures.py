"""A disk that fails while the log goes on: what was refused left nothing behind, what was taken stays."""

import errno

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from eagleray.broker.log.config import Flush, LogConfig
from eagleray.broker.log.errors import LogOffline, LogWriteFailed
from tests.support import log_driver as steps
from tests.support import log_steps
from tests.support.faults import CHANGES, Fault, Operation, Outcome
from tests.support.log_checks import check, check_recovered
from tests.support.log_crashes import PowerLoss, power_losses
from tests.support.log_driver import LogDriver
from tests.support.log_history import Entry
from tests.support.simulated_disk import SimulatedDisk

FAILURES = {
    "input/output error": (Outcome.FAIL, CHANGES - {Operation.FLUSH}, errno.EIO),
    "failed flush": (Outcome.FAIL, Operation.FLUSH, errno.EIO),
    "short write": (Outcome.SHORT, Operation.WRITE, 0),
}


class Trouble(msgspec.Struct, frozen=True):
    """What goes wrong during one step."""

    kind: str
    skip: int
    done_bytes: int
    is_lasting: bool
    lost_with_flush: PowerLoss

    def fault(self) -> Fault:
        outcome, operations, error_number = FAILURES[self.kind]
        # A disk that takes nothing, time after time, and never says so, does not exist.
        done_bytes = max(self.done_bytes, 1) if outcome is Outcome.SHORT else self.done_bytes
        return Fault(
            outcome,
            on=operations,
            skip=self.skip,
            done_bytes=done_bytes,
            error_number=error_number,
            is_lasting=self.is_lasting,
        )


troubles = st.builds(
    Trouble,
    kind=st.sampled_from(sorted(FAILURES)),
    skip=st.integers(0, 8),
    done_bytes=st.sampled_from([0, 1, 70, 150, 10_000]),
    is_lasting=st.booleans(),
    lost_with_flush=power_losses,
)
spaces = st.integers(0, 400)


def attempt(driver: LogDriver, disk: SimulatedDisk, step: steps.Step) -> None:
    """Take a step on a disk that may fail, and see that the log says what it did and did what it says."""
    try:
        driver.take(step)
    except LogWriteFailed:
        event("write failed")
        disk.free_bytes = None
        refused = forget_refused(driver)
        check(driver)
        if refused and not refused[0].header.is_control:
            append_again(driver, refused)
    except LogOffline:
        event("offline")
        disk.free_bytes = None
        with pytest.raises(LogOffline):
            driver.log.flush()
    if driver.log.is_online:
        check(driver)


def forget_refused(driver: LogDriver) -> list[Entry]:
    """Take what was in flight for refused, and return it."""
    refused, driver.history.in_flight = driver.history.in_flight, []
    driver.history.start_in_flight = driver.history.start_offset
    return refused


def append_again(driver: LogDriver, refused: list[Entry]) -> None:
    """Append what was refused, on a disk that may refuse it again."""
    try:
        driver.append(refused)
    except LogWriteFailed:
        event("write failed again")
        forget_refused(driver)
    except LogOffline:
        event("offline")


@given(log_steps.configs, st.lists(st.tuples(log_steps.workloads, log_steps.writes, troubles), min_size=1, max_size=3))
def test_a_failure_leaves_nothing_or_takes_the_log_offline(config: LogConfig, incarnations):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for workload, write, trouble in incarnations:
        for step in workload:
            driver.take(step)
        disk.keeps_of_failed_flush = trouble.lost_with_flush.keeps()
        with disk.possibly(trouble.fault()) as fault:
            attempt_until_offline(driver, disk, [write, *workload])
            event(f"{trouble.kind} fired: {fault.has_fired}")
        reopen_if_offline(driver)


@given(log_steps.configs, st.lists(st.tuples(log_steps.workloads, log_steps.writes, spaces), min_size=1, max_size=3))
def test_a_full_disk_refuses_and_takes_again_when_there_is_space(config: LogConfig, incarnations):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for workload, write, free_bytes in incarnations:
        for step in workload:
            driver.take(step)
        disk.free_bytes = free_bytes
        attempt_until_offline(driver, disk, [write, *workload])
        disk.free_bytes = None
        reopen_if_offline(driver)


@given(log_steps.configs, log_steps.workloads, log_steps.workloads, st.integers(0, 3), power_losses, st.booleans())
def test_after_a_failed_flush_the_next_one_that_succeeds_tells_the_truth(
    config: LogConfig, before: list[steps.Step], after: list[steps.Step], skip: int, lost: PowerLoss, dies: bool
):
    """The kernel takes pages that it failed to write for clean, and a plain flush of them does nothing."""
    config = msgspec.structs.replace(config, flush=Flush.COMMIT)
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for step in before:
        driver.take(step)
    disk.keeps_of_failed_flush = lost.keeps()
    with disk.possibly(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".log", skip=skip)):
        attempt_until_offline(driver, disk, [*after, steps.Flush()])
    if dies:
        disk.crash_process()
    driver.open()
    check_recovered(driver, lost_power=False)
    driver.take(steps.Flush())
    disk.lose_power(lambda: False)
    driver.open()
    check_recovered(driver, lost_power=True)


def attempt_until_offline(driver: LogDriver, disk: SimulatedDisk, workload: list[steps.Step]) -> None:
    for step in workload:
        attempt(driver, disk, step)
        if not driver.log.is_online:
            return


def reopen_if_offline(driver: LogDriver) -> None:
    if not driver.log.is_online:
        driver.open()
        check_recovered(driver, lost_power=False)
    driver.take(steps.Append((steps.NewBatch(steps.IDEMPOTENT),)))
    check(driver)
