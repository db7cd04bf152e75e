"""A real directory, as it is after a loss of power at any moment, has what was promised."""

import random
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from eagleray.broker.log import Flush, PartitionLog
from eagleray.broker.log.errors import LossNotAccepted
from eagleray.broker.log.torn_or_rotten import Verdict
from tests.crash.flushed_copy import OtherBoot, RememberingDisk
from tests.crash.housekeeper import Housekeeper, hurried, open_logs
from tests.crash.kept_records import CHECKS, Told
from tests.crash.test_kill_housekeeper import problems

LOSSES = 12
MOST_STEPS = 40


class Inline(Executor):
    """Does at once what another thread would do."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class PoweredHousekeeper:
    """A housekeeper on a disk that knows what it has flushed, and copies of that as of some moments."""

    def __init__(self, folder: Path, seed: int, flush: Flush) -> None:
        self._folder = folder
        self._copies = 0
        self.chance = random.Random(seed)
        self.told = Told()
        (folder / "data").mkdir()
        self.disk = RememberingDisk(folder / "data")
        self.housekeeper = Housekeeper(
            str(folder / "data"), seed, disk=self.disk, executor=Inline(), tell=self.told.hear, flush=flush
        )

    def work(self, steps: int) -> None:
        with hurried():
            for _ in range(steps):
                self.housekeeper.take_step()

    def lose_power(self) -> Path:
        """Return the directory that is there after the next boot; this process goes on, as if nothing had been."""
        self._copies += 1
        copy = self._folder / f"copy-{self._copies}"
        self.disk.copy_flushed(copy)
        return copy


@pytest.mark.parametrize("seed", range(3))
def test_flush_commit_loses_nothing_acknowledged_with_the_power(tmp_path: Path, seed: int) -> None:
    powered = PoweredHousekeeper(tmp_path, seed, Flush.COMMIT)
    for _ in range(LOSSES):
        powered.work(powered.chance.randint(1, MOST_STEPS))
        check_commit(powered, powered.lose_power())


def check_commit(powered: PoweredHousekeeper, copy: Path) -> None:
    manager, logs = open_logs(str(copy), OtherBoot(), Flush.COMMIT)
    for partition, log in logs.items():
        assert log.log_end_offset >= powered.told.end(partition)
        CHECKS[partition](powered.told, log)
        assert log.recovery.uncertain_from is None
    assert manager.uncertain_ends == 0
    manager.close_all()
    assert problems(copy) == []


def test_disk_that_flushes_nothing_is_noticed(tmp_path: Path) -> None:
    """Otherwise the proof above would prove nothing."""
    powered = PoweredHousekeeper(tmp_path, 0, Flush.COMMIT)
    powered.work(10)
    powered.disk.lies = True
    powered.work(10)
    with pytest.raises((AssertionError, LossNotAccepted)):
        check_commit(powered, powered.lose_power())


@pytest.mark.parametrize("seed", range(3))
def test_flush_os_loses_only_what_came_behind_the_last_flush_and_says_so(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    powered = PoweredHousekeeper(tmp_path, seed, Flush.OS)
    lost = 0
    for _ in range(LOSSES):
        powered.work(powered.chance.randint(1, MOST_STEPS))
        flushed = {partition: log.recovery_point for partition, log in powered.housekeeper.logs.items()}
        ends = {partition: powered.told.end(partition) for partition in flushed}
        copy = powered.lose_power()
        manager, logs = open_logs(str(copy), OtherBoot(), Flush.OS)
        for partition, log in logs.items():
            assert log.log_end_offset >= flushed[partition]
            CHECKS[partition](powered.told, log)
            if log.log_end_offset < ends[partition]:
                lost += 1
                assert is_reported(log), f"{partition} has lost its end, and says nothing of it"
                assert f"{partition} " in caplog.text
        assert manager.uncertain_ends + sum(manager.cuts.values()) == sum(map(is_reported, logs.values()))
        manager.close_all()
        assert problems(copy) == []
        caplog.clear()
    assert lost, "every loss of power came just behind a flush"


def is_reported(log: PartitionLog) -> bool:
    is_cut = log.recovery.verdict is Verdict.CUT_UNFLUSHED
    return is_cut or log.recovery.uncertain_from == log.log_end_offset
