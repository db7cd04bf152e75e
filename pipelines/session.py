"""A Spark session on the Ray cluster that the broker runs on, by RayDP, with the data source `eagleray` in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import raydp  # type: ignore[import-untyped] # it has no types
from pyspark.sql import SparkSession

from eagleray.actors.embedded_ray import LOOPBACK, EmbeddedRay, address_of_this_node
from eagleray.pipelines.data_source import register

DEFAULT_SETTINGS: Final[Mapping[str, str]] = {
    # The console belongs to the program that runs the job.
    "spark.ui.showConsoleProgress": "false",
    # Spark's web pages are a server that nobody has asked for.
    "spark.ui.enabled": "false",
    # A micro-batch of a stream is small; two hundred shuffle partitions, Spark's default, would be most of its cost.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_session(
    name: str = "eagleray",
    *,
    address: str | None = "auto",
    executors: int = 1,
    cores: int = 2,
    memory: str = "1g",
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Run Spark on the Ray cluster at `address`, or on the one that this process has joined, and stop it in the end.

        with eagleray.start(data_dir="data"), spark_session() as spark:
            spark.read.format("eagleray").option("subscribe", "orders").load().count()

    Executors are Ray actors with `cores` and `memory` each. `config` takes Spark's settings by their names.
    """
    ray = EmbeddedRay(address)
    spark = start_spark(name, executors=executors, cores=cores, memory=memory, config=config)
    try:
        yield spark
    finally:
        raydp.stop_spark()
        ray.close()


def start_spark(
    name: str, *, executors: int, cores: int, memory: str, config: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark on the Ray cluster that this process has joined; `raydp.stop_spark` ends it."""
    _choose_python()
    settings = {**DEFAULT_SETTINGS, **_addresses(), **(config or {})}
    session: SparkSession = raydp.init_spark(
        name, executors, cores, memory, fault_tolerant_mode=False, configs=settings
    )
    register(session)
    return session


def _choose_python() -> None:
    """Let Spark's workers run in this Python, where our package is; Spark takes whichever is first in the path."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _addresses() -> dict[str, Any]:
    """Let the driver listen where Ray does, so that a cluster on loopback stays there."""
    address = address_of_this_node()
    if address == LOOPBACK:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return {"spark.driver.host": address, "spark.driver.bindAddress": address}
