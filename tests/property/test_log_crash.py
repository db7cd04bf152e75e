"""A log survives the death of its process at any operation and byte, and the loss of power."""

from hypothesis import example, given
from hypothesis import strategies as st

from eagleray.broker.log.config import LogConfig
from tests.support import log_driver as steps
from tests.support import log_steps
from tests.support.log_crashes import Crash, Round, crash_and_recover, power_losses, rounds
from tests.support.log_driver import LogDriver
from tests.support.simulated_disk import SimulatedDisk


@given(log_steps.configs, st.lists(rounds(log_steps.workloads, st.none()), min_size=1, max_size=4))
@example(
    LogConfig(segment_bytes=log_steps.SEGMENT_BYTES, index_interval_bytes=0, retention_ms=log_steps.RETENTION_MS),
    [
        Round(
            [
                steps.Append((steps.NewBatch(steps.TRANSACTIONAL[0]),)),
                steps.AdvanceHighWatermark(100),
                steps.EndTransactions(commit=(False, False, False)),
                steps.Append((steps.NewBatch(steps.PLAIN),)),
                steps.Reopen(),
                steps.Append((steps.NewBatch(steps.PLAIN),)),
                steps.WriteBookmark(),
            ],
            Crash(120),
            [],
        ),
    ],
).via("a log that was closed had forgotten that a decision was not replicated, and a scan had not")
def test_the_death_of_the_process_loses_nothing_that_was_acknowledged(config: LogConfig, incarnations: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in incarnations:
        crash_and_recover(driver, disk, each)


@given(log_steps.configs, st.lists(rounds(log_steps.workloads, power_losses), min_size=1, max_size=4))
def test_a_loss_of_power_loses_nothing_that_was_flushed(config: LogConfig, incarnations: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in incarnations:
        crash_and_recover(driver, disk, each)


@given(log_steps.configs, st.lists(rounds(log_steps.workloads, st.none() | power_losses), min_size=2, max_size=5))
def test_processes_and_machines_die_in_turn(config: LogConfig, incarnations: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in incarnations:
        crash_and_recover(driver, disk, each)
