"""What nodes say for people to read: a file for each node in `broker-logs/` of its data directory.

Each line says when it was written (UTC), how grave it is, which node and which part of it says so:

    2026-11-18T09:30:00.125Z WARNING node-30 eagleray.actors.process.node: node 30 waits for its last incarnation to end

A file that is full becomes `node-30.log.1`, and so on; the oldest goes. Lines of several nodes are merged by time.
"""

from __future__ import annotations

import glob
import heapq
import logging
import logging.handlers
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TextIO

FOLDER: Final = "broker-logs"
FILE_BYTES: Final = 10 * 1024 * 1024
FILES_KEPT: Final = 4
"""How many full files of a node are kept, besides the one that is written."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")

TimedLine = tuple[str, str]
"""When a line was written, and the line with its end."""


def node_name(node_id: int) -> str:
    """The name of a node in its log, and of the file."""
    return f"node-{node_id}"


def path_of(data_dir: str, node_id: int) -> str:
    """The file that a node writes; `data_dir` is that of its machine."""
    return f"{data_dir}/{FOLDER}/{node_name(node_id)}.log"


# Writing


class NodeFormatter(logging.Formatter):
    """Puts time, level, node and logger before each line, those of a traceback too."""

    def __init__(self, node: str) -> None:
        super().__init__("%(message)s")
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        written = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head = f"{written.removesuffix('+00:00')}Z {record.levelname} {self._node} {record.name}: "
        return "\n".join(head + line for line in super().format(record).splitlines() or ("",))


def open_log(data_dir: str, node_id: int) -> logging.Handler:
    """Return the handler that writes the log of a node."""
    path = path_of(data_dir, node_id)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(NodeFormatter(node_name(node_id)))
    return handler


def log_all(handler: logging.Handler) -> None:
    """Send what this process logs there: our own from INFO on, other libraries' from WARNING on."""
    logging.getLogger().addHandler(handler)
    logging.getLogger("eagleray").setLevel(logging.INFO)


# Reading


def logs_in(data_dir: str) -> dict[str, str]:
    """The file that each node of this machine writes, by the node's name; also where several machines share a disk."""
    folder = glob.escape(data_dir)
    patterns = (f"{folder}/{FOLDER}/node-*.log", f"{folder}/machine-*/{FOLDER}/node-*.log")
    paths = [path for pattern in patterns for path in glob.glob(pattern)]
    named = {os.path.basename(path).removesuffix(".log"): path for path in paths}
    return dict(sorted(named.items(), key=lambda item: (len(item[0]), item[0])))


class NodeLog:
    """The log of one node, read from its oldest line on, and further each time that there is more.

    Owns: the open file and how far it was read. A file that is full and was rotated meanwhile is read to its end.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._rest = ""
        self._time = ""

    def new_lines(self) -> Iterator[TimedLine]:
        """Yield the whole lines that were not read yet."""
        if self._file is None:
            for older in self._put_aside():
                with suppress(FileNotFoundError), _open(older) as file:
                    yield from self._lines_of(file)
            with suppress(FileNotFoundError):
                self._file = _open(self._path)
        while self._file is not None:
            yield from self._lines_of(self._file)
            if not self._is_put_aside(self._file):
                return
            yield from self._lines_of(self._file)
            self._file.close()
            self._file = _open(self._path) if os.path.exists(self._path) else None

    def last_line(self) -> Iterator[TimedLine]:
        """Yield the line that has no end, as a process leaves it that was killed while it wrote."""
        if self._rest:
            yield self._timed(f"{self._rest}\n")

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def _put_aside(self) -> list[str]:
        return [path for number in range(FILES_KEPT, 0, -1) if os.path.exists(path := f"{self._path}.{number}")]

    def _is_put_aside(self, file: TextIO) -> bool:
        with suppress(FileNotFoundError):
            return os.stat(self._path).st_ino != os.fstat(file.fileno()).st_ino
        return False

    def _lines_of(self, file: TextIO) -> Iterator[TimedLine]:
        while line := file.readline():
            self._rest += line
            if line.endswith("\n"):
                whole, self._rest = self._rest, ""
                yield self._timed(whole)

    def _timed(self, line: str) -> TimedLine:
        """Return a line with its time; a line without one belongs to the line before."""
        if _TIME.match(line):
            self._time = line[: line.index(" ")]
        return self._time, line


def _open(path: str) -> TextIO:
    return open(path, encoding="utf-8", errors="replace", newline="\n")


def merged(logs: Iterable[Iterator[TimedLine]]) -> Iterator[str]:
    """Merge lines of several nodes by when they were written."""
    return (line for _, line in heapq.merge(*logs, key=lambda timed: timed[0]))


def lines_since(path: str, begun: datetime) -> list[str]:
    """The lines of a node's newest file since a time; none where there is no file on this machine."""
    since = begun.astimezone(UTC).isoformat(timespec="milliseconds")
    log = NodeLog(path)
    try:
        with suppress(OSError):
            return [line.rstrip("\n") for time, line in log.new_lines() if time >= since]
        return []
    finally:
        log.close()
