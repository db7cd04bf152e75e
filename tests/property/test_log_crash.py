"""A log survives the death of its process at any operation and byte, and the loss of power."""

from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.log.config import LogConfig
from tests.support import log_steps
from tests.support.log_crashes import Round, crash_and_recover, power_losses, rounds
from tests.support.log_driver import LogDriver
from tests.support.simulated_disk import SimulatedDisk


@given(log_steps.configs, st.lists(rounds(log_steps.workloads, st.none()), min_size=1, max_size=4))
def test_the_death_of_the_process_loses_nothing_that_was_acknowledged(config: LogConfig, lives: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in lives:
        crash_and_recover(driver, disk, each)


@given(log_steps.configs, st.lists(rounds(log_steps.workloads, power_losses), min_size=1, max_size=4))
def test_a_loss_of_power_loses_nothing_that_was_flushed(config: LogConfig, lives: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in lives:
        crash_and_recover(driver, disk, each)


@given(log_steps.configs, st.lists(rounds(log_steps.workloads, st.none() | power_losses), min_size=2, max_size=5))
def test_processes_and_machines_die_in_turn(config: LogConfig, lives: list[Round]):
    disk = SimulatedDisk()
    driver = LogDriver(disk, config)
    for each in lives:
        crash_and_recover(driver, disk, each)
