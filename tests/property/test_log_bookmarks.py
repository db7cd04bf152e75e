"""Bookmarks at any moment, between appends, cuts, deletions and deaths: what is found from one on is what is there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.log.config import LogConfig
from tests.support import log_driver as steps
from tests.support import log_steps
from tests.support.faults import Fault, Outcome, ProcessKilled
from tests.support.log_checks import check_recovered
from tests.support.log_crashes import Round, crash_and_recover, killed_everywhere, power_losses, rounds
from tests.support.log_driver import IDEMPOTENT, PLAIN, TRANSACTIONAL, LogDriver, NewBatch
from tests.support.simulated_disk import SimulatedDisk

# Segments that outlive many steps, so that there are batches before and behind a bookmark.
configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([2048, 10**6]),
    index_interval_bytes=st.sampled_from([0, 200]),
    retention_ms=st.just(log_steps.RETENTION_MS),
)
cuts = st.builds(steps.Truncate, count=st.integers(1, 6))
bookmarks = st.just(steps.WriteBookmark())
workloads = st.builds(
    lambda before, bookmark, behind: [*before, bookmark, *behind],
    st.lists(log_steps.writes, min_size=1, max_size=4),
    bookmarks,
    st.lists(
        st.one_of(log_steps.writes, log_steps.writes, bookmarks, cuts, log_steps.checks, log_steps.moves), max_size=15
    ),
)


@given(configs, st.lists(rounds(workloads, st.none()), min_size=1, max_size=4))
def test_the_death_of_the_process_loses_nothing(config: LogConfig, incarnations: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in incarnations:
        crash_and_recover(driver, disk, each)


@given(configs, st.lists(rounds(workloads, st.none() | power_losses), min_size=2, max_size=4))
def test_processes_and_machines_die_in_turn(config: LogConfig, incarnations: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in incarnations:
        crash_and_recover(driver, disk, each)


# One bookmark and one opening, killed at every operation and every byte

CONFIG = LogConfig(index_interval_bytes=0)
WORKLOAD = (
    steps.ElectLeader(),
    steps.Append((NewBatch(TRANSACTIONAL[0]), NewBatch(IDEMPOTENT, 2), NewBatch(PLAIN))),
    steps.EndTransactions((False, False, False)),
    steps.WriteBookmark(),
    steps.Append((NewBatch(TRANSACTIONAL[1]), NewBatch(TRANSACTIONAL[0]), NewBatch(IDEMPOTENT))),
    steps.AdvanceHighWatermark(50),
    steps.EndTransactions((False, True, False)),
    steps.Append((NewBatch(TRANSACTIONAL[0]), NewBatch(IDEMPOTENT))),
)


def prepared() -> LogDriver:
    driver = LogDriver(SimulatedDisk(), CONFIG)
    for step in WORKLOAD:
        driver.take(step)
    return driver


def test_a_bookmark_survives_a_crash_at_every_byte():
    for driver in killed_everywhere(prepared(), lambda driver: driver.take(steps.WriteBookmark())):
        driver._file_system.crash_process()
        driver.open()
        check_recovered(driver, lost_power=False)
        assert driver.log.recovery.known_bytes > 0, "the new one is there, or else the old one"


@pytest.mark.parametrize("keeps", [lambda: False, lambda: True], ids=["nothing unflushed", "everything unflushed"])
def test_a_bookmark_survives_a_loss_of_power_at_every_byte(keeps):
    driver = prepared()
    driver.take(steps.Flush())
    for again in killed_everywhere(driver, lambda driver: driver.take(steps.WriteBookmark())):
        again._file_system.lose_power(keeps)
        again.open()
        check_recovered(again, lost_power=True)
        assert again.log.recovery.known_bytes == 0


@pytest.mark.parametrize("torn_bytes", [0, 70])
def test_an_opening_by_a_bookmark_survives_a_crash_at_every_operation(torn_bytes: int):
    """The last write is torn or not; where it is, the opening cuts it in the end."""
    driver = prepared()
    disk = driver._file_system
    if torn_bytes:
        with disk.injected(Fault(Outcome.KILL, done_bytes=torn_bytes)), pytest.raises(ProcessKilled):
            driver.take(steps.Append((NewBatch(IDEMPOTENT, 1, 40),)))
    disk.crash_process()
    for again in killed_everywhere(driver, LogDriver.open):
        again._file_system.crash_process()
        again.open()
        check_recovered(again, lost_power=False)


@pytest.mark.parametrize(
    "step", [steps.Truncate(2), steps.Truncate(7), steps.Reopen(), steps.DeleteRecords(100)], ids=repr
)
def test_records_behind_a_bookmark_survive_a_crash_at_every_byte(step: steps.Step):
    driver = prepared()
    driver.take(steps.WriteBookmark())
    driver.take(steps.AdvanceHighWatermark(100))
    for again in killed_everywhere(driver, lambda driver: driver.take(step)):
        again._file_system.crash_process()
        again.open()
        check_recovered(again, lost_power=False)
        # The log goes on with other batches in the place of those that were cut, and another process dies.
        again.take(steps.Append((NewBatch(PLAIN, 2), NewBatch(IDEMPOTENT))))
        again._file_system.crash_process()
        again.open()
        check_recovered(again, lost_power=False)
