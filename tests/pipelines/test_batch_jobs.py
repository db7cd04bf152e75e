"""Batch jobs: what is written in one transaction, and read back."""

from collections import Counter

import pytest
from pyspark.errors import AnalysisException

from tests.support.clusters import fresh
from tests.support.spark import rows_of, write

pytestmark = pytest.mark.xdist_group("spark")


def test_written_rows_are_read_back(spark, topic):
    frame = spark.range(5000).selectExpr("cast(id as string) key", "concat('value-', id) value")
    write(frame, topic)

    found = rows_of(spark, topic).selectExpr("cast(key as string)", "cast(value as string)", "partition").collect()
    assert Counter((row.key, row.value) for row in found) == Counter((str(i), f"value-{i}") for i in range(5000))
    assert {row.partition for row in found} == {0, 1, 2, 3}


def test_the_columns_are_those_of_sparks_kafka_source(spark, topic):
    assert rows_of(spark, topic, includeHeaders="true").dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_an_unknown_topic_is_an_error_when_the_job_is_planned(spark, cluster):
    unknown = fresh("unknown")
    with pytest.raises(AnalysisException, match=f"subscribe names {unknown}, which the cluster does not have"):
        rows_of(spark, unknown).collect()
