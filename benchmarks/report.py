"""Tables in which every round of a measurement can be seen."""

import os
import time
from collections.abc import Callable
from statistics import median

from msgspec import Struct
from rich.console import Console
from rich.table import Table

ROUNDS = 7


class Row(Struct, frozen=True):
    """What was measured, and how many microseconds it took in each round."""

    name: str
    microseconds: tuple[float, ...]

    def __add__(self, other: "Row") -> "Row":
        together = zip(self.microseconds, other.microseconds, strict=True)
        return Row("together", tuple(one + another for one, another in together))


def measure(name: str, operation: Callable[[], object], repetitions: int) -> Row:
    """Run an operation again and again in each round, and give the time of one."""
    operation()
    return Row(name, tuple(_microseconds(operation, repetitions) for _ in range(ROUNDS)))


def _microseconds(operation: Callable[[], object], repetitions: int) -> float:
    begin = time.perf_counter()
    for _ in range(repetitions):
        operation()
    return (time.perf_counter() - begin) / repetitions * 1e6


def rounds_table(title: str, rows: list[Row]) -> Table:
    """Show the best and the median round of each row, and all of them."""
    # Figures of a machine that was doing something else as well are not to be compared with others.
    caption = f"µs an operation; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column("operation")
    table.add_column("best", justify="right")
    table.add_column("median", justify="right", style="bold")
    for number in range(ROUNDS):
        table.add_column(f"{number + 1}", justify="right")
    for row in rows:
        figures = (min(row.microseconds), median(row.microseconds), *row.microseconds)
        table.add_row(row.name, *(f"{figure:.2f}" for figure in figures), end_section=row.name == "together")
    return table


def print_table(title: str, heading: list[str], rows: list[list[str]]) -> None:
    """Show rows of text, and how busy the machine is."""
    caption = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for name in heading:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)


def markdown_table(heading: list[str], rows: list[list[str]]) -> str:
    """The same rows for a document."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
