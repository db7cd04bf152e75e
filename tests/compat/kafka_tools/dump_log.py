"""Runs kafka.tools.DumpLogSegments of Apache Kafka on files of ours: an oracle that we did not write.

A test asks for the `kafka_tools` fixture, and hands all its files to one call, because each starts a JVM:

    dump = kafka_tools.dump(directory / "00000000000000000000.log", directory / "00000000000000000000.index")
    assert dump.problems == ()
    assert [batch.base_offset for batch in dump.files[log].batches] == [0, 10]
"""

import enum
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import msgspec

from tests.compat.kafka_tools.dump_output import Dump, parse_output
from tests.compat.kafka_tools.jars import find_java, resolve_jars
from tests.support.java import QUICK_START

# Warnings of Kafka's own code are problems too. The rest makes a short-lived JVM start sooner.
JVM_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dlog4j2.statusLoggerLevel=OFF",
    *QUICK_START,
    # It would leave a file in the temporary directory.
    "-XX:-UsePerfData",
)
GAPS_HEADING = re.compile(r"Non-consecutive offsets in ")
GAP = re.compile(r"  -?\d+ is followed by -?\d+")


class Decoder(enum.Enum):
    """How the tool reads the contents of records."""

    TEXT = "--print-data-log"
    TRANSACTION_LOG = "--transaction-log-decoder"
    CONSUMER_OFFSETS = "--offsets-decoder"


class KafkaTools(msgspec.Struct, frozen=True):
    """Kafka's tools, ready to run. Nothing is kept between calls, and no file is changed."""

    java: str
    jars: Path

    @classmethod
    def find(cls) -> Self:
        """Find Java and bring Kafka's jars; raise ToolsUnavailableError where that cannot be done."""
        return cls(java=find_java(), jars=resolve_jars())

    def dump(
        self,
        *files: Path,
        decoder: Decoder | None = None,
        check_index_sanity: bool = False,
        allow_gaps: bool = False,
    ) -> Dump:
        """Dump logs with their records, indexes (whose log lies beside them) and producer snapshots.

        Each offset index and time index is compared with its log; with `check_index_sanity` it gets
        instead the check that a broker does at start. `allow_gaps` accepts the missing offsets that
        compaction leaves. Whatever else the tool finds wrong is in the problems, never an exception.
        """
        assert not any("," in str(file) for file in files), "the tool separates files by commas"
        options = ["--deep-iteration", "--files", ",".join(str(file) for file in files)]
        if decoder is not None:
            options.append(decoder.value)
        if check_index_sanity:
            options.append("--index-sanity-check")
        return self._run(options, allow_gaps=allow_gaps)

    def lines(self, *files: Path, options: tuple[str, ...] = ()) -> list[str]:
        """Return what the tool prints of files, line by line."""
        result = self._start(["--files", ",".join(str(file) for file in files), *options])
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        return result.stdout.rstrip("\n").split("\n")

    def _start(self, options: list[str]) -> subprocess.CompletedProcess[str]:
        main = ("-cp", f"{self.jars}/*", "kafka.tools.DumpLogSegments")
        command = (self.java, *JVM_OPTIONS, *main, *options)
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)

    def _run(self, options: list[str], *, allow_gaps: bool) -> Dump:
        result = self._start(options)
        # Only a line feed ends a line here; splitlines() would also split at what a payload may hold.
        contents, problems = parse_output(result.stdout.split("\n"))
        errors = [line for line in result.stderr.split("\n") if line]
        problems.extend(without_gaps(errors) if allow_gaps else errors)
        if result.returncode != 0:
            problems.append(f"the tool ended with exit code {result.returncode}")
        return Dump(contents, tuple(problems))


def without_gaps(lines: Iterable[str]) -> Iterator[str]:
    """Leave out what the tool says of offsets that do not follow one another."""
    return (line for line in lines if not GAPS_HEADING.match(line) and not GAP.fullmatch(line))
