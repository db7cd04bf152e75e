"""The data source `eagleray`: topics as Spark reads and writes them.

    register(spark)
    orders = spark.readStream.format("eagleray").option("subscribe", "orders").load()
    orders.writeStream.format("eagleray").option("topic", "copy").option("checkpointLocation", "/data/copy").start()

Options and columns are those of Spark's own Kafka source; docs/spark-options.md lists them.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from eagleray.actors.process.cluster_credentials import ClusterCredentials
from eagleray.pipelines.connection import ClusterLocation, ClusterNotReached, find_credentials, location_of
from eagleray.pipelines.options import OptionError, SinkOptions, SourceOptions, wants_headers
from eagleray.pipelines.options.topics import unknown_topic
from eagleray.pipelines.sink.schema import check_sink_schema
from eagleray.pipelines.sink.writers import BatchWriter, StreamWriter
from eagleray.pipelines.source.batch_reader import BatchReader
from eagleray.pipelines.source.schema import source_schema
from eagleray.pipelines.source.stream_reader import StreamReader

_log = logging.getLogger(__name__)

DEFAULT_CLUSTER = "default"


class EaglerayDataSource(DataSource):
    """Gives Spark its readers and writers, after it has checked options and columns."""

    credentials: ClassVar[dict[str, ClusterCredentials]] = {}
    """Of the clusters that were known when the data source was registered, so that Spark's processes need not ask."""

    application: ClassVar[str] = ""
    """The id of the Spark application that it was registered with, which its transactions are known by."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "eagleray"

    def schema(self) -> StructType:
        """Return the columns of a read."""
        # Which kind of read it is decides over other options, and Spark does not say it here.
        return source_schema(wants_headers(self.options))

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch job."""
        self._check_read(schema)
        options = SourceOptions.parse(self.options, streaming=False)
        return BatchReader(options, self._where(options))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        self._check_read(schema)
        options = SourceOptions.parse(self.options, streaming=True)
        return StreamReader(options, self._where(options))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch job."""
        options = SinkOptions.parse(self.options, streaming=False)
        check_sink_schema(schema, options.topic)
        if overwrite:
            raise OptionError("Topics can only be added to. Use .mode('append').")
        return BatchWriter(options, self._to_write(options), self.application)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, ARG002 - Spark's name
        """Return the writer of a stream.

        Spark asks to overwrite for outputMode("complete"), where each batch has the whole result. It is added to the
        topic, as Spark's own Kafka sink does it; Python's data sources have no other mode for aggregations.
        """
        options = SinkOptions.parse(self.options, streaming=True)
        check_sink_schema(schema, options.topic)
        return StreamWriter(options, self._to_write(options), self.application)

    def _where(self, options: SourceOptions | SinkOptions) -> ClusterLocation:
        return location_of(options.cluster, options.address, options.contact, self.credentials)

    def _check_read(self, schema: StructType) -> None:
        expected = self.schema()
        if schema != expected:
            raise OptionError(
                f"The columns of the source `eagleray` are {expected.simpleString()}, but {schema.simpleString()} was "
                "asked for. Leave out .schema(...) and select from what there is."
            )

    def _to_write(self, options: SinkOptions) -> ClusterLocation:
        """Return the location of the cluster to write to; raise OptionError where it has no such topic."""
        where = self._where(options).found()
        if options.topic is not None:
            known = where.connect().admin.list_topics(internal=True)
            if options.topic not in known:
                raise unknown_topic("topic", [options.topic], list(known))
        return where


def register(spark: SparkSession, *, cluster: str = DEFAULT_CLUSTER, address: str = "auto") -> None:
    """Register the format `eagleray` with a session, and tell its processes where the cluster is.

    A cluster that does not run yet, or another one, is looked up when it is first used.
    """
    application = spark.conf.get("spark.app.id", "") or ""
    spark.dataSource.register(_with_credentials(_credentials(cluster, address), application))


def _credentials(cluster: str, address: str) -> dict[str, ClusterCredentials]:
    try:
        return {cluster: find_credentials(cluster, address)}
    except ClusterNotReached as error:
        _log.info("the data source is registered without a cluster: %s", error)
        return {}


def _with_credentials(credentials: dict[str, ClusterCredentials], application: str = "") -> type[EaglerayDataSource]:
    """Return the data source as a class that is pickled whole, with the credentials in it.

    Spark pickles a class by name where it can be imported. A class that was made here cannot be.
    """
    attributes: dict[str, Any] = {"credentials": credentials, "application": application}
    return type("RegisteredDataSource", (EaglerayDataSource,), attributes)
