"""Load from Spark: jobs whose tasks generate rows and write them through the data source, one transaction a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from eagleray.pipelines.loadtest.plan import LoadPlan
from eagleray.pipelines.loadtest.report import Driven, Sample
from eagleray.pipelines.spark_errors import cause_of


class SparkDriver(msgspec.Struct):
    """Runs one job after the other until time or count is up. A job that fails is counted, and leaves nothing."""

    _spark: SparkSession
    _cluster_name: str
    _plan: LoadPlan
    _samples: list[Sample] = []
    _errors: int = 0
    _first_error: str = ""

    def prepare(self) -> None:
        """Run a job that writes nowhere, so that executors have started their Python before the clock runs."""
        self._rows().write.format("noop").mode("append").save()

    def run(self, began: float) -> Driven:
        """Run the jobs; times count from `began`, on this machine's monotonic clock."""
        plan = self._plan
        for _ in range(plan.spark_jobs):
            if time.monotonic() - began >= plan.seconds:
                break
            self._run_job(began)
        return Driven(
            name="spark jobs", kind="spark", samples=self._samples, errors=self._errors, first_error=self._first_error
        )

    def _run_job(self, began: float) -> None:
        started = time.monotonic()
        try:
            writer = self._rows().write.format("eagleray").option("cluster", self._cluster_name)
            writer.option("topic", self._plan.topic).mode("append").save()
        except (PySparkException, Py4JError) as error:
            self._errors += 1
            self._first_error = self._first_error or cause_of(str(error))
        else:
            ended = time.monotonic()
            self._samples.append(Sample(ended - began, (ended - started) * 1000, self._plan.spark_rows))

    def _rows(self) -> DataFrame:
        plan = self._plan
        numbers = self._spark.range(0, plan.spark_rows, 1, plan.spark_tasks)
        return numbers.mapInArrow(partial(_records, plan.size), "key BINARY, value BINARY")


def _records(size: int, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keys from the numbers, and values of the right size that do not compress to nothing."""
    for numbers in ranges:
        count = numbers.num_rows
        content = np.random.default_rng().bytes(count * size)
        offsets = pa.py_buffer((np.arange(count + 1) * size).astype(np.int32))
        values = pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(content)])
        keys = numbers.column(0).cast(pa.string()).cast(pa.binary())
        yield pa.RecordBatch.from_arrays([keys, values], names=["key", "value"])
