"""`eagleray logs`: the logs of the nodes on this machine."""

from __future__ import annotations

import collections
import os
import sys
import time
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from eagleray import cluster_records as records
from eagleray.actors.process.broker_logs import FOLDER, NodeLog, logs_in, merged
from eagleray.cli.errors import UsageError
from eagleray.cli.options import Connection, Name, examples
from eagleray.cli.output import note

app = typer.Typer()

_LOOK_S: Final = 0.2
_MACHINES: Final = "machines"


@app.command(
    epilog=examples(
        "eagleray logs --tail 100",
        "eagleray logs --follow",
        "eagleray logs 30",
        "eagleray logs --data-dir ./data",
    )
)
def logs(
    node: Annotated[
        str | None, typer.Argument(metavar="NODE", help="The id of a node; without it, all of this machine.")
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is new, until Ctrl-C.")] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=0, metavar="LINES", help="Begin with the last so many lines.")
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", metavar="DIR", help="Of which cluster, running or not.", show_default="of --name"),
    ] = None,
    name: Name = "",
) -> None:
    """Show what the nodes on this machine have said, in order of time.

    Each line has the time in UTC, the level, the node and the part of it that speaks. The files are in the folder
    broker-logs of the data directory, and stay when the cluster stops. On several machines, each shows its own.
    """
    connection = Connection(name)
    folder = _data_dir_of(connection.name) if data_dir is None else _given(data_dir)
    _say_which_machines(folder)
    reader = _Reader(folder, node)
    try:
        _print(reader.begin(tail, is_all=not follow))
        while follow:
            time.sleep(_LOOK_S)
            _print(reader.new_lines())
    finally:
        reader.close()


class _Reader:
    """Reads the logs of the nodes that were asked for, those of nodes that come later too."""

    def __init__(self, data_dir: str, node: str | None) -> None:
        self._data_dir = data_dir
        self._wanted = None if node is None else _wanted(data_dir, node)
        self._logs: dict[str, NodeLog] = {}

    def begin(self, tail: int | None, *, is_all: bool) -> Iterable[str]:
        """What there is so far, or the end of it; with `is_all` also a last line without an end."""
        lines = list(self._open())
        every = merged(log.new_lines() for log in lines)
        shown = every if tail is None else collections.deque(every, tail)
        yield from shown
        if is_all:
            yield from merged(log.last_line() for log in lines)

    def new_lines(self) -> Iterable[str]:
        return merged(log.new_lines() for log in self._open())

    def _open(self) -> Iterable[NodeLog]:
        for name, path in logs_in(self._data_dir).items():
            if self._wanted in (None, name) and name not in self._logs:
                self._logs[name] = NodeLog(path)
        return self._logs.values()

    def close(self) -> None:
        for log in self._logs.values():
            log.close()


def _wanted(data_dir: str, node: str) -> str:
    name = f"node-{node.removeprefix('node-')}"
    there = logs_in(data_dir)
    if name not in there:
        raise UsageError(f"no node {node!r} has a log in {data_dir}; there are those of {', '.join(there)}.")
    return name


def _data_dir_of(name: str) -> str:
    record = records.meant_by(name or None)
    if record is None:
        raise UsageError(f"{_why_none(name)}; say where its data are with --data-dir DIR.")
    return _given(record.data_dir)


def _why_none(name: str) -> str:
    found = records.named(name) if name else records.load_all()
    if found:
        listed = ", ".join(f"{record.name} ({record.data_dir})" for record in found)
        return f"{len(found)} Eagleray clusters that were started on this machine may be meant: {listed}"
    wanted = f"no Eagleray cluster named {name!r}" if name else "no Eagleray cluster"
    return f"{wanted} was started on this machine, or it has stopped"


def _given(data_dir: str) -> str:
    if not logs_in(data_dir):
        raise UsageError(
            f"{os.path.abspath(data_dir)} has no logs of nodes ({FOLDER}/node-*.log); expected the --data-dir that "
            "`eagleray start` was given, on a machine that has nodes."
        )
    return data_dir


def _say_which_machines(data_dir: str) -> None:
    path = os.path.join(data_dir, _MACHINES)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            machines = file.read().split()
        note(
            f"the logs of this machine only; the cluster is on {', '.join(machines)}: "
            f"run `eagleray logs --data-dir {data_dir}` on the others for theirs"
        )


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line)
    sys.stdout.flush()
