"""`eagleray pipeline run`: the pipeline of a job file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from eagleray.cli.options import Address, Connection, examples
from eagleray.cli.output import note, print_facts
from eagleray.cli.running import prepare_to_join
from eagleray.client.errors import ClusterNotFound
from eagleray.pipelines.cli.clusters import cluster_of, quiet_spark

if TYPE_CHECKING:
    from eagleray.pipelines.jobs import JobFile
    from eagleray.pipelines.jobs.metrics import OnBatch, PipelineReport


app = typer.Typer()


@app.command(
    epilog=examples(
        "eagleray pipeline run job.toml",
        "eagleray pipeline run job.toml --check",
        "eagleray pipeline run job.yaml --json | jq .rows_out",
    )
)
def run(
    context: typer.Context,
    job_file: Annotated[str, typer.Argument(metavar="JOB", help="The job file: TOML, or YAML.")],
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Check the file, its topics and its plan, and run nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print each micro-batch as a line of JSON.")] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The Eagleray cluster, if not that of the job.", rich_help_panel="Connection"),
    ] = None,
    address: Address = None,
) -> None:
    """Consume, transform and produce as a job file says, exactly once, and show each micro-batch.

    A job with the trigger `available-now` ends when it has read what is there; any other runs until Ctrl-C. Run again,
    it goes on where it was, and writes nothing twice.
    """
    from eagleray.pipelines.jobs import read_job  # noqa: PLC0415 - `--help` needs none of it

    job = read_job(job_file)
    connection = Connection(name or job.cluster, address)
    if check:
        found = _check(job, connection)
        writes = job.sink.topic or "to its topic column"
        note(f"{job_file} is right: {job.name} reads {_inputs(job)} and writes {writes}; {found}")
        return
    report = _run(context, job, connection, is_json=json)
    if not json:
        _print(report)


def _inputs(job: JobFile) -> str:
    return ", ".join(job.source.topics) or f"topics like {job.source.pattern}"


def _check(job: JobFile, connection: Connection) -> str:
    """Check with the cluster that the topics exist, and with Spark that the plan is right; return what was checked."""
    prepare_to_join(connection)
    from eagleray.pipelines.jobs import check_plan, pipeline_of  # noqa: PLC0415 - loads Spark
    from eagleray.pipelines.jobs.model import as_options  # noqa: PLC0415
    from eagleray.pipelines.session import planning_session  # noqa: PLC0415

    pipeline = pipeline_of(job)
    topics = _check_topics(job, connection)
    with planning_session(as_options(job.spark.config)) as spark:
        check_plan(spark, pipeline)
    return f"Spark has analysed its plan, and {topics}"


def _check_topics(job: JobFile, connection: Connection) -> str:
    from eagleray.pipelines.jobs import check_topics  # noqa: PLC0415 - loads Spark

    with ExitStack() as joined:
        try:
            cluster = joined.enter_context(cluster_of(connection))
        except ClusterNotFound as error:
            if connection.name or connection.address:
                raise
            return f"its topics were not checked: {error}"
        check_topics(job.source, job.sink, cluster.admin.list_topics(internal=True))
    return "its topics exist."


def _run(context: typer.Context, job: JobFile, connection: Connection, *, is_json: bool) -> PipelineReport:
    # Ray looks once, when it is loaded, at how it is to join; Spark on Ray loads it, and so may the job's own module.
    prepare_to_join(connection)
    from eagleray.pipelines.jobs import check_topics, pipeline_of, run_pipeline  # noqa: PLC0415 - loads Spark
    from eagleray.pipelines.jobs.model import as_options  # noqa: PLC0415

    pipeline = pipeline_of(job)
    sizes = job.spark
    config = as_options(sizes.config)
    with cluster_of(connection) as cluster:
        # Spark would find out half a minute later.
        check_topics(job.source, job.sink, cluster.admin.list_topics(internal=True))
        with (
            quiet_spark(
                context,
                job.name,
                cluster,
                executors=sizes.executors,
                cores=sizes.cores,
                memory=sizes.memory,
                config=config,
            ) as spark,
            showing(job.name, is_json=is_json) as on_batch,
        ):
            return run_pipeline(spark, msgspec.structs.replace(pipeline, cluster=cluster.name), on_batch)


@contextmanager
def showing(name: str, *, is_json: bool) -> Iterator[OnBatch]:
    """Return what shows each micro-batch: a live table on a terminal, a line for each elsewhere, or JSON."""
    from eagleray.pipelines.cli.batch_views import JsonLines, LiveTable, TextLines  # noqa: PLC0415

    if is_json:
        yield JsonLines().show
    elif sys.stderr.isatty():
        with LiveTable(name) as table:
            yield table.show
    else:
        yield TextLines().show


def _print(report: PipelineReport) -> None:
    print_facts(
        {
            "pipeline": report.name,
            "micro-batches": len(report.batches),
            "rows in": f"{report.rows_in:,}",
            "rows out": f"{report.rows_out:,}",
            "seconds": report.seconds,
        }
    )
