"""Pipelines as they are described, run by a real Spark: exactly once, and in accord with the data set's own totals."""

import json

import pytest
from pyspark.errors import StreamingQueryException

from eagleray.pipelines.committed_reads import committed_records
from eagleray.pipelines.datasets import ORDER_DDL, expected_totals
from eagleray.pipelines.datasets.producing import produce
from eagleray.pipelines.datasets.spark import rows_frame, write_dataset
from eagleray.pipelines.examples import EXAMPLES, example
from eagleray.pipelines.examples.stage import Stage, values
from eagleray.pipelines.jobs import Pipeline, Sink, Source, check_plan, pipeline_of, read_job, run_pipeline
from eagleray.pipelines.sink.schema import SchemaError
from eagleray.pipelines.spark_errors import cause_of
from tests.support.clusters import fresh

pytestmark = pytest.mark.xdist_group("spark")

JOB = """
name = "{name}"
checkpoint = "checkpoint"

[source]
topics = ["{source}"]
value_schema = "{schema}"
options = {{ maxOffsetsPerTrigger = 600 }}

[tables.tiers]
format = "csv"
path = "tiers.csv"
options = {{ header = true, inferSchema = true }}

[transform]
sql = "SELECT order_id, country, tier, amount_cents * 2 AS doubled, record.offset FROM input JOIN tiers USING (country)"

[sink]
topic = "{sink}"
key = "order_id"
"""


@pytest.fixture
def sink(cluster):
    """A second topic of the test's own, with fewer partitions than the first."""
    name = fresh("sink")
    cluster.admin.create_topic(name, partitions=2)
    return name


def test_job_file_writes_each_row_once_however_often_it_is_run(cluster, spark, topic, sink, tmp_path):
    totals = expected_totals(5, 1_000)
    (tmp_path / "tiers.csv").write_text("country,tier\n" + "".join(f"{name},x\n" for name in totals.orders_by_country))
    (tmp_path / "job.toml").write_text(JOB.format(name=fresh("job"), source=topic, sink=sink, schema=ORDER_DDL))
    pipeline = pipeline_of(read_job(str(tmp_path / "job.toml")))
    produce(cluster, topic, seed=5, rows=1_000)

    seen = []
    report = run_pipeline(spark, pipeline, seen.append)
    assert (report.rows_in, report.rows_out) == (1_000, 1_000)
    assert report.batches == seen
    assert len(seen) > 1
    assert sum(seen[-1].end_offsets[topic].values()) >= 1_000

    assert run_pipeline(spark, pipeline).rows_in == 0
    written = list(values(cluster, sink))
    assert sorted(row["order_id"] for row in written) == list(range(1, 1_001))
    assert sum(row["doubled"] for row in written) == 2 * totals.amount_cents
    assert set(written[0]) == {"order_id", "country", "tier", "doubled", "offset"}
    assert all(int(record.key) == json.loads(record.value)["order_id"] for record in committed_records(cluster, sink))


def test_value_that_is_not_what_the_schema_says_ends_the_pipeline(cluster, spark, topic, sink, tmp_path):
    with cluster.producer() as producer:
        producer.send(topic, b"no JSON at all").result()
    pipeline = Pipeline(
        name=fresh("malformed"),
        source=Source(topics=(topic,), value_schema="order_id BIGINT"),
        sink=Sink(topic=sink),
        checkpoint=str(tmp_path),
    )
    with pytest.raises(StreamingQueryException) as raised:
        run_pipeline(spark, pipeline)
    assert "MALFORMED_RECORD_IN_PARSING" in cause_of(str(raised.value))
    assert list(committed_records(cluster, sink)) == []


def test_plan_whose_value_cannot_be_written_is_refused_before_it_is_run(spark, topic, sink, tmp_path):
    pipeline = Pipeline(
        name=fresh("mistyped"),
        source=Source(topics=(topic,), value_schema="order_id BIGINT"),
        transform=lambda orders: orders.selectExpr("order_id AS value"),
        sink=Sink(topic=sink),
        checkpoint=str(tmp_path),
    )
    with pytest.raises(SchemaError, match="The column value is bigint"):
        check_plan(spark, pipeline)


def test_executors_generate_what_the_totals_say(cluster, spark, topic):
    totals = expected_totals(9, 5_000)
    write_dataset(spark, topic, dataset="payments", seed=9, rows=5_000)
    payments = list(values(cluster, topic))
    assert len(payments) == totals.payments
    assert sum(each["amount_cents"] for each in payments if each["status"] == "captured") == totals.captured_cents

    sums = rows_frame(spark, "orders", seed=9, rows=5_000, partitions=3).groupBy("country").sum("amount_cents")
    assert {row[0]: row[1] for row in sums.collect()} == totals.amount_cents_by_country


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_comes_out_right(cluster, spark, tmp_path, name):
    stage = Stage(
        cluster=cluster, spark=spark, directory=str(tmp_path), rows=10_000, partitions=2, prefix=fresh("example")
    )
    outcome = example(name)(stage)
    assert outcome.rows
    assert [fact for fact in outcome.facts if not fact.is_right] == []
    assert all(fact.expected for fact in outcome.facts)
