"""`eagleray pipeline generate`: orders and payments, written to a topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.console import Console
from rich.progress import track

from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import note, print_facts, print_json
from eagleray.pipelines.cli.clusters import cluster_of, quiet_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eagleray.api import Cluster

app = typer.Typer()

_MOST_BY_PRODUCER: Final = 200_000


@app.command(
    epilog=examples(
        "eagleray pipeline generate --topic orders --rows 100000 --seed 7",
        "eagleray pipeline generate --topic payments --dataset payments --rows 10000000",
        "eagleray pipeline generate --merchants merchants.csv",
    )
)
def generate(
    context: typer.Context,
    *,
    topic: Annotated[str | None, typer.Option("--topic", help="Where to write; made where it is not there.")] = None,
    dataset: Annotated[Literal["orders", "payments"], typer.Option("--dataset", help="What to write.")] = "orders",
    rows: Annotated[int, typer.Option("--rows", min=1, help="How many orders; payments are those of as many.")] = 1_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same rows.")] = 7,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions of a topic that is made.")] = 4,
    by: Annotated[
        Literal["producer", "spark"] | None,
        typer.Option("--by", help="A producer in this process, or Spark's executors; by default those above 200,000."),
    ] = None,
    merchants: Annotated[
        str | None, typer.Option("--merchants", metavar="FILE", help="Write the table of merchants as CSV.")
    ] = None,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Generate orders or payments from a seed, and write them to a topic in transactions.

    What was written can be checked to the cent: the totals that are printed are computed from the seed.
    """
    if topic is None and merchants is None:
        raise UsageError(
            "there is nothing to do: say --topic NAME, or --merchants FILE for the table beside the stream."
        )
    if merchants is not None:
        _write_merchants(merchants, seed)
    if topic is None:
        return
    from eagleray.pipelines.datasets import expected_totals  # noqa: PLC0415 - without Spark's extra, said before Ray starts

    writer = by or ("producer" if rows <= _MOST_BY_PRODUCER else "spark")
    with cluster_of(Connection(name, address)) as cluster:
        cluster.admin.create_topic(topic, partitions=partitions, exist_ok=True)
        began = time.monotonic()
        if writer == "producer":
            _by_producer(cluster, topic, dataset, seed, rows)
        else:
            note("starting Spark on the Ray cluster...")
            with quiet_spark(context, f"generate-{topic}", cluster) as spark:
                _by_spark(spark, cluster, topic, dataset, seed=seed, rows=rows)
        seconds = time.monotonic() - began
    totals = expected_totals(seed, rows)
    records = totals.orders if dataset == "orders" else totals.payments
    facts: dict[str, object] = {
        "topic": topic,
        "seed": seed,
        "records": records,
        "seconds": round(seconds, 2),
        "records_per_second": round(records / seconds),
        "amount_cents": totals.amount_cents if dataset == "orders" else totals.paid_cents,
    }
    print_json(facts) if json else print_facts(facts)


def _by_producer(cluster: Cluster, topic: str, dataset: str, seed: int, rows: int) -> None:
    from eagleray.pipelines.datasets.producing import produce_slices, steps  # noqa: PLC0415

    written = produce_slices(cluster, topic, dataset=dataset, seed=seed, rows=rows)
    console = Console(stderr=True)
    is_shown = console.is_terminal
    for _ in track(written, "writing", total=steps(rows), console=console, transient=True, disable=not is_shown):
        pass


def _by_spark(spark: SparkSession, cluster: Cluster, topic: str, dataset: str, *, seed: int, rows: int) -> None:
    from eagleray.pipelines.datasets.spark import write_dataset  # noqa: PLC0415 - loads Spark

    write_dataset(spark, topic, dataset=dataset, seed=seed, rows=rows, cluster=cluster.name)


def _write_merchants(path: str, seed: int) -> None:
    import pyarrow.csv  # noqa: PLC0415

    from eagleray.pipelines.datasets import merchants  # noqa: PLC0415

    pyarrow.csv.write_csv(merchants(seed), path)
    note(f"wrote the merchants to {path}")
