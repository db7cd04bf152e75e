"""Micro-batches as they come: a table that grows on a terminal, lines of text, or lines of JSON."""

from __future__ import annotations

from collections import deque
from typing import Final, Self

import msgspec
import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from eagleray.cli.output import counted
from eagleray.pipelines.jobs.metrics import BatchMetrics

_SHOWN: Final = 12


class JsonLines:
    """One JSON object a line, on the standard output."""

    def show(self, batch: BatchMetrics) -> None:
        """Print a micro-batch."""
        typer.echo(msgspec.json.encode(batch).decode())


class TextLines:
    """One line for each, on the standard error."""

    def show(self, batch: BatchMetrics) -> None:
        """Print a micro-batch."""
        typer.echo(
            f"batch {batch.batch_id}: {counted(batch.rows_in, 'row')} in, {batch.rows_out:,} out, "
            f"{batch.duration_ms:,} ms, {batch.rows_per_second:,.0f} rows/s",
            err=True,
        )


class LiveTable:
    """The last micro-batches in a table that is kept up to date, with the sums below; it stays when all is done."""

    def __init__(self, name: str, console: Console | None = None) -> None:
        self._name = name
        self._last: deque[BatchMetrics] = deque(maxlen=_SHOWN)
        self._count = self._rows_in = self._rows_out = self._busy_ms = 0
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, get_renderable=self._draw)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *raised: object) -> None:
        self._live.stop()

    def show(self, batch: BatchMetrics) -> None:
        """Take a micro-batch in."""
        self._last.append(batch)
        self._count += 1
        self._rows_in += batch.rows_in
        self._rows_out += batch.rows_out
        self._busy_ms += batch.duration_ms
        self._live.refresh()

    def _draw(self) -> Group:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=self._name, title_justify="left")
        for column in ("batch", "rows in", "rows out", "ms", "rows/s", "remembered"):
            table.add_column(column, justify="right")
        for batch in self._last:
            table.add_row(
                str(batch.batch_id),
                f"{batch.rows_in:,}",
                f"{batch.rows_out:,}",
                f"{batch.duration_ms:,}",
                f"{batch.rows_per_second:,.0f}",
                f"{batch.state_rows:,}",
            )
        return Group(table, self._sums())

    def _sums(self) -> Text:
        if self._count == 0:
            return Text("waiting for the first micro-batch ...", style="dim")
        rate = self._rows_in * 1000 / max(self._busy_ms, 1)
        return Text(
            f"{counted(self._count, 'micro-batch', 'micro-batches')}, {counted(self._rows_in, 'row')} in, "
            f"{self._rows_out:,} out, {rate:,.0f} rows/s",
            style="bold",
        )
