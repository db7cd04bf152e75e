"""From Spark to Ray in one program: Spark writes features exactly once, Ray tasks read what was committed and learn.

A Ray task for each partition reads its committed records straight from the leaders. What they return are tables in
Ray's object store, which Ray Data takes as they are: nothing goes through this process. From the sums of all blocks the
price of an order is estimated, by least squares.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import ray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as is usual in PySpark

import eagleray
from eagleray.pipelines.committed_reads import committed_records
from eagleray.pipelines.datasets import ORDER_DDL, expected_totals
from eagleray.pipelines.datasets.vocabulary import CATEGORIES
from eagleray.pipelines.examples.stage import Fact, Outcome, Stage
from eagleray.pipelines.jobs import Pipeline, Sink, Source, run_pipeline
from eagleray.pipelines.jobs.errors import NoFreeCpu

FEATURES: Final = ("any order", "each item", *(category.name for category in CATEGORIES[1:]))
_LITTLE_CPU: Final = 0.1


def features_pipeline(source: str, sink: str, checkpoint: str, *, cluster: str = "default") -> Pipeline:
    """Turn orders into numbers to learn from."""
    return Pipeline(
        name="features",
        source=Source(topics=(source,), value_schema=ORDER_DDL, options={"maxOffsetsPerTrigger": 10_000}),
        transform=features_of,
        sink=Sink(topic=sink, key="order_id"),
        checkpoint=checkpoint,
        cluster=cluster,
    )


def features_of(orders: DataFrame) -> DataFrame:
    """One, the number of items, and one for the category; the amount is what is to be explained."""
    categories = [(F.col("category") == category.name).cast("int") for category in CATEGORIES[1:]]
    features = F.array(F.lit(1), F.col("quantity").cast("int"), *categories)
    return orders.select("order_id", features.alias("features"), "amount_cents")


def read_partition(cluster_name: str, topic: str, partition: int) -> pa.Table:
    """The committed features of one partition as they are now; runs as a Ray task."""
    with eagleray.connect(cluster_name) as cluster:
        rows = [msgspec.json.decode(record.value or b"") for record in committed_records(cluster, topic, partition)]
    features = pa.array([row["features"] for row in rows], pa.list_(pa.int64(), len(FEATURES)))
    return pa.table({"features": features, "amount_cents": pa.array([row["amount_cents"] for row in rows], pa.int64())})


def sums_of(block: pa.Table) -> pa.Table:
    """What least squares needs of a block, in one row: sums of products, and the amounts, in whole numbers."""
    features = block["features"].combine_chunks().values.to_numpy().reshape(-1, len(FEATURES))
    amounts = block["amount_cents"].to_numpy()
    squares = [(features.T @ features).ravel().tolist()]
    return pa.table(
        {
            "squares": squares,
            "products": [(features.T @ amounts).tolist()],
            "rows": [len(amounts)],
            "cents": [amounts.sum()],
        }
    )


def learn(cluster_name: str, topic: str, partitions: int) -> tuple[dict[str, float], int, int]:
    """Read and learn on Ray; return what each feature adds to an order in cents, the rows, and their sum in cents."""
    _require_free_cpu()
    import ray.data  # noqa: PLC0415 - takes seconds to load

    # They wait more than they work, and run beside Spark's executors, which have most of the cores.
    read = ray.remote(num_cpus=0)(read_partition)
    tables: list[Any] = [read.remote(cluster_name, topic, partition) for partition in range(partitions)]
    ray.wait(tables, num_returns=len(tables))
    ray.data.DataContext.get_current().enable_progress_bars = False
    blocks = ray.data.from_arrow_refs(tables)
    sums = blocks.map_batches(sums_of, batch_format="pyarrow", batch_size=None, num_cpus=_LITTLE_CPU).take_all()
    squares = np.sum([row["squares"] for row in sums], axis=0).reshape(len(FEATURES), len(FEATURES))
    products = np.sum([row["products"] for row in sums], axis=0)
    solved = np.linalg.lstsq(squares.astype(float), products.astype(float), rcond=None)[0]
    return (
        dict(zip(FEATURES, solved.tolist(), strict=True)),
        sum(int(row["rows"]) for row in sums),
        sum(int(row["cents"]) for row in sums),
    )


def _require_free_cpu() -> None:
    free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call] # Ray has not typed it
    if free.get("CPU", 0) < _LITTLE_CPU:
        raise NoFreeCpu(
            "no CPU of the Ray cluster is free, and Ray Data would wait for one; give Spark fewer, for example with "
            "spark_session(config={'spark.ray.raydp_spark_executor.actor.resource.cpu': '1'})."
        )


def run(stage: Stage) -> Outcome:
    """Generate orders, have Spark write their features and Ray learn from them, and compare the sums."""
    source, sink = stage.orders(), stage.topic("features")
    pipeline = features_pipeline(source, sink, stage.checkpoint("features"), cluster=stage.cluster.name)
    run_pipeline(stage.spark, pipeline, stage.on_batch)
    learnt, rows, cents = learn(stage.cluster.name, sink, stage.partitions)
    totals = expected_totals(stage.seed, stage.rows)
    return Outcome(
        columns=("feature", "adds in cents"),
        rows=[(name, round(value)) for name, value in learnt.items()],
        facts=[
            Fact("features read by Ray", totals.orders, rows),
            Fact("amount in cents", totals.amount_cents, cents),
        ],
    )
