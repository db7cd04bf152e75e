"""Stateful aggregation: revenue per country and minute of event time.

Spark keeps the sums of the minutes that are still open. Once the watermark has passed a minute, its row is written
once, in the transaction of the micro-batch that has closed it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as is usual in PySpark

from eagleray.pipelines.datasets import ORDER_DDL, orders
from eagleray.pipelines.examples.stage import Fact, Outcome, Stage, values
from eagleray.pipelines.jobs import Pipeline, Sink, Source, Watermark, run_pipeline

MINUTE_MS: Final = 60_000
DELAY_MS: Final = 60_000
"""Orders are less than five seconds out of order; partitions may be read a little apart."""


def revenue_pipeline(source: str, sink: str, checkpoint: str, *, cluster: str = "default") -> Pipeline:
    """Sum up the orders of one topic into another."""
    return Pipeline(
        name="revenue",
        source=Source(
            topics=(source,),
            value_schema=ORDER_DDL,
            watermark=Watermark(event_time="timestamp_millis(event_time_ms)", delay=f"{DELAY_MS} milliseconds"),
            options={"maxOffsetsPerTrigger": 10_000},
        ),
        transform=revenue_per_country,
        sink=Sink(topic=sink, key="country"),
        checkpoint=checkpoint,
        cluster=cluster,
    )


def revenue_per_country(orders: DataFrame) -> DataFrame:
    """Count and sum the orders of each country and minute."""
    minutes = orders.groupBy("country", F.window("event_time", "1 minute"))
    sums = minutes.agg(F.count("*").alias("orders"), F.sum("amount_cents").alias("amount_cents"))
    return sums.select("country", F.unix_millis("window.start").alias("minute_ms"), "orders", "amount_cents")


def closed_minutes(seed: int, rows: int) -> dict[tuple[str, int], tuple[int, int]]:
    """What has to come out: orders and cents of each country and minute that the watermark has passed."""
    table = pa.Table.from_batches([orders(seed, 0, rows)])
    times = table["event_time_ms"]
    minutes = pc.multiply(pc.divide(times, MINUTE_MS), MINUTE_MS)
    watermark_ms = pc.max(times).as_py() - DELAY_MS
    closed = table.append_column("minute_ms", minutes).filter(pc.less_equal(pc.add(minutes, MINUTE_MS), watermark_ms))
    sums = closed.group_by(["country", "minute_ms"]).aggregate([("amount_cents", "count"), ("amount_cents", "sum")])
    return {
        (row["country"], row["minute_ms"]): (row["amount_cents_count"], row["amount_cents_sum"])
        for row in sums.to_pylist()
    }


def run(stage: Stage) -> Outcome:
    """Generate orders, aggregate them, and compare with what has to come out."""
    source, sink = stage.orders(), stage.topic("revenue")
    pipeline = revenue_pipeline(source, sink, stage.checkpoint("revenue"), cluster=stage.cluster.name)
    run_pipeline(stage.spark, pipeline, stage.on_batch)
    written = list(values(stage.cluster, sink))
    found = {(row["country"], row["minute_ms"]): (row["orders"], row["amount_cents"]) for row in written}
    expected = closed_minutes(stage.seed, stage.rows)
    return Outcome(
        columns=("country", "minute", "orders", "amount in cents"),
        rows=[(country, minute_ms // MINUTE_MS, *sums) for (country, minute_ms), sums in sorted(found.items())[:8]],
        facts=[
            Fact("records, one for each country and closed minute", len(expected), len(written)),
            Fact("exact to the cent", len(expected), sum(found.get(key) == sums for key, sums in expected.items())),
            Fact(
                "amount in cents", sum(cents for _, cents in expected.values()), sum(row[1] for row in found.values())
            ),
        ],
    )
