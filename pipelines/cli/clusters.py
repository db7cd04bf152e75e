"""Connecting to a cluster, and to Spark on its Ray, from a command that works with threads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import typer

from eagleray.cli.errors import UsageError
from eagleray.cli.options import Connection
from eagleray.cli.output import note
from eagleray.cli.running import prepare_ray, prepare_to_join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eagleray.api import Cluster


class SessionSizes(TypedDict, total=False):
    """What `spark_session` is asked for beside its name and its cluster."""

    executors: int
    cores: int
    memory: str
    config: Mapping[str, str] | None


Local = Annotated[bool, typer.Option("--local", help="Start a cluster for it and end it afterwards.")]


@contextmanager
def cluster_of(connection: Connection, *, local: bool = False) -> Iterator[Cluster]:
    """Join the Ray of a cluster and connect to it; with `local`, start both for as long as the command runs."""
    with _local_cluster() if local else _running_cluster(connection) as cluster:
        yield cluster


@contextmanager
def _running_cluster(connection: Connection) -> Iterator[Cluster]:
    prepare_to_join(connection)
    # Ray takes a second to load, and `--help` needs none of it.
    from eagleray.api import connect  # noqa: PLC0415
    from eagleray.cli import session  # noqa: PLC0415
    from eagleray.locating import locate  # noqa: PLC0415
    from eagleray.location import COMMAND  # noqa: PLC0415

    location = locate(connection.name or None, connection.address, COMMAND)
    if location.credentials is not None:
        raise UsageError("Spark runs on the Ray cluster of the broker; give --address HOST:PORT of its head.")
    with (
        session.joined_ray(location.address, is_probed=True),
        connect(location.name, address=location.address) as cluster,
    ):
        yield cluster


@contextmanager
def _local_cluster() -> Iterator[Cluster]:
    prepare_ray(None)
    from eagleray.api import start  # noqa: PLC0415 - loads Ray

    note("starting a cluster on this machine...")
    name = f"temporary-{os.getpid()}"
    with (
        tempfile.TemporaryDirectory(prefix="eagleray-data-") as directory,
        start(directory, name=name, layout="colocated") as cluster,
    ):
        yield cluster


@contextmanager
def quiet_spark(
    context: typer.Context, name: str, cluster: Cluster, **sizes: Unpack[SessionSizes]
) -> Iterator[SparkSession]:
    """Spark on the Ray that was joined, for a cluster there; it keeps its log to itself, unless --debug asks for it.

    Errors are reported in one line with the path of the log, which has all of it.
    """
    from eagleray.pipelines.session import spark_session  # noqa: PLC0415 - loads Spark

    is_verbose = bool(context.find_root().params.get("debug"))
    with spark_session(name, address=None, cluster=cluster.name, verbose=is_verbose, **sizes) as spark:
        yield spark
