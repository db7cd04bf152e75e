"""Declarative pipelines: consume, transform and produce, exactly once.

    from eagleray.pipelines.jobs import Pipeline, Sink, Source, run_pipeline, sql

    pipeline = Pipeline(
        name="large-orders",
        source=Source(topics=("orders",), value_schema="order_id BIGINT, amount_cents BIGINT"),
        transform=sql("SELECT * FROM input WHERE amount_cents >= 100000"),
        sink=Sink(topic="large-orders", key="order_id"),
        checkpoint="checkpoints/large-orders",
    )
    run_pipeline(spark, pipeline, on_batch=print)

The same as a file is run by `eagleray pipeline run`. Names are loaded when they are first used: a job file is read, and
found wanting, without Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray.pipelines.jobs.building import pipeline_of as pipeline_of
    from eagleray.pipelines.jobs.checking import check_plan as check_plan
    from eagleray.pipelines.jobs.checking import check_topics as check_topics
    from eagleray.pipelines.jobs.errors import InvalidJob as InvalidJob
    from eagleray.pipelines.jobs.functions import sql as sql
    from eagleray.pipelines.jobs.job_file import JobFile as JobFile
    from eagleray.pipelines.jobs.job_file import parse_job as parse_job
    from eagleray.pipelines.jobs.job_file import read_job as read_job
    from eagleray.pipelines.jobs.metrics import BatchMetrics as BatchMetrics
    from eagleray.pipelines.jobs.metrics import PipelineReport as PipelineReport
    from eagleray.pipelines.jobs.model import Pipeline as Pipeline
    from eagleray.pipelines.jobs.model import Sink as Sink
    from eagleray.pipelines.jobs.model import Source as Source
    from eagleray.pipelines.jobs.model import SparkSizes as SparkSizes
    from eagleray.pipelines.jobs.model import Table as Table
    from eagleray.pipelines.jobs.model import Watermark as Watermark
    from eagleray.pipelines.jobs.running import run_pipeline as run_pipeline
    from eagleray.pipelines.jobs.running import start_pipeline as start_pipeline

_HOMES = {
    "building": ("pipeline_of",),
    "checking": ("check_plan", "check_topics"),
    "errors": ("InvalidJob",),
    "functions": ("sql",),
    "job_file": ("JobFile", "parse_job", "read_job"),
    "metrics": ("BatchMetrics", "PipelineReport"),
    "model": ("Pipeline", "Sink", "Source", "SparkSizes", "Table", "Watermark"),
    "running": ("run_pipeline", "start_pipeline"),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
