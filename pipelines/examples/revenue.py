"""Stateful aggregation: revenue per country and minute, kept up to date in a topic.

Each micro-batch writes the rows that it has changed, in one transaction. The last record of a key is the revenue of its
country and minute, and a topic with cleanup.policy=compact keeps just these. Spark forgets a minute once the watermark
has passed it.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from eagleray.api import Cluster
from eagleray.pipelines.datasets import ORDER_DDL, expected_totals
from eagleray.pipelines.examples.stage import Fact, Outcome, Stage, committed
from eagleray.pipelines.jobs import Pipeline, Sink, Source, Watermark, run_pipeline


def revenue_pipeline(source: str, sink: str, checkpoint: str, *, cluster: str = "default") -> Pipeline:
    """Sum up orders of one topic into another."""
    return Pipeline(
        name="revenue",
        source=Source(
            topics=(source,),
            value_schema=ORDER_DDL,
            watermark=Watermark(event_time="timestamp_millis(event_time_ms)", delay="10 minutes"),
            options={"maxOffsetsPerTrigger": 10_000},
        ),
        transform=revenue_per_country,
        sink=Sink(topic=sink, key="concat(country, ' ', minute)", output_mode="update"),
        checkpoint=checkpoint,
        cluster=cluster,
    )


def revenue_per_country(orders: DataFrame) -> DataFrame:
    """Count and sum the orders of each country and minute."""
    minutes = orders.groupBy("country", F.window("event_time", "1 minute"))
    sums = minutes.agg(F.count("*").alias("orders"), F.sum("amount_cents").alias("amount_cents"))
    minute = F.date_format("window.start", "yyyy-MM-dd HH:mm").alias("minute")
    return sums.select("country", minute, "orders", "amount_cents")


def latest(cluster: Cluster, topic: str) -> dict[bytes, dict[str, Any]]:
    """The last value of each key."""
    return {record.key or b"": msgspec.json.decode(record.value or b"") for record in committed(cluster, topic)}


def run(stage: Stage) -> Outcome:
    """Generate orders, aggregate them, and compare with what has to come out."""
    source, sink = stage.orders(), stage.topic("revenue")
    pipeline = revenue_pipeline(source, sink, stage.checkpoint("revenue"), cluster=stage.cluster.name)
    run_pipeline(stage.spark, pipeline, stage.on_batch)
    sums: dict[str, list[int]] = {}
    for row in latest(stage.cluster, sink).values():
        of_country = sums.setdefault(row["country"], [0, 0])
        of_country[0] += row["orders"]
        of_country[1] += row["amount_cents"]
    totals = expected_totals(stage.seed, stage.rows)
    return Outcome(
        columns=("country", "orders", "amount in cents"),
        rows=[(country, orders, cents) for country, (orders, cents) in sorted(sums.items())],
        facts=[
            Fact("orders", totals.orders, sum(orders for orders, _ in sums.values())),
            Fact("amount in cents", totals.amount_cents, sum(cents for _, cents in sums.values())),
            Fact(
                "countries exact to the cent",
                len(totals.amount_cents_by_country),
                sum(sums.get(name, [0, 0])[1] == cents for name, cents in totals.amount_cents_by_country.items()),
            ),
        ],
    )
