"""Enrichment: a stream of orders joined with the table of merchants, in SQL."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from eagleray.pipelines.datasets import ORDER_DDL, expected_totals
from eagleray.pipelines.datasets.spark import merchants_frame
from eagleray.pipelines.examples.stage import Fact, Outcome, Stage, values
from eagleray.pipelines.jobs import Pipeline, Sink, Source, run_pipeline, sql

QUERY: Final = """
    SELECT /*+ BROADCAST(merchants) */
        CAST(order_id AS STRING) AS key,
        order_id, merchant_id, merchant_name, tier, amount_cents,
        amount_cents * fee_basis_points DIV 10000 AS fee_cents
    FROM input JOIN merchants USING (merchant_id)
"""


def enrichment_pipeline(
    source: str, sink: str, checkpoint: str, merchants: DataFrame, *, cluster: str = "default"
) -> Pipeline:
    """Add to each order who sold it, and what the merchant pays for it."""
    return Pipeline(
        name="enrichment",
        source=Source(topics=(source,), value_schema=ORDER_DDL, options={"maxOffsetsPerTrigger": 10_000}),
        transform=sql(QUERY, {"merchants": merchants}),
        sink=Sink(topic=sink),
        checkpoint=checkpoint,
        cluster=cluster,
    )


def run(stage: Stage) -> Outcome:
    """Generate orders, enrich them, and compare the fees with what has to come out."""
    source, sink = stage.orders(), stage.topic("enriched")
    merchants = merchants_frame(stage.spark, seed=stage.seed)
    checkpoint = stage.checkpoint("enrichment")
    pipeline = enrichment_pipeline(source, sink, checkpoint, merchants, cluster=stage.cluster.name)
    run_pipeline(stage.spark, pipeline, stage.on_batch)
    enriched = list(values(stage.cluster, sink))
    totals = expected_totals(stage.seed, stage.rows)
    return Outcome(
        columns=("order", "merchant", "tier", "amount in cents", "fee in cents"),
        rows=[
            (row["order_id"], row["merchant_name"], row["tier"], row["amount_cents"], row["fee_cents"])
            for row in enriched[:8]
        ],
        facts=[
            Fact("records", totals.orders, len(enriched)),
            Fact("different orders", totals.orders, len({row["order_id"] for row in enriched})),
            Fact("fees in cents", totals.fee_cents, sum(row["fee_cents"] for row in enriched)),
        ],
    )
