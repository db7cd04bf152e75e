"""Both brokers and one Spark session beside them, for as long as a comparison lasts."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from pyspark.sql import SparkSession

import eagleray
from benchmarks.peer.readiness import free_ports
from benchmarks.peer.real_kafka import RealKafka
from benchmarks.spark.connector import connector_settings
from benchmarks.spark.endpoints import Endpoint, endpoints
from eagleray.pipelines.session import spark_session

SETTINGS = {
    # An idle trigger is told of at once: what it costs is one of the figures.
    "spark.sql.streaming.noDataProgressEventInterval": "0",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
    # Spark's own source logs several lines for every poll, thousands in a job, and would be slowed down by them.
    "spark.executor.syncLogLevel.enabled": "true",
}


class Stage(Struct, frozen=True):
    """What measurements share."""

    spark: SparkSession
    endpoints: list[Endpoint]
    directory: Path
    _numbers: Iterator[int] = itertools.count()

    def new_name(self, what: str) -> str:
        """A name that nothing has yet, for a topic or a directory."""
        return f"{what}-{next(self._numbers)}"

    def new_directory(self, what: str) -> Path:
        return self.directory / self.new_name(what)


@contextmanager
def open_stage(layout: str, targets: list[str]) -> Iterator[Stage]:
    """Start the brokers and Spark; stop them in the end, and remove their files."""
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="eagleray-bench-")))
        (port,) = free_ports(1)
        opened.enter_context(eagleray.start(str(directory / "ours"), layout=layout, port=port))
        kafka = opened.enter_context(RealKafka(directory / "kafka"))
        spark = opened.enter_context(spark_session("bench", config=SETTINGS | connector_settings()))
        spark.sparkContext.setLogLevel("WARN")
        every = endpoints(f"127.0.0.1:{port}", kafka.bootstrap_servers)
        yield Stage(spark, [each for each in every if each.name in targets], directory)
