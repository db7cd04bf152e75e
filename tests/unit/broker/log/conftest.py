"""A log on a disk in memory."""

import pytest

from eagleray.broker.log import LogConfig, PartitionLog
from tests.support.batches import NOW_MS
from tests.support.logs import DIRECTORY, OpenLog
from tests.support.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def open_log(disk: SimulatedDisk) -> OpenLog:
    """Open the log of this test, as often as it likes; the keywords are the settings of `LogConfig`."""

    def open_(*, now_ms: int = NOW_MS, **settings: object) -> PartitionLog:
        return PartitionLog.open(disk, DIRECTORY, LogConfig(**settings), now_ms=now_ms)

    return open_
