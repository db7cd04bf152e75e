"""What the processes of each run of tests use of the processor, Ray's and Spark's among them.

The system adds up only what a parent has waited for, and Ray waits for none of its workers. So the processes are looked
at, once in a while: what one uses after the last look at it is not seen.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "EAGLERAY_TEST_RUN"
"""A process belongs to the run that this variable of its environment names, which it hands down to all it starts."""

_LOOK_S = 1.0
_TICKS_IN_A_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A process at one moment."""

    pid: int
    parent_pid: int
    started: int
    used_s: float


class ProcessorTime:
    """Adds up what the processes of each run use. Owns: a thread that looks, from `start` to `stop`."""

    def __init__(self) -> None:
        self._used_s: Counter[str] = Counter()
        self._known: dict[tuple[int, int], tuple[str, float]] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no longer."""
        self._is_over.set()
        self._thread.join()

    def used_s(self, run: str) -> float:
        """Return what the processes of a run have used, as far as it was seen."""
        return self._used_s[run]

    def _look_again_and_again(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Add what was used since the last look."""
        runs = {pid: run for (pid, _), (run, _) in self._known.items()}
        seen: dict[tuple[int, int], tuple[str, float]] = {}
        for process in _processes():
            key = process.pid, process.started
            run, before_s = self._known.get(key) or (_run_of(process, runs), 0.0)
            seen[key] = run, process.used_s
            self._used_s[run] += process.used_s - before_s  # type: ignore[assignment] # a counter of seconds
        self._known = seen


def _run_of(process: Process, runs: dict[int, str]) -> str:
    """Return the run of a process that was not seen before; some of Ray's write their names over their environment."""
    marker = f"{VARIABLE}=".encode()
    try:
        variables = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    except OSError:
        variables = []
    named = (variable.removeprefix(marker).decode() for variable in variables if variable.startswith(marker))
    return next(named, runs.get(process.parent_pid, ""))


def _processes() -> Iterator[Process]:
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except OSError:
            continue
        # The name, in brackets, may have blanks and brackets in it; the numbers follow it.
        numbers = status.rpartition(")")[2].split()
        used_s = (int(numbers[11]) + int(numbers[12])) / _TICKS_IN_A_SECOND
        yield Process(int(pid), int(numbers[1]), int(numbers[19]), used_s)
