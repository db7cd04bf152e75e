"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import typer
from rich import box
from rich.console import Console
from rich.table import Table


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print a value as JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, title: str = "") -> None:
    """Print rows for people; numbers stand to the right. Where there are none, say so."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        note(empty)
        return
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for place, column in enumerate(columns):
        is_number = all(row[place].replace(",", "").lstrip("-").isdigit() for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    _console().print(table)


def print_facts(facts: dict[str, object]) -> None:
    """Print names and values, one below the other."""
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {_cell(value)}")


def note(text: str) -> None:
    """Say something that is not the output, on the standard error."""
    typer.echo(text, err=True)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _console() -> Console:
    console = Console(markup=False, highlight=False)
    # A table that goes to a file or a pipe is read by programs: nothing in it is cut short or wrapped.
    return console if console.is_terminal else Console(markup=False, highlight=False, width=240)


def ago(timestamp_ms: int) -> str:
    """Say how long ago something was."""
    return "-" if timestamp_ms < 0 else duration((time.time_ns() // 1_000_000 - timestamp_ms) / 1000)


def duration(seconds: float) -> str:
    """Say how long something takes, in the largest two units that count."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours == 0:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{hours} h {minutes % 60} min" if days == 0 else f"{days} d {hours % 24} h"
