"""Rows to write, which cost Spark little to make."""

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.endpoints import PARTITIONS

VALUE_BYTES = 200
# Twenty digits ten times: bytes that differ from row to row.
_VALUE = "cast(repeat(lpad(cast({id} as string), 20, '0'), 10) as binary) as value"
_KEY = "cast(cast({id} as string) as binary) as key"


def generated_rows(spark: SparkSession, rows: int, *, keyed: bool = False) -> DataFrame:
    columns = (_KEY, _VALUE) if keyed else (_VALUE,)
    return spark.range(rows, numPartitions=PARTITIONS).selectExpr(*(each.format(id="id") for each in columns))


def placed_rows(spark: SparkSession, rows: int, partitions: int = PARTITIONS) -> DataFrame:
    """Rows that go to partitions in turn, so that all of them get the same number."""
    numbers = spark.range(rows, numPartitions=PARTITIONS)
    return numbers.selectExpr(_VALUE.format(id="id"), f"cast(id % {partitions} as int) as partition")


def generated_stream(spark: SparkSession, rows_per_batch: int, tasks: int = PARTITIONS) -> DataFrame:
    """A stream whose every micro-batch has as many rows as are asked for, in as many tasks."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_per_batch)
    return stream.option("numPartitions", tasks).load().selectExpr(_VALUE.format(id="value"), "value as number")
