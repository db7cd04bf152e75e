"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

_UNBOUNDED: Final = 100_000
_BETWEEN: Final = 3
_EDGES: Final = 2
"""What a table takes besides its columns: blanks between two of them, and at its edges."""


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows for people; numbers stand to the right. Where there are none, say so."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        note(empty)
        return
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        # A table that goes to a file or a pipe is read by programs: nothing in it is cut short or wrapped.
        console = Console(markup=False, highlight=False, width=_UNBOUNDED)
    if least_width(columns, cells) <= console.width:
        console.print(_table(columns, cells), soft_wrap=False)
    else:
        typer.echo("\n".join(f"\n{block}" for block in as_blocks(columns, cells, console.width)))


def print_rows(rows: Iterable[Mapping[str, object]], *, empty: str) -> None:
    """Print rows that name their columns themselves; where there are none, say so."""
    listed = list(rows)
    columns = tuple(listed[0]) if listed else ()
    print_table(columns, [tuple(row.values()) for row in listed], empty=empty)


def _table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        is_number = all(row[place].replace(",", "").lstrip("-").isdigit() for row in cells)
        # No narrower than its longest word, so that none is broken.
        table.add_column(column, justify="right" if is_number else "left", min_width=_least(place, columns, cells))
    for row in cells:
        table.add_row(*row)
    return table


def _least(place: int, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    texts = (columns[place], *(row[place] for row in cells))
    return max(cell_len(word) for text in texts for word in (text.split() or [""]))


def least_width(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """How wide a terminal has to be for a table without a broken word."""
    between = _BETWEEN * (len(columns) - 1) + _EDGES
    return sum(_least(place, columns, cells) for place in range(len(columns))) + between


def as_blocks(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """Each row as a block of names and values, for a terminal that is too narrow for the table."""
    names = max(map(len, columns))
    blocks = []
    for row in cells:
        lines = []
        for column, cell in zip(columns, row, strict=True):
            wrapped = textwrap.wrap(cell, max(width - names - 2, 1), break_long_words=False, break_on_hyphens=False)
            first, *others = wrapped or [""]
            lines += [f"{column:<{names}}  {first}", *(f"{'':<{names}}  {other}" for other in others)]
        blocks.append("\n".join(lines))
    return blocks


def print_facts(facts: dict[str, object]) -> None:
    """Print names and values, one below the other."""
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name:<{width}}  {_cell(value)}")


def note(text: str) -> None:
    """Say something that is not the output, on the standard error."""
    typer.echo(text, err=True)


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Say how many there are of something: 1 record, 2,000 records."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def capitalized(sentence: str) -> str:
    """A sentence with its first letter large."""
    return sentence[:1].upper() + sentence[1:]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def ago(timestamp_ms: int) -> str:
    """Say how long ago something was."""
    return "-" if timestamp_ms < 0 else duration((time.time_ns() // 1_000_000 - timestamp_ms) / 1000)


def until(timestamp_ms: int) -> str:
    """Say how far away something is that is to come; `0.0 s` where it is overdue."""
    return duration((timestamp_ms - time.time_ns() // 1_000_000) / 1000)


def duration(seconds: float) -> str:
    """Say how long something takes, in the largest two units that count."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if hours == 0:
        return f"{minutes} min {int(seconds % 60)} s"
    return f"{hours} h {minutes % 60} min" if days == 0 else f"{days} d {hours % 24} h"
