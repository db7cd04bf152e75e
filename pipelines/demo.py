"""`make demo`: orders stream through Spark exactly once, on one Ray cluster with the broker, while processes are
killed.

Spark's executors generate orders and write them in one transaction. A streaming query charges them, each micro-batch in
a transaction of its own. Meanwhile an executor of Spark, a partition leader and the transaction coordinator are ended
by kill -9. In the end the charges are added up by country and compared, to the cent, with sums that were computed
without any of this.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import eagleray
from eagleray.api import Cluster
from eagleray.pipelines.datasets import ORDER_DDL, expected_totals
from eagleray.pipelines.datasets.spark import write_dataset
from eagleray.pipelines.jobs.metrics import BatchMetrics, follow
from eagleray.pipelines.session import spark_session

ORDERS: Final = 60_000
ORDERS_IN_A_BATCH: Final = 5_000
SEED: Final = 7
PARTITIONS: Final = 4

console = Console(highlight=False)


def main() -> None:
    """Run the demo; exits with an error if a sum is not exact."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="eagleray-demo-") as directory:
        console.print("[bold]Starting Ray, and a broker of Ray actors on it ...[/]")
        with eagleray.start(data_dir=f"{directory}/data") as cluster:
            _show_nodes(cluster)
            for topic in ("orders", "charges"):
                cluster.admin.create_topic(topic, partitions=PARTITIONS)
            console.print("[bold]Starting Spark on the same Ray cluster ...[/]")
            with spark_session("demo", address=None) as spark:
                is_exact = _run(spark, cluster, directory, started)
    if not is_exact:
        raise SystemExit(1)


def _run(spark: SparkSession, cluster: Cluster, directory: str, started: float) -> bool:
    console.print(f"[bold]Generating {ORDERS:,} orders in executors, in one transaction with many writers ...[/]")
    write_dataset(spark, "orders", seed=SEED, rows=ORDERS)
    console.print("[bold]Charging them in micro-batches, each a transaction, while processes are killed ...[/]")
    batches = _follow(_charge(spark, f"{directory}/checkpoint"), _kills(spark, cluster))
    return _check(spark, batches, time.monotonic() - started)


def _show_nodes(cluster: Cluster) -> None:
    table = Table(title="Actors", title_justify="left")
    for column in ("node", "role", "pid", "listens at"):
        table.add_column(column)
    for node in cluster.nodes():
        table.add_row(
            str(node["node_id"]), ", ".join(node["roles"]), str(node["pid"]), f"{node['host']}:{node['port']}"
        )
    console.print(table)


# The query


def _charge(spark: SparkSession, checkpoint: str) -> StreamingQuery:
    orders = spark.readStream.format("eagleray").options(
        subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger=ORDERS_IN_A_BATCH
    )
    charges = (
        orders.load()
        .selectExpr(f"from_json(cast(value as string), '{ORDER_DDL}') as placed")
        .selectExpr(
            "cast(placed.order_id as string) as key",
            "to_json(struct(placed.order_id, placed.country, placed.amount_cents)) as value",
        )
    )
    writer = charges.writeStream.format("eagleray").options(
        topic="charges", group="billing", checkpointLocation=checkpoint
    )
    return writer.trigger(availableNow=True).start()


def _follow(query: StreamingQuery, kills: Iterator[str]) -> list[BatchMetrics]:
    batches = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("charged", total=ORDERS)
        for batch in follow(query):
            batches.append(batch)
            progress.update(bar, advance=batch.rows_in)
            if batch.batch_id % 2:
                victim = next(kills, None)
                if victim is not None:
                    progress.console.print(f"  after batch {batch.batch_id}: [red]kill -9[/] of {victim}")
    return batches


# Killing


def _kills(spark: SparkSession, cluster: Cluster) -> Iterator[str]:
    victims: tuple[tuple[str, Callable[[], int]], ...] = (
        ("a partition leader", lambda: _pid_of(cluster, "leader")),
        ("Spark's executor", lambda: executor_pid(spark)),
        ("the transaction coordinator", lambda: _pid_of(cluster, "coordinator")),
    )
    for name, find in victims:
        pid = find()
        os.kill(pid, signal.SIGKILL)
        yield f"{name}, pid {pid}"


def _pid_of(cluster: Cluster, role: str) -> int:
    return next(int(node["pid"]) for node in cluster.nodes() if role in node["roles"] and node["registered"])


def executor_pid(spark: SparkSession) -> int:
    """The process of an executor, as a task tells it: it runs in a child of a child of the executor."""

    def grandparent(_: object) -> int:
        with open(f"/proc/{os.getppid()}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("PPid:"))

    pids: list[int] = spark.sparkContext.parallelize([0], 1).map(grandparent).collect()
    return pids[0]


# Counting


def _check(spark: SparkSession, batches: list[BatchMetrics], seconds: float) -> bool:
    expected = expected_totals(SEED, ORDERS)
    charges = spark.read.format("eagleray").option("subscribe", "charges").load()
    parsed = charges.selectExpr(f"from_json(cast(value as string), '{ORDER_DDL}') as charge").select("charge.*")
    sums = parsed.groupBy("country").agg({"order_id": "count", "amount_cents": "sum"})
    found = {row["country"]: (row["count(order_id)"], row["sum(amount_cents)"]) for row in sums.collect()}
    wanted = {
        country: (count, expected.amount_cents_by_country[country])
        for country, count in expected.orders_by_country.items()
    }
    _show_sums(found, wanted)
    rows = sum(batch.rows_in for batch in batches)
    console.print(
        f"{len(batches)} micro-batches, {rows:,} orders read, {sum(count for count, _ in found.values()):,} charges "
        f"committed, {seconds:.0f} s in all."
    )
    is_exact = found == wanted
    console.print("[bold green]Exact to the cent.[/]" if is_exact else "[bold red]The sums are not exact.[/]")
    return is_exact


def _show_sums(found: dict[str, tuple[int, int]], wanted: dict[str, tuple[int, int]]) -> None:
    table = Table(title="Charges, as committed", title_justify="left")
    for column in ("country", "charges", "expected", "sum", "expected sum", ""):
        table.add_column(column, justify="left" if column == "country" else "right")
    for country in sorted({*found, *wanted}):
        count, cents = found.get(country, (0, 0))
        wanted_count, wanted_cents = wanted.get(country, (0, 0))
        mark = "[green]exact[/]" if (count, cents) == (wanted_count, wanted_cents) else "[red]wrong[/]"
        table.add_row(country, f"{count:,}", f"{wanted_count:,}", _money(cents), _money(wanted_cents), mark)
    console.print(table)


def _money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02}"


if __name__ == "__main__":
    main()
