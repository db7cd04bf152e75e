"""Whether a pipeline can run, found out without running it: its topics by the cluster, its plan by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from eagleray.pipelines.jobs.building import input_of, output_of
from eagleray.pipelines.jobs.model import Pipeline, Sink, Source
from eagleray.pipelines.options import SourceOptions
from eagleray.pipelines.options.topics import partitions_to_read, unknown_topic
from eagleray.pipelines.sink.schema import check_sink_schema

_CHECKER: Final = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_APPEND: Final = "org.apache.spark.sql.streaming.OutputMode"


def check_topics(source: Source, sink: Sink, partition_counts: Mapping[str, int]) -> None:
    """Raise OptionError where the cluster, which has these topics, has not those that are to be read and written."""
    options = SourceOptions.parse(source.reader_options(), streaming=True)
    partitions_to_read(options.selection, partition_counts)
    if sink.topic and sink.topic not in partition_counts:
        raise unknown_topic("sink.topic", [sink.topic], list(partition_counts))


def check_plan(spark: SparkSession, pipeline: Pipeline) -> None:
    """Have Spark analyse what a pipeline does, columns, types and functions, and raise what it says; nothing is run."""
    output = output_of(pipeline.transform(input_of(spark, pipeline)), pipeline.sink)
    check_sink_schema(output.schema, pipeline.sink.topic or None)
    _check_streaming(output)


def _check_streaming(frame: DataFrame) -> None:
    """Raise for what a stream cannot do, such as to sort; Spark would say so when the query is started."""
    jvm = frame.sparkSession._jvm  # noqa: SLF001 - PySpark has no other way
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - as above
    getattr(jvm, _CHECKER).checkForStreaming(plan, getattr(jvm, _APPEND).Append())
