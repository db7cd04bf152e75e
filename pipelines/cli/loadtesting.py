"""`eagleray pipeline loadtest`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import counted, note, print_json, print_rows
from eagleray.pipelines.cli.clusters import Local, cluster_of, quiet_spark
from eagleray.pipelines.cli.example_commands import ONE_CPU
from eagleray.pipelines.loadtest.plan import LoadPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from eagleray.api import Cluster
    from eagleray.pipelines.loadtest.report import LoadReport

app = typer.Typer()

PLOTS = "loadtest.png"
FIGURES = "loadtest.json"


@app.command(
    epilog=examples(
        "eagleray pipeline loadtest --local --seconds 20",
        "eagleray pipeline loadtest --ray-tasks 4 --producers 100 --rate 2000 --spark-rows 0",
        "eagleray pipeline loadtest --ray-tasks 0 --spark-rows 100000 --spark-tasks 8 --output results",
    )
)
def loadtest(
    context: typer.Context,
    *,
    topic: Annotated[str, typer.Option("--topic", help="Where to write; made where it is not there.")] = "loadtest",
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long.")] = 20,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions of a topic that is made.")] = 8,
    size: Annotated[int, typer.Option("--size", min=0, help="Bytes in each record.")] = 200,
    spark_rows: Annotated[
        int, typer.Option("--spark-rows", min=0, help="Rows in each of Spark's jobs; 0 for no Spark.")
    ] = 20_000,
    spark_tasks: Annotated[int, typer.Option("--spark-tasks", min=1, help="Tasks in each job.")] = 4,
    spark_jobs: Annotated[int, typer.Option("--spark-jobs", min=1, help="How many jobs at the most.")] = 1_000,
    ray_tasks: Annotated[int, typer.Option("--ray-tasks", min=0, help="Processes with producers; 0 for none.")] = 2,
    producers: Annotated[int, typer.Option("--producers", min=1, help="Producers in each of these.")] = 50,
    records: Annotated[int, typer.Option("--records", min=1, help="Records in each of their transactions.")] = 1,
    rate: Annotated[
        float,
        typer.Option("--rate", min=0, help="Transactions that arrive a second at Ray tasks; 0 for all they can do."),
    ] = 500,
    transactions: Annotated[
        int, typer.Option("--transactions", min=1, help="How many transactions of producers at the most.")
    ] = 1_000_000,
    output: Annotated[
        str, typer.Option("--output", metavar="DIR", help="Where the plots and figures go.")
    ] = "loadtest",
    local: Local = False,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Drive a cluster from Spark executors and Ray tasks at once, and say what it does.

    Spark writes rows through the data source, one transaction a job; Ray tasks commit transactions of many producers.
    In the end all committed records are counted. Plots are in DIR/loadtest.png, figures in DIR/loadtest.json.
    """
    plan = LoadPlan(
        topic=topic,
        seconds=seconds,
        partitions=partitions,
        size=size,
        spark_rows=spark_rows,
        spark_tasks=spark_tasks,
        spark_jobs=spark_jobs,
        ray_tasks=ray_tasks,
        producers=producers,
        records=records,
        rate=rate,
        transactions=transactions,
    )
    os.makedirs(output, exist_ok=True)
    with cluster_of(Connection(name, address), local=local) as cluster:
        report = _run(context, cluster, plan)
    _write(report, output)
    print_json(report) if json else _print(report)
    note(f"plots: {os.path.join(output, PLOTS)}; figures: {os.path.join(output, FIGURES)}")
    if not report.is_exact:
        raise UsageError(f"{counted(report.rows_committed, 'row')} committed, and {report.rows_found:,} found.")


def _run(context: typer.Context, cluster: Cluster, plan: LoadPlan) -> LoadReport:
    from eagleray.pipelines.loadtest.running import run_load_test  # noqa: PLC0415 - loads Spark

    with ExitStack() as open_things:
        spark = None
        if plan.spark_rows:
            note("starting Spark on the Ray cluster...")
            spark = open_things.enter_context(quiet_spark(context, "loadtest", cluster, config=ONE_CPU))
        on_begin = open_things.enter_context(_progress(plan.seconds))
        return run_load_test(cluster, spark, plan, on_begin)


@contextmanager
def _progress(seconds: float) -> Iterator[Callable[[], None]]:
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("getting the drivers ready", total=None)

        def begin() -> None:
            progress.reset(task, description=f"driving for {seconds:g} s", total=None)

        yield begin


def _write(report: LoadReport, directory: str) -> None:
    from eagleray.pipelines.loadtest.plots import draw  # noqa: PLC0415 - loads matplotlib

    draw(report, os.path.join(directory, PLOTS))
    with open(os.path.join(directory, FIGURES), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(report), indent=1))


def _print(report: LoadReport) -> None:
    rows = (
        {
            "driver": each.name,
            "transactions": f"{each.transactions:,}",
            "rows": f"{each.rows:,}",
            "txn/s": f"{each.transactions_per_second:,.1f}",
            "rows/s": f"{each.rows_per_second:,.0f}",
            "p50 ms": f"{each.p50_ms:,.1f}",
            "p99 ms": f"{each.p99_ms:,.1f}",
            "max ms": f"{each.max_ms:,.1f}",
            "errors": each.errors,
            "missed": each.missed,
        }
        for each in (*report.drivers, *(kind for kind in report.kinds if kind.kind == "ray"))
    )
    print_rows(rows, empty="nothing was driven")
    committed = counted(report.rows_committed, "row")
    note(f"{committed} committed, {report.rows_found:,} found by a reader of committed records")
    for each in report.drivers:
        if each.first_error:
            note(f"{each.name}: {each.first_error}")
