"""Crashes of a process and of its machine, in the middle of a workload or of a recovery."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from hypothesis import event
from hypothesis import strategies as st

from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.faults import Step as DiskStep
from tests.support.log_checks import check_recovered
from tests.support.log_driver import LogDriver, Step
from tests.support.simulated_disk import Keeps, SimulatedDisk


class PowerLoss(msgspec.Struct, frozen=True):
    """About so many percent of what was not flushed survives; the seed says which."""

    kept_percent: int
    seed: int

    def keeps(self) -> Keeps:
        chance = random.Random(self.seed)
        return lambda: chance.randrange(100) < self.kept_percent


class Crash(msgspec.Struct, frozen=True):
    """A process dies after so many changes of the disk, with so much of the next one done."""

    after_operations: int
    done_bytes: int = 0
    power_loss: PowerLoss | None = None

    def fault(self) -> Fault:
        return Fault(Outcome.KILL, skip=self.after_operations, done_bytes=self.done_bytes)


class Round(msgspec.Struct, frozen=True):
    """A workload that a crash ends, at the latest after its last step, and crashes of the recoveries from it."""

    workload: list[Step]
    crash: Crash
    crashes_of_recovery: list[Crash]


def rounds(
    workloads: st.SearchStrategy[list[Step]], power_losses: st.SearchStrategy[PowerLoss | None]
) -> st.SearchStrategy[Round]:
    done_bytes = st.one_of(st.just(0), st.just(1), st.integers(2, 500), st.just(10_000))
    crashes = st.builds(Crash, st.integers(0, 20) | st.integers(0, 120), done_bytes, power_losses)
    recovery_crashes = st.builds(Crash, st.integers(0, 6), done_bytes, power_losses)
    return st.builds(Round, workloads, crashes, st.lists(recovery_crashes, max_size=2))


power_losses = st.builds(PowerLoss, st.sampled_from([0, 50, 90, 100]), st.integers(0, 2**16))


def crash_and_recover(driver: LogDriver, disk: SimulatedDisk, each: Round) -> None:
    """Take the round's steps until the crash, recover, and check what is there."""
    crash(disk, each.crash, "workload", lambda: [driver.take(step) for step in each.workload])
    recover(driver, disk, each.crashes_of_recovery, lost_power=each.crash.power_loss is not None)


def recover(driver: LogDriver, disk: SimulatedDisk, crashes: Sequence[Crash], *, lost_power: bool) -> None:
    for each in crashes:
        crash(disk, each, "recovery", driver.open)
        lost_power |= each.power_loss is not None
    driver.open()
    check_recovered(driver, lost_power=lost_power)


def crash(disk: SimulatedDisk, plan: Crash, name: str, work: Callable[[], object]) -> None:
    """Do the work until the process dies: at the operation of the plan or, if there are fewer, at the end."""
    with disk.possibly(plan.fault()) as fault:
        try:
            work()
        except ProcessKilled:
            assert fault.has_fired
    event(f"died {'inside of' if fault.has_fired else 'after'} a {name}")
    if plan.power_loss is None:
        disk.crash_process()
    else:
        disk.lose_power(plan.power_loss.keeps())


# One work, ended at each of its operations


Work = Callable[[LogDriver], None]


def every_byte(operation: DiskStep) -> Sequence[int]:
    """How much of an operation may happen before the process dies."""
    return range(operation.size_bytes + 1)


def telling_parts(operation: DiskStep) -> Sequence[int]:
    """Nothing, all, and for a write what lies between."""
    size_bytes = operation.size_bytes
    return sorted({0, 1, size_bytes // 2, size_bytes - 1, size_bytes})


def operations_of(driver: LogDriver, work: Work) -> list[DiskStep]:
    """What the work asks of the disk; the driver stays as it is."""
    rehearsal = copy.deepcopy(driver)
    done = len(rehearsal._file_system.trace)
    work(rehearsal)
    return rehearsal._file_system.trace[done:]


def killed_everywhere(
    driver: LogDriver, work: Work, parts: Callable[[DiskStep], Sequence[int]] = every_byte
) -> Iterator[LogDriver]:
    """Yield a copy of the driver for each place in the work at which its process can die, and has."""
    for number, operation in enumerate(operations_of(driver, work)):
        for done_bytes in parts(operation):
            again = copy.deepcopy(driver)
            fault = Fault(Outcome.KILL, skip=number, done_bytes=done_bytes)
            with again._file_system.injected(fault), pytest.raises(ProcessKilled):
                work(again)
            yield again
