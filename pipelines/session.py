"""A Spark session on the Ray cluster that the broker runs on, by RayDP, with the data source `eagleray` in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import raydp  # type: ignore[import-untyped] # it has no types
from pyspark import SparkContext
from pyspark.sql import SparkSession

from eagleray.actors.embedded_ray import LOOPBACK, EmbeddedRay, address_of_this_node
from eagleray.pipelines.data_source import DEFAULT_CLUSTER, register

_END_S: Final = 20

_LOG_SETTINGS: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

DEFAULT_SETTINGS: Final[Mapping[str, str]] = {
    # Workers are forked with the data source loaded.
    "spark.python.daemon.module": "eagleray.pipelines.daemon",
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
    cluster: str = DEFAULT_CLUSTER,
    executors: int = 1,
    cores: int = 2,
    memory: str = "1g",
    config: Mapping[str, str] | None = None,
    log_level: str = "error",
) -> Iterator[SparkSession]:
    """Run Spark on the Ray cluster at `address`, or on the one that this process has joined, and stop it in the end.

        with eagleray.start(data_dir="data"), spark_session() as spark:
            spark.read.format("eagleray").option("subscribe", "orders").load().count()

    The data source knows the way to `cluster` from the start; to others each of Spark's processes has to find it.
    Executors are Ray actors with `cores` and `memory` each. `config` takes Spark's settings by their names. The driver
    logs to standard error from `log_level` on.
    """
    ray = EmbeddedRay(address)
    libraries_before = native_libraries()
    scratch = tempfile.mkdtemp(prefix="eagleray-spark-")
    try:
        _choose_python()
        settings = {**DEFAULT_SETTINGS, **_settings(scratch, log_level), **(config or {})}
        spark: SparkSession = raydp.init_spark(
            name, executors, cores, memory, fault_tolerant_mode=False, configs=settings
        )
        register(spark, cluster=cluster)
        yield spark
    finally:
        raydp.stop_spark()
        _end_driver()
        shutil.rmtree(scratch, ignore_errors=True)
        ray.close()
        for folder in native_libraries() - libraries_before:
            shutil.rmtree(folder, ignore_errors=True)


def native_libraries() -> set[Path]:
    """Where Java processes have unpacked Ray's native library: 40 MB each, in a place that Ray does not let one choose.

    They do not remove it. A process that has loaded it does not need the file any more.
    """
    return {library.parent for library in Path("/tmp/ray").glob("*/libcore_worker_library_java.so")}  # noqa: S108


def _end_driver() -> None:
    """End the driver's Java process, which PySpark would keep, with its settings, for the next session."""
    gateway = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    # It ends when nobody can tell it anything any more.
    process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - as above


def _settings(scratch: str, log_level: str) -> dict[str, str]:
    """Let Spark be where Ray is, and what it leaves lying about in one place, which goes with the session."""
    log_settings = Path(scratch, "log4j2.properties")
    log_settings.write_text(_LOG_SETTINGS.format(level=log_level), encoding="ascii")
    address = address_of_this_node()
    in_scratch = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
    if address == LOOPBACK:
        # A cluster on loopback stays there.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    return {
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.log4j.config.file.name": str(log_settings),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.driver.extraJavaOptions": in_scratch,
        # Executors have the place, too, where they are sure to be on this machine.
        "spark.executor.extraJavaOptions": in_scratch if address == LOOPBACK else "-XX:-UsePerfData",
    }


def _choose_python() -> None:
    """Let Spark's workers run in this Python, where our package is; Spark takes whichever is first in the path."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
