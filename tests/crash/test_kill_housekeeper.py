"""A process whose logs roll, are flushed beside it and are compacted is killed again and again over one directory."""

import random
import subprocess
import sys
from pathlib import Path

from eagleray.actors.storage.disk import LocalDisk
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush
from eagleray.offline.verifying import verify
from tests.crash.housekeeper import ORDERS, PRICES, open_logs
from tests.crash.kept_records import CHECKS, REPORTS, Told

ROUNDS = 12
MOST_REPORTS = 500
ROOT = Path(__file__).parents[2]


def run_and_kill(data_dir: Path, seed: int, told: Told) -> None:
    """Let a process go on where the last one was killed, and kill it after so many reports, wherever that may be."""
    command = (sys.executable, "-m", "tests.crash.housekeeper", str(data_dir), str(seed))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as housekeeper:
        assert housekeeper.stdout is not None
        try:
            for _ in range(random.Random(seed).randint(1, MOST_REPORTS)):
                line = housekeeper.stdout.readline()
                assert line.endswith(b"\n"), "the process failed before it was killed"
                told.hear(REPORTS.decode(line))
        finally:
            housekeeper.kill()
        for line in housekeeper.stdout.read().splitlines(keepends=True):
            if line.endswith(b"\n"):
                told.hear(REPORTS.decode(line))


def problems(data_dir: Path) -> list[str]:
    """What `eagleray storage verify` says is wrong; there are no metadata by which it could know the topics."""
    found = [finding for each in verify(str(data_dir)) for finding in each.findings if finding.is_problem]
    return [f"{finding.path}: {finding.what}" for finding in found]


def check(data_dir: Path, told: Told) -> set[TopicPartition]:
    """Open both logs, see that they have all that was acknowledged, and close them; return which were compacted."""
    assert problems(data_dir) == [], "a kill leaves nothing but a torn last write"
    manager, logs = open_logs(str(data_dir), LocalDisk(), Flush.OS)
    for partition, log in logs.items():
        assert log.log_end_offset >= told.end(partition)
        CHECKS[partition](told, log)
    compacted = {partition for partition, log in logs.items() if log.cleaned_up_to}
    manager.close_all()
    assert problems(data_dir) == []
    return compacted


def test_nothing_acknowledged_is_lost_by_kills_while_logs_roll_flush_and_compact(tmp_path: Path) -> None:
    told, compacted = Told(), set()
    for seed in range(1, ROUNDS + 1):
        run_and_kill(tmp_path, seed, told)
        if seed % 3 == 0:
            compacted |= check(tmp_path, told)
    assert compacted == {PRICES}
    assert len([*(tmp_path / "logs" / str(ORDERS)).glob("*.log")]) > ROUNDS
