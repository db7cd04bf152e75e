"""`eagleray pipeline examples` and `eagleray pipeline example NAME`."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Annotated, Final

import typer

from eagleray.cli.errors import UsageError
from eagleray.cli.options import Address, Connection, Json, Name, examples
from eagleray.cli.output import note, print_json, print_table
from eagleray.pipelines.cli.clusters import Local, cluster_of, quiet_spark
from eagleray.pipelines.cli.running import showing
from eagleray.pipelines.examples import EXAMPLES
from eagleray.pipelines.jobs.errors import nearest

if TYPE_CHECKING:
    from eagleray.api import Cluster
    from eagleray.pipelines.examples.stage import Outcome

app = typer.Typer()

ONE_CPU: Final = {"spark.ray.raydp_spark_executor.actor.resource.cpu": "1"}
"""Executors run two tasks at once, and leave a CPU of a machine with two to Ray's own tasks."""


@app.command("examples", epilog=examples("eagleray pipeline examples"))
def list_examples(*, json: Json = False) -> None:
    """List the examples."""
    if json:
        print_json(EXAMPLES)
    else:
        print_table(("example", "what it shows"), EXAMPLES.items(), empty="there are none")


@app.command(
    "example",
    epilog=examples("eagleray pipeline example revenue --local", "eagleray pipeline example handover --rows 100000"),
)
def run_example(
    context: typer.Context,
    example_name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(EXAMPLES)}.")],
    *,
    rows: Annotated[int, typer.Option("--rows", min=1, help="How many orders to generate.")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same orders.")] = 7,
    partitions: Annotated[int, typer.Option("--partitions", min=1, help="Partitions of each topic.")] = 4,
    local: Local = False,
    json: Json = False,
    name: Name = "",
    address: Address = None,
) -> None:
    """Generate orders, run an example on them, and check what came out to the cent.

    Topics get names of their own, `example-NAME-…`, and are deleted in the end.
    """
    if example_name not in EXAMPLES:
        raise UsageError(f"there is no example {example_name!r}; {nearest(example_name, EXAMPLES)}")
    with cluster_of(Connection(name, address), local=local) as cluster:
        outcome = _run(context, cluster, example_name, rows=rows, seed=seed, partitions=partitions, is_json=json)
    if json:
        print_json({"rows": outcome.rows, "facts": outcome.facts, "is_right": outcome.is_right})
    else:
        _print(outcome)
    if not outcome.is_right:
        raise typer.Exit(1)


def _run(
    context: typer.Context, cluster: Cluster, name: str, *, rows: int, seed: int, partitions: int, is_json: bool
) -> Outcome:
    from eagleray.pipelines.examples import example  # noqa: PLC0415
    from eagleray.pipelines.examples.stage import Stage  # noqa: PLC0415 - loads Spark

    note("starting Spark on the Ray cluster...")
    with (
        tempfile.TemporaryDirectory(prefix="eagleray-example-") as directory,
        quiet_spark(context, name, cluster, config=ONE_CPU) as spark,
        showing(name, is_json=is_json) as on_batch,
    ):
        stage = Stage(
            cluster=cluster,
            spark=spark,
            directory=directory,
            rows=rows,
            seed=seed,
            partitions=partitions,
            prefix=f"example-{name}-{os.getpid()}-",
            on_batch=None if is_json else on_batch,
        )
        try:
            return example(name)(stage)
        finally:
            for topic in cluster.admin.list_topics():
                if topic.startswith(stage.prefix):
                    cluster.admin.delete_topic(topic)


def _print(outcome: Outcome) -> None:
    print_table(outcome.columns, outcome.rows, empty="nothing came out")
    print_table(
        ("checked", "expected", "found", "right"),
        ((fact.name, fact.expected, fact.found, fact.is_right) for fact in outcome.facts),
        empty="nothing was checked",
    )
