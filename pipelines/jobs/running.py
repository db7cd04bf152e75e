"""Running pipelines: exactly once, micro-batch by micro-batch."""

from __future__ import annotations

import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as is usual in PySpark
from pyspark.sql.streaming.query import StreamingQuery

from eagleray.pipelines.jobs.building import FORMAT, input_of, output_of
from eagleray.pipelines.jobs.metrics import OBSERVATION, BatchMetrics, OnBatch, PipelineReport, follow
from eagleray.pipelines.jobs.model import AVAILABLE_NOW, Pipeline


def start_pipeline(spark: SparkSession, pipeline: Pipeline) -> StreamingQuery:
    """Start a pipeline and return at once; the query says how it goes, and stops it."""
    output = output_of(pipeline.transform(input_of(spark, pipeline)), pipeline.sink)
    counted = output.observe(OBSERVATION, F.count(F.lit(1)).alias("rows"))
    writer = counted.writeStream.format(FORMAT).queryName(pipeline.name).outputMode("append")
    writer = writer.option("cluster", pipeline.cluster).option("checkpointLocation", pipeline.checkpoint)
    writer = writer.options(**pipeline.sink.writer_options())
    if pipeline.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=pipeline.trigger).start()


def run_pipeline(spark: SparkSession, pipeline: Pipeline, on_batch: OnBatch | None = None) -> PipelineReport:
    """Run a pipeline until it ends, or until Ctrl-C; `on_batch` hears of each micro-batch.

        report = run_pipeline(spark, pipeline, on_batch=print)
        print(report.rows_in, report.rows_out)

    A pipeline that is triggered by an interval ends by being stopped. What was committed stays; run again with the same
    checkpoint it goes on from there. Raises what the query ended with.
    """
    began = time.monotonic()
    batches: list[BatchMetrics] = []
    query = start_pipeline(spark, pipeline)
    try:
        for batch in follow(query):
            batches.append(batch)
            if on_batch is not None:
                on_batch(batch)
    except KeyboardInterrupt:
        if pipeline.trigger == AVAILABLE_NOW:
            raise
    finally:
        query.stop()
    return PipelineReport(name=pipeline.name, batches=batches, seconds=round(time.monotonic() - began, 2))
