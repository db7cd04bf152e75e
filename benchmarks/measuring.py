"""What processes take: their CPU time and their memory, from the operating system."""

import os
from contextlib import suppress
from pathlib import Path

import psutil

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


class FamilyCpu:
    """CPU time of a process and of all that it has started, between two moments.

    What has ended in between is left out: its time so far, before the first moment, too, would go with it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = self._read()

    def _read(self) -> dict[int, float]:
        found = {}
        for pid in (self._pid, *(child.pid for child in psutil.Process(self._pid).children(recursive=True))):
            with suppress(OSError):
                found[pid] = cpu_seconds(pid)
        return found

    def seconds(self) -> float:
        """What was taken since the beginning by those that are there now."""
        return sum(now - self._began.get(pid, 0.0) for pid, now in self._read().items())


def resident_mb(pid: int) -> float:
    """Memory of a process that is its own, in megabytes."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private_kb = sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))
    return private_kb / 1024


class CpuOf:
    """CPU time of processes between two moments, by what they are called."""

    def __init__(self, pids: dict[str, list[int]]) -> None:
        self._pids = pids
        self._began = self._read()

    def _read(self) -> dict[str, float]:
        return {name: sum(map(cpu_seconds, pids)) for name, pids in self._pids.items()}

    def microseconds_each(self, count: int) -> dict[str, float]:
        """What each of `count` things has taken since the beginning."""
        now = self._read()
        return {name: (now[name] - began) * 1e6 / max(count, 1) for name, began in self._began.items()}
