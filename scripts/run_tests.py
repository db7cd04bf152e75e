"""Runs all the tests, and says in its last line what passed and what failed: `make test`.

Two runs share two cores from the beginning to the end. First the folders with Spark, one after the other, and the
tests that start no Ray, side by side in the time that Spark leaves. The folders with Ray but without Spark come where
one of the two has ended: two Rays and the tests side by side at once are too much for two slow cores. A folder that
fails keeps no other from running.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from xml.etree import ElementTree as ET

from processor_time import VARIABLE, ProcessorTime  # type: ignore[import-not-found] # it lies beside this script

WITH_SPARK = ("tests/pipelines", "tests/docs")
"""One after the other: a Spark that ends removes the native libraries that Ray's Java has unpacked since it began."""

WITHOUT_SPARK = ("tests/cluster", "tests/machines", "tests/compat/clients", "tests/torture")
"""The longest first, so that the last run is a short one."""

WITH_RAY = (*WITH_SPARK, *WITHOUT_SPARK)
# As root, and with Redis: `make test-cluster` and `make test-machines` run these.
LEFT_OUT = ("tests/deploy", "tests/machines/test_head.py")
# What `make test-quick` leaves to `make test`: folders that take a minute or more, and files that build and install the
# package, check all of it, or run pytest themselves.
NOT_QUICK = (
    "tests/simulation",
    "tests/property",
    "tests/nodes",
    "tests/fuzz",
    "tests/compat",
    "tests/crash",
    "tests/unit/test_application_types.py",
    "tests/unit/test_explore.py",
    "tests/unit/test_layers.py",
    "tests/unit/test_packaging.py",
    "tests/unit/test_run_tests.py",
)
SIDE_BY_SIDE = "the tests side by side"

_NICENESS = 10
"""Of the tests side by side, so that they take no time from those that wait for Ray."""

_GRACE_SECONDS = 60
_INTERRUPTED = 128 + signal.SIGINT
_NOTHING_FOUND = 5
"""What pytest returns where it has run no test."""

_LINES_OF_A_FAILURE = 8
_LINES_OF_A_LOG = 20


@dataclass(frozen=True)
class Command:
    """One run of pytest: what the last line calls it, and its arguments."""

    name: str
    arguments: tuple[str, ...]

    @property
    def file_name(self) -> str:
        """What its report, its log and the folder of its temporary files are called."""
        return self.name.replace("/", "-").replace(" ", "-")


@dataclass(frozen=True)
class Outcome:
    """What became of one folder of tests; `reason` says what counts of tests do not."""

    name: str
    tests: int = 0
    skipped: int = 0
    failed: int = 0
    reason: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether the folder failed."""
        return bool(self.failed or self.reason)

    def __str__(self) -> str:
        counted = f"{self.failed:,} of {self.tests:,}" if self.failed else ""
        folder = self.name if self.name == SIDE_BY_SIDE else f"tests/{self.name}"
        return f"{folder} failed ({', '.join(part for part in (counted, self.reason) if part)})"


@dataclass(frozen=True)
class Ended:
    """A run of pytest that has ended; `log` is what it has printed, None where that went to the terminal."""

    command: Command
    exit_code: int
    report: Path
    log: Path | None


Track = tuple[Command, ...]
"""Runs of which one follows the other."""


@dataclass(frozen=True)
class Plan:
    """Tracks, which run at the same time, and the runs that a track takes one by one when its own have ended."""

    tracks: tuple[Track, ...]
    afterwards: Track = ()


def plan(workers: int, chosen: Sequence[str]) -> Plan:
    """Return the plan for all tests; one run of what was `chosen`, if something was."""
    side_by_side = ("-n", str(workers), "--dist", "loadgroup")
    if chosen:
        # One who chooses also wants to see the tests of Ray, but not of three machines beside each other.
        left_out = _ignoring("tests/deploy", "tests/machines")
        return Plan(((Command(SIDE_BY_SIDE, (*side_by_side, *left_out, *chosen)),),))
    together = Command(SIDE_BY_SIDE, (*side_by_side, *_ignoring("tests/deploy", *WITH_RAY)))
    return Plan((_folders(WITH_SPARK), (together,)), _folders(WITHOUT_SPARK))


def quick_plan(workers: int) -> Plan:
    """Return the one run of what needs neither Ray nor Java nor minutes.

    It has two processes for each worker: for some of its time these tests wait, and no other run fills it.
    """
    left_out = _ignoring("tests/deploy", *WITH_RAY, *NOT_QUICK)
    return Plan(((Command(SIDE_BY_SIDE, ("-n", str(2 * workers), "--dist", "loadgroup", *left_out)),),))


def _folders(folders: Sequence[str]) -> Track:
    return tuple(Command(folder.removeprefix("tests/"), (*_ignoring(*LEFT_OUT), folder)) for folder in folders)


def _ignoring(*paths: str) -> tuple[str, ...]:
    return tuple(f"--ignore={path}" for path in paths)


class Runner:
    """Runs pytest, on each track one process at a time.

    Owns: the processes that run, all of which it waits for even when it is interrupted, so that what the tests have
    started is ended by the tests; and a thread that adds up what they use of the processor. One process alone prints to
    the terminal; of several, each prints to a log of its own, which is shown when the process has ended.
    """

    def __init__(self, pytest: Sequence[str], basetemp: Path, reports: Path) -> None:
        self._pytest = pytest
        self._basetemp = basetemp
        self._reports = reports
        self._running: dict[subprocess.Popen[bytes], tuple[Ended, list[Command]]] = {}
        self._started_s: dict[str, float] = {}
        self._processor_time = ProcessorTime()

    @property
    def names(self) -> list[str]:
        """What runs."""
        return [begun.command.name for begun, _ in self._running.values()]

    def run(self, planned: Plan) -> list[Ended]:
        """Run all that is planned; the result grows meanwhile, in the order in which the runs end."""
        ended: list[Ended] = []
        is_alone, afterwards = len(planned.tracks) == 1, list(planned.afterwards)
        self._processor_time.start()
        try:
            for first, *others in planned.tracks:
                self._start(first, others, is_alone=is_alone)
            while self._running:
                # Leaves the process that has ended to the Popen that has started it.
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                ended += self._take_ended(afterwards, is_alone=is_alone)
        except KeyboardInterrupt as interruption:
            interrupted = self.names
            self._wait_for_all(is_told=not isinstance(interruption, Terminated))
            raise Interrupted(ended, interrupted) from interruption
        finally:
            self._processor_time.stop()
        return ended

    def _start(self, command: Command, others: list[Command], *, is_alone: bool) -> None:
        self._reports.mkdir(parents=True, exist_ok=True)
        self._basetemp.mkdir(parents=True, exist_ok=True)
        report = self._reports / f"{command.file_name}.xml"
        report.unlink(missing_ok=True)
        options = (
            "--continue-on-collection-errors",
            f"--junit-xml={report}",
            # The older family of reports says in which file a test is.
            *("-o", "junit_family=xunit1"),
            f"--basetemp={self._basetemp / command.file_name}",
        )
        log = None if is_alone else report.with_suffix(".log")
        process = self._popen((*self._pytest, *options, *command.arguments), log, {VARIABLE: command.name})
        if command.name == SIDE_BY_SIDE and not is_alone:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        self._running[process] = Ended(command, 0, report, log), others
        self._started_s[command.name] = time.monotonic()
        if log is not None:
            print(f"make test: {_folder(command.name)} begin; what they print goes to {log}.", flush=True)

    @staticmethod
    def _popen(arguments: Sequence[str], log: Path | None, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **variables}
        if log is None:
            return subprocess.Popen(arguments, env=environment)
        with log.open("wb") as file:
            return subprocess.Popen(arguments, stdout=file, stderr=subprocess.STDOUT, env=environment)

    def _take_ended(self, afterwards: list[Command], *, is_alone: bool) -> list[Ended]:
        """Return the runs that have ended, and start those that follow them."""
        ended = []
        for process in [process for process in self._running if process.poll() is not None]:
            begun, others = self._running.pop(process)
            ended.append(Ended(begun.command, process.returncode, begun.report, begun.log))
            self._show(ended[-1])
            if following := others or afterwards:
                self._start(following.pop(0), others, is_alone=is_alone)
        return ended

    def _show(self, ended: Ended) -> None:
        if ended.log is None:
            return
        name = ended.command.name
        took, used = time.monotonic() - self._started_s[name], self._processor_time.used_s(name)
        print(f"\nmake test: {_folder(name)} took {_minutes(took)}, and {_minutes(used)} of a core.", flush=True)
        sys.stdout.buffer.write(ended.log.read_bytes())
        sys.stdout.flush()

    def _wait_for_all(self, *, is_told: bool) -> None:
        """Wait until every pytest has ended what its tests have started, which it does at its first SIGINT."""
        deadline_s = time.monotonic() + (_GRACE_SECONDS if is_told else 0)
        for process in self._running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0, deadline_s - time.monotonic()))
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self._running:
            process.wait()


class Terminated(KeyboardInterrupt):
    """This process alone was asked to end; Ctrl-C reaches pytest as well."""


class Interrupted(Exception):
    """A person has ended the runs: which had ended by themselves, and the names of the others."""

    def __init__(self, ended: list[Ended], names: list[str]) -> None:
        super().__init__(names)
        self.ended = ended
        self.names = names


def outcomes(ended: Ended) -> list[Outcome]:
    """Return what became of each folder that a run has covered."""
    command, exit_code = ended.command, ended.exit_code
    cases = _cases(ended.report)
    if cases is None:
        return [Outcome(command.name, reason=f"pytest ended with {exit_code} and wrote no report")]
    names = [command.name if command.name != SIDE_BY_SIDE else _folder_of(case) for case in cases]
    tests, skipped, failed = Counter(names), Counter[str](), Counter[str]()
    for name, case in zip(names, cases, strict=True):
        skipped[name] += case.find("skipped") is not None
        failed[name] += _has_failed(case)
    found = [Outcome(name, tests[name], skipped[name], failed[name]) for name in tests]
    if exit_code and not any(outcome.is_failure for outcome in found):
        reason = "no test was found" if exit_code == _NOTHING_FOUND else f"pytest ended with {exit_code}"
        found.append(Outcome(command.name, reason=reason))
    return found


def _cases(report: Path) -> list[ET.Element] | None:
    """Return the tests of a report; None where there is no whole one."""
    try:
        return list(ET.parse(report).iter("testcase"))
    except (OSError, ET.ParseError):
        return None


def _has_failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _folder_of(case: ET.Element) -> str:
    """Return the folder below tests/ of a test; a file that could not be imported has its path for a name."""
    path = (case.get("classname") or case.get("name") or "").split(".")
    return path[1] if len(path) > 1 else SIDE_BY_SIDE


def _folder(name: str) -> str:
    return name if name == SIDE_BY_SIDE else f"tests/{name}"


def _minutes(seconds: float) -> str:
    return f"{round(seconds) // 60}:{round(seconds) % 60:02}"


def failures(ended: Ended) -> list[str]:
    """Return what a reader needs of each test that failed: which it is, and the last lines of what it said."""
    cases = _cases(ended.report)
    if cases is None:
        return _end_of_log(ended)
    found = [line for case in cases if _has_failed(case) for line in _failure(case)]
    if ended.exit_code not in (0, _NOTHING_FOUND) and not found:
        return _end_of_log(ended)
    return found


def _end_of_log(ended: Ended) -> list[str]:
    lines = [] if ended.log is None else ended.log.read_text(errors="replace").splitlines()[-_LINES_OF_A_LOG:]
    return [f"{_folder(ended.command.name)}: pytest ended with {ended.exit_code}", *(f"    {line}" for line in lines)]


def _failure(case: ET.Element) -> list[str]:
    said = [line for kind in ("failure", "error") for part in case.iterfind(kind) for line in _last_lines(part)]
    return [f"FAILED {_test_id(case)}", *(f"    {line}" for line in said)]


def _last_lines(part: ET.Element) -> list[str]:
    """Return the end of what was raised; pytest marks its lines with an E where it shows the code around them."""
    lines = [line for line in (part.text or part.get("message") or "").splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("E ")]
    return [*raised[:_LINES_OF_A_FAILURE], *lines[-1:]] if raised else lines[-_LINES_OF_A_FAILURE:]


def _test_id(case: ET.Element) -> str:
    """Return what to hand to pytest to run a test again."""
    file, class_name, name = case.get("file"), case.get("classname") or "", case.get("name") or ""
    if file is None:
        return name
    inner = class_name.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
    return "::".join(part for part in (file, *inner.split("."), name) if part)


def sentence(found: Sequence[Outcome]) -> str:
    """Say what passed and what failed."""
    passed = [outcome for outcome in found if not outcome.is_failure]
    parts = []
    if passed:
        count = sum(outcome.tests - outcome.skipped for outcome in passed)
        counted = f"{count:,} {'test' if count == 1 else 'tests'}"
        skipped = sum(outcome.skipped for outcome in passed)
        counted += f", {skipped:,} more skipped" if skipped else ""
        parts.append(f"{', '.join(outcome.name for outcome in passed)} passed ({counted})")
    parts += [str(outcome) for outcome in found if outcome.is_failure]
    return f"make test: {'; '.join(parts) or 'nothing was run'}."


def run_all(planned: Plan, runner: Runner) -> int:
    """Run everything; return 0 where all passed, 1 where not, and 130 where a person has interrupted it."""
    interrupted: list[str] = []
    try:
        ended = runner.run(planned)
    except Interrupted as interruption:
        ended, interrupted = interruption.ended, interruption.names
    # Of a long output often the end alone is kept: what failed is said there once more.
    lines = [line for each in ended for line in failures(each)]
    if lines:
        print("\n".join(("", "What failed:", *lines)), flush=True)
    found = [outcome for each in ended for outcome in outcomes(each)]
    if interrupted:
        print(f"{sentence(found)[:-1]}; interrupted in {', '.join(interrupted)}.", flush=True)
        return _INTERRUPTED
    print(sentence(found), flush=True)
    return 1 if any(outcome.is_failure for outcome in found) else 0


def main(arguments: Sequence[str]) -> int:
    """Run the tests as the command line says; what follows `--` chooses some, by pytest's own options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="how many processes run the tests without Ray")
    parser.add_argument("--basetemp", type=Path, required=True, help="where tests put their files")
    parser.add_argument("--reports", type=Path, required=True, help="where pytest's reports are written")
    parser.add_argument("--quick", action="store_true", help="leave out what needs Ray, Java or minutes")
    parser.add_argument("chosen", nargs="*", help="options of pytest, for one run of some tests")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _terminate)
    planned = quick_plan(options.workers) if options.quick else plan(options.workers, options.chosen)
    runner = Runner((sys.executable, "-m", "pytest"), options.basetemp, options.reports)
    return run_all(planned, runner)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
