"""From a pipeline to what Spark runs: the frame that is read, and the records that are written."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as is usual in PySpark

from eagleray.pipelines.data_source import DEFAULT_CLUSTER
from eagleray.pipelines.jobs.errors import InvalidJob
from eagleray.pipelines.jobs.functions import load_function, sql
from eagleray.pipelines.jobs.job_file import JobFile
from eagleray.pipelines.jobs.model import Pipeline, Sink, Source, Table, TransformFunction, unchanged

FORMAT: Final = "eagleray"
ORIGIN: Final = "record"
"""The column of the input that says where a row was: its topic, partition, offset and timestamp."""

RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "timestamp", "headers")
_ORIGIN_COLUMNS: Final = ("topic", "partition", "offset", "timestamp")
_FROM_JSON_MODES: Final = {"fail": "FAILFAST", "null": "PERMISSIVE"}


def pipeline_of(job: JobFile) -> Pipeline:
    """The pipeline that a job file describes."""
    return Pipeline(
        name=job.name,
        source=job.source,
        transform=_transform_of(job),
        sink=job.sink,
        checkpoint=job.path(job.checkpoint),
        trigger=job.trigger,
        cluster=job.cluster or DEFAULT_CLUSTER,
    )


def _transform_of(job: JobFile) -> TransformFunction:
    if job.transform is None:
        return unchanged
    if job.transform.function:
        return load_function(job.transform.function, job.directory)
    tables = {
        name: Table(path=job.path(table.path), format=table.format, options=table.options)
        for name, table in job.tables.items()
    }
    return sql(job.transform.sql, tables)


def input_of(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The stream that a pipeline reads, with the columns of its values where they are known."""
    source = pipeline.source
    reader = spark.readStream.format(FORMAT).option("cluster", pipeline.cluster)
    return with_event_time(with_values(reader.options(**source.reader_options()).load(), source), source)


def with_values(frame: DataFrame, source: Source) -> DataFrame:
    """Put together what the transform sees: the key, the value or its columns, and where the record was.

    Where it was is one column, so that `SELECT *` does not send rows to the partition that they came from.
    """
    origin = F.struct(*_ORIGIN_COLUMNS).alias(ORIGIN)
    headers = [name for name in ("headers",) if name in frame.columns]
    if not source.value_schema:
        return frame.select("key", "value", *headers, origin)
    mode = {"mode": _FROM_JSON_MODES[source.malformed]}
    row = F.from_json(F.col("value").cast("string"), source.value_schema, mode).alias("row")
    parsed = frame.select(row, "key", *headers, origin)
    names = parsed.select("row.*").columns
    return parsed.select("row.*", *(name for name in ("key", *headers, ORIGIN) if name not in names))


def with_event_time(frame: DataFrame, source: Source) -> DataFrame:
    """Add the column `event_time`, and have Spark forget what is older than the watermark allows."""
    if source.watermark is None:
        return frame
    timed = frame.withColumn("event_time", F.expr(source.watermark.event_time))
    return timed.withWatermark("event_time", source.watermark.delay)


def output_of(frame: DataFrame, sink: Sink) -> DataFrame:
    """The records that a frame stands for."""
    if sink.key:
        frame = frame.withColumn("key", F.expr(sink.key).cast("string"))
    if "value" not in frame.columns:
        names = [name for name in frame.columns if name not in (*RECORD_COLUMNS, ORIGIN)]
        if not names:
            raise InvalidJob("the transform gives no column for the value; expected `value`, or columns for its JSON.")
        frame = frame.withColumn("value", F.to_json(F.struct(*names)))
    return frame.select(*(name for name in RECORD_COLUMNS if name in frame.columns))
