"""How micro-batches and sums are told on a terminal: one row, several rows."""

import io

import pytest
from rich.console import Console

from eagleray.pipelines.cli.batch_views import LiveTable, TextLines
from eagleray.pipelines.cli.loadtesting import _print
from eagleray.pipelines.jobs.metrics import BatchMetrics
from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.report import LoadReport


def batch_of(rows):
    return BatchMetrics(
        query_id="q",
        batch_id=0,
        timestamp="2026-01-01T00:00:00.000Z",
        rows_in=rows,
        rows_out=rows,
        duration_ms=10,
        rows_per_second=rows * 100,
        start_offsets=None,
        end_offsets=None,
        state_rows=0,
        watermark=None,
    )


def sums_of(*batches):
    console = Console(file=io.StringIO(), width=120)
    with LiveTable("copy", console) as table:
        for batch in batches:
            table.show(batch)
        return str(table._sums())


@pytest.mark.parametrize(
    ("rows", "text"), [(1, "batch 0: 1 row in, 1 out,"), (2000, "batch 0: 2,000 rows in, 2,000 out,")]
)
def test_line_of_a_batch_has_the_right_plural(rows, text, capsys):
    TextLines().show(batch_of(rows))
    assert capsys.readouterr().err.startswith(text)


def test_sums_have_the_right_plural():
    assert sums_of(batch_of(1)).startswith("1 micro-batch, 1 row in, 1 out,")
    assert sums_of(batch_of(1), batch_of(1)).startswith("2 micro-batches, 2 rows in, 2 out,")


@pytest.mark.parametrize(
    ("rows", "text"), [(1, "1 row committed, 1 found"), (2000, "2,000 rows committed, 2,000 found")]
)
def test_sums_of_a_load_test_have_the_right_plural(rows, text, capsys):
    _print(
        LoadReport(
            plan=LoadPlan(topic="load"),
            started_at="",
            seconds=1.0,
            rows_committed=rows,
            rows_found=rows,
            drivers=[],
            kinds=[],
        )
    )
    assert text in capsys.readouterr().err
