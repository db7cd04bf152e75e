"""Looks for examples that break a property, new ones in each round, until a time is over: `make explore`.

Each test file that draws examples is run in a process of its own, WORKERS of them at a time and in another order each
round. What fails is printed at once, with the line that reproduces it, and once more at the end. Examples that fail are
kept in a database as soon as they are found: those of a file that the end of the time has interrupted are run again.
"""

import argparse
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = ("tests/property", "tests/unit", "tests/compat", "tests/simulation")
LEFT_OUT = "tests/compat/clients"

_DRAWS = re.compile(r"^(from|import) hypothesis\b", re.MULTILINE)
_EXAMPLES = re.compile(r"(\d+) passing, (\d+) failing")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py\S*)", re.MULTILINE)
_REPRODUCED_BY = re.compile(r"@reproduce_failure\(.*\)")

_POLL_SECONDS = 0.2
_GRACE_SECONDS = 30
# What pytest returns when it was interrupted, and when the file had nothing to run.
_INTERRUPTED, _NOTHING_RUN = 2, 5


@dataclass
class Findings:
    """What was explored so far, and each test that failed, with the lines that reproduce it."""

    rounds: int = 0
    examples: int = 0
    failures: dict[str, list[str]] = field(default_factory=dict)

    def take(self, output: str, file: str, exit_code: int) -> bool:
        """Take what a run of one file printed; return whether there is something in it that was not known."""
        self.examples += sum(int(passing) + int(failing) for passing, failing in _EXAMPLES.findall(output))
        if exit_code in {0, _NOTHING_RUN}:
            return False
        failed = _FAILED.findall(output)
        if not failed and exit_code != _INTERRUPTED:
            failed = [file]
        new = [test for test in failed if test not in self.failures]
        for test in new:
            self.failures[test] = _REPRODUCED_BY.findall(output)
        return bool(new)

    def summary(self) -> str:
        """Say in one sentence what was explored and found."""
        explored = f"{self.examples:,} examples in {self.rounds} {'round' if self.rounds == 1 else 'rounds'}"
        if not self.failures:
            return f"make explore: {explored}, and nothing failed."
        return f"make explore: {explored}; {', '.join(sorted(self.failures))} failed."


@dataclass
class Run:
    """The tests of one file, under way in a process of their own."""

    file: str
    process: subprocess.Popen[bytes]
    output_path: Path
    was_interrupted: bool = False

    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    @property
    def exit_code(self) -> int:
        """What pytest has returned; where it was interrupted as it started, it could not say so itself."""
        code = self.process.returncode
        return _INTERRUPTED if self.was_interrupted and code not in {0, _NOTHING_RUN} else code

    def output(self) -> str:
        """Return what it has printed."""
        return self.output_path.read_text(errors="replace")

    def interrupt(self) -> None:
        """Have pytest stop and say what has failed until now."""
        if not self.is_over():
            self.was_interrupted = True
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        """Wait for the end, for a while."""
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Explorer:
    """Runs the files until the time is over.

    Owns: the processes that it starts, each with its files below one temporary directory; none outlives it.
    """

    def __init__(self, files: list[str], directory: Path, *, workers: int, examples: int) -> None:
        self._files = files
        self._directory = directory
        self._workers = workers
        self._environment = os.environ | {"EXPLORED_EXAMPLES": str(examples)}
        self._numbers = itertools.count()
        self._running: list[Run] = []
        self._interrupted: list[str] = []
        self.findings = Findings()

    def explore(self, seconds: float) -> None:
        """Begin one file after the other until the time is over, then stop those that still run."""
        deadline = time.monotonic() + seconds
        waiting = self._in_rounds()
        try:
            while time.monotonic() < deadline:
                while len(self._running) < self._workers:
                    self._running.append(self._begin(next(waiting)))
                time.sleep(_POLL_SECONDS)
                self._collect()
        finally:
            for run in self._running:
                run.interrupt()
            self._end_all()
            self._running = [self._begin(file, "replay") for file in self._interrupted]
            self._end_all()

    def _end_all(self) -> None:
        for run in self._running:
            run.end()
        self._collect()

    def _in_rounds(self) -> Iterator[str]:
        while True:
            self.findings.rounds += 1
            shuffled = random.sample(self._files, len(self._files))
            print(f"round {self.findings.rounds}: {self.findings.examples:,} examples so far", flush=True)
            yield from shuffled

    def _begin(self, file: str, profile: str = "explore") -> Run:
        number = next(self._numbers)
        output_path = self._directory / f"{number}.txt"
        command = [sys.executable, "-m", "pytest", "-m", "hypothesis", "-p", "no:cacheprovider", "--color=no"]
        command += ["--hypothesis-show-statistics", f"--basetemp={self._directory / f'files-{number}'}", file]
        with output_path.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment | {"HYPOTHESIS_PROFILE": profile},
                start_new_session=True,
            )
        return Run(file, process, output_path)

    def _collect(self) -> None:
        for run in [run for run in self._running if run.is_over()]:
            self._running.remove(run)
            output = run.output()
            if run.exit_code == _INTERRUPTED:
                self._interrupted.append(run.file)
            if self.findings.take(output, run.file, run.exit_code):
                print(f"{'=' * 30} {run.file} {'=' * 30}\n{output}", flush=True)
            run.output_path.unlink()


def files_that_draw(root: Path) -> list[str]:
    """Return the test files that use hypothesis and start neither Ray nor a broker."""
    found = [path for folder in FOLDERS for path in sorted((root / folder).rglob("test_*.py"))]
    names = [path.relative_to(root).as_posix() for path in found if _DRAWS.search(path.read_text())]
    return [name for name in names if not name.startswith(LEFT_OUT)]


def main(arguments: list[str] | None = None) -> int:
    """Explore, print what was found, and return 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long")
    parser.add_argument("--workers", type=int, default=2, help="how many processes")
    parser.add_argument("--examples", type=int, default=2_000, help="how many of each property in a round")
    parser.add_argument("files", nargs="*", help="test files; all that draw examples, unless some are named")
    options = parser.parse_args(arguments)
    files = options.files or files_that_draw(Path.cwd())
    with tempfile.TemporaryDirectory(prefix="explore-") as directory:
        explorer = Explorer(files, Path(directory), workers=options.workers, examples=options.examples)
        try:
            explorer.explore(options.seconds)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    findings = explorer.findings
    for test, lines in findings.failures.items():
        print(f"{test}\n    {' '.join(lines) or 'see its falsifying example above'}")
    print(findings.summary())
    return 1 if findings.failures else 0


if __name__ == "__main__":
    sys.exit(main())
