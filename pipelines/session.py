"""A Spark session on the Ray cluster that the broker runs on, by RayDP, with the data source `eagleray` in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import ray
import raydp  # type: ignore[import-untyped] # it has no types
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from eagleray.actors.cluster.embedded_ray import LOOPBACK, EmbeddedRay, address_of_this_node
from eagleray.connecting import join_ray, join_ray_of, require_ray
from eagleray.locating import locate
from eagleray.pipelines.data_source import DEFAULT_CLUSTER, EaglerayDataSource, register
from eagleray.pipelines.spark_errors import remember_texts
from eagleray.pipelines.spark_log import LOG_FILE, driver_output_to, keep_log

_END_S: Final = 20

# RayDP's agent puts another stream in the place of standard error while logging begins; the log follows it back.
_LOG_SETTINGS: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.follow = true
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

DEFAULT_SETTINGS: Final[Mapping[str, str]] = {
    # Workers are forked with the data source loaded.
    "spark.python.daemon.module": "eagleray.pipelines.daemon",
    # The console belongs to the program that runs the job.
    "spark.ui.showConsoleProgress": "false",
    # Spark's web pages are a server that a session does not need.
    "spark.ui.enabled": "false",
    # A micro-batch of a stream is small; two hundred shuffle partitions, Spark's default, would be most of its cost.
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_session(
    name: str = "eagleray",
    *,
    address: str | None = None,
    cluster: str = DEFAULT_CLUSTER,
    executors: int = 1,
    cores: int = 2,
    memory: str = "1g",
    config: Mapping[str, str] | None = None,
    log_level: str = "warn",
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """Run Spark on the Ray cluster that a cluster is on, and stop it in the end.

        with eagleray.start(data_dir="data"), spark_session() as spark:
            spark.read.format("eagleray").option("subscribe", "orders").load().count()

    It is the Ray cluster that this process has joined, else that of `cluster`, which is found as `eagleray.connect`
    finds it: at `address`, or by the same rule without one. The data source knows the way to `cluster` from the start;
    to others each of Spark's processes has to find it.
    Executors are Ray actors with `cores` and `memory` each. `config` takes Spark's settings by their names.

    The driver logs from `log_level` on, into a file that goes with the session. Where Spark fails, the file is kept in
    `~/.eagleray/spark-logs`, and the error that ends the block has a note of its path. With `verbose` the driver writes
    to standard error instead.
    """
    joined = _join_ray(cluster, address)
    libraries_before = native_libraries()
    scratch = tempfile.mkdtemp(prefix="eagleray-spark-")
    log = None if verbose else Path(scratch, LOG_FILE)

    def remove_files() -> None:
        for folder in {Path(scratch), *(native_libraries() - libraries_before)}:
            shutil.rmtree(folder, ignore_errors=True)

    with _afterwards(raydp.stop_spark, _end_driver, remove_files, joined.close), _explained_by(log, name):
        _choose_python()
        settings = {**DEFAULT_SETTINGS, **_settings(scratch, log_level), **(config or {})}
        with driver_output_to(log):
            spark: SparkSession = raydp.init_spark(
                name, executors, cores, memory, fault_tolerant_mode=False, configs=settings
            )
        register(spark, cluster=cluster)
        yield spark


@contextmanager
def _explained_by(log: Path | None, name: str) -> Iterator[None]:
    """Keep what is known of an error when Spark has ended: its texts, and the log."""
    try:
        yield
    except Exception as error:
        # Their texts are with the Java process, which is about to end.
        remember_texts(error)
        if log is not None:
            keep_log(log, name, error)
        raise


@contextmanager
def _afterwards(*steps: Callable[[], object]) -> Iterator[None]:
    """Take every step in the end, whichever of them fail; the first error is raised, that of the block before all.

    Stopping Spark fails where its Java process is gone, and what is left behind has to be removed all the same.
    """
    errors: list[BaseException] = []
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - it is raised below
        errors.append(error)
    for step in steps:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - as above
            errors.append(error)
    if errors:
        raise errors[0]


def _join_ray(cluster: str, address: str | None) -> EmbeddedRay:
    """Join the Ray cluster of `cluster`, unless this process has joined one; raises ClusterNotFound, RefusedError."""
    if ray.is_initialized():
        return join_ray(None)
    joined = join_ray_of(locate(cluster, address))
    require_ray(joined, "Spark")
    assert joined is not None
    return joined


@contextmanager
def planning_session(config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Spark in this machine's memory alone, without Ray, to have plans analysed; it knows no cluster."""
    scratch = tempfile.mkdtemp(prefix="eagleray-plan-")
    log = Path(scratch, LOG_FILE)
    remove_files = partial(shutil.rmtree, scratch, ignore_errors=True)
    with _afterwards(_stop_active, _end_driver, remove_files), _explained_by(log, "plan"):
        _choose_python()
        settings = {**DEFAULT_SETTINGS, **_settings_at(LOOPBACK, scratch, "warn"), **(config or {})}
        with driver_output_to(log):
            spark = _local_session(settings)
        spark.dataSource.register(EaglerayDataSource)
        yield spark


def _local_session(settings: Mapping[str, str]) -> SparkSession:
    configured = SparkConf()
    for key, text in {**settings, "spark.master": "local[1]", "spark.app.name": "plan"}.items():
        configured.set(key, text)
    return SparkSession.builder.config(conf=configured).getOrCreate()


def _stop_active() -> None:
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


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
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - as above
    gateway.shutdown()
    process = gateway.proc
    # It ends when its input is closed.
    process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _settings(scratch: str, log_level: str) -> dict[str, str]:
    return _settings_at(address_of_this_node(), scratch, log_level)


def _settings_at(address: str, scratch: str, log_level: str) -> dict[str, str]:
    """Give Spark an address, and put its temporary files in one directory, which goes with the session."""
    log_settings = Path(scratch, "log4j2.properties")
    log_settings.write_text(_LOG_SETTINGS.format(level=log_level), encoding="ascii")
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
        # The agent would leave the file of that stream in a directory that all of a machine's Rays share.
        "spark.driver.extraJavaOptions": f"{in_scratch} -Dray.logging.dir={scratch}",
        # Executors have the place, too, where they are sure to be on this machine.
        "spark.executor.extraJavaOptions": in_scratch if address == LOOPBACK else "-XX:-UsePerfData",
    }


def _choose_python() -> None:
    """Make Spark's workers run in this Python, where our package is; Spark takes whichever is first in the path."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
