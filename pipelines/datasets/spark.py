"""The data set in Spark: executors generate their own slices, so that no row passes through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from eagleray.pipelines.datasets.json_records import DATASETS
from eagleray.pipelines.datasets.merchants import merchants
from eagleray.pipelines.datasets.orders import ORDER_DDL
from eagleray.pipelines.datasets.payments import PAYMENT_DDL
from eagleray.pipelines.datasets.totals import slices

RECORD_DDL: Final = "key BINARY, value BINARY"
_DDL: Final = {"orders": ORDER_DDL, "payments": PAYMENT_DDL}
_SLICE: Final = 50_000

Generate = Callable[[int, int], pa.RecordBatch]


def rows_frame(spark: SparkSession, dataset: str, *, seed: int, rows: int, partitions: int = 4) -> DataFrame:
    """The columns of `orders` or `payments` for the first `rows` orders."""
    return _frame(spark, partial(DATASETS[dataset].generate, seed), _DDL[dataset], rows, partitions)


def records_frame(spark: SparkSession, dataset: str, *, seed: int, rows: int, partitions: int = 4) -> DataFrame:
    """The same as records of a topic: `key` and `value`, in JSON."""
    return _frame(spark, partial(DATASETS[dataset].records, seed), RECORD_DDL, rows, partitions)


def merchants_frame(spark: SparkSession, *, seed: int) -> DataFrame:
    """The table of merchants."""
    return spark.createDataFrame(pa.Table.from_batches([merchants(seed)]))


def write_dataset(
    spark: SparkSession,
    topic: str,
    *,
    dataset: str = "orders",
    seed: int = 7,
    rows: int = 100_000,
    partitions: int = 4,
    cluster: str = "default",
) -> None:
    """Write the records of the first `rows` orders to a topic, in one transaction with a writer for each slice.

    write_dataset(spark, "orders", rows=1_000_000, seed=7)
    """
    records = records_frame(spark, dataset, seed=seed, rows=rows, partitions=partitions)
    records.write.format("eagleray").option("cluster", cluster).option("topic", topic).mode("append").save()


def _frame(spark: SparkSession, generate: Generate, ddl: str, rows: int, partitions: int) -> DataFrame:
    bounds = spark.range(0, rows, 1, max(1, min(partitions, rows)))
    return bounds.mapInArrow(partial(_generate, generate), ddl)


def _generate(generate: Generate, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn the numbers of a range, which come in order and without gaps, into the rows of these numbers."""
    for numbers in ranges:
        if numbers.num_rows:
            first = numbers.column(0)[0].as_py()
            for start, stop in slices(numbers.num_rows, _SLICE):
                yield generate(first + start, first + stop)
