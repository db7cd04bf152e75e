"""Batch writes: where rows go and as what, and that a job is one transaction whatever becomes of its tasks."""

import time
from collections import Counter

import pytest

from tests.support.clusters import fresh
from tests.support.spark import (
    attempts,
    noting_attempts,
    open_transactions,
    produce,
    rows_of,
    undecided,
    values,
    values_in,
    write,
)

pytestmark = pytest.mark.xdist_group("spark")


def numbered(spark, count, partitions=2):
    """Rows with the numbers as values, in so many tasks."""
    return spark.range(0, count, 1, partitions).selectExpr("cast(id as string) value")


def counted(count):
    return Counter(str(number) for number in range(count))


def test_rows_go_to_the_topics_that_they_name(spark, cluster):
    first, second = fresh("north"), fresh("south")
    for name in (first, second):
        cluster.admin.create_topic(name, partitions=2)
    topic = f"if(id % 3 = 0, '{first}', '{second}') topic"
    write(spark.range(0, 90, 1, 3).selectExpr("cast(id as string) value", topic))
    assert values_in(cluster, first) == Counter(str(number) for number in range(0, 90, 3))
    assert values_in(cluster, second) == Counter(str(number) for number in range(90) if number % 3)
    # The option goes before the column.
    write(spark.range(5).selectExpr("'all here' value", topic), first)
    assert values_in(cluster, first)["all here"] == 5


def test_rows_go_to_the_partitions_that_they_name(spark, topic):
    write(spark.range(100).selectExpr("cast(id as string) value", "cast(id % 3 as int) partition"), topic)
    found = rows_of(spark, topic).selectExpr("int(cast(value as string)) number", "partition").collect()
    assert {(row.number, row.partition) for row in found} == {(number, number % 3) for number in range(100)}


def test_keys_go_where_other_producers_send_them(spark, cluster, topic):
    """Text and bytes alike: a job and an application agree where a key belongs."""
    keys = [f"kunde-{number}-ä" for number in range(200)]
    with cluster.producer() as producer:
        for key in keys:
            producer.send(topic, "application", key=key)
    as_text = spark.createDataFrame([(key,) for key in keys], "key string").selectExpr("key", "'text' value")
    write(as_text, topic)
    write(as_text.selectExpr("cast(key as binary) key", "cast('bytes' as binary) value"), topic)
    places = {}
    for row in rows_of(spark, topic).collect():
        places.setdefault(row.value.decode(), {})[row.key.decode()] = row.partition
    assert places["application"] == places["text"] == places["bytes"]
    assert places["text"].keys() == set(keys)
    assert set(places["text"].values()) == {0, 1, 2, 3}


def test_headers_and_times_are_written(spark, topic):
    began_ms = int(time.time() * 1000) - 3_600_000
    headers = "array(named_struct('key', 'origin', 'value', cast('spark' as binary))) headers"
    frame = spark.range(3).selectExpr("'x' value", "null key", f"timestamp_millis(id + {began_ms}) timestamp", headers)
    write(frame.selectExpr("value", "cast(key as string) key", "timestamp", "headers"), topic)
    found = rows_of(spark, topic, includeHeaders="true").selectExpr("*", "unix_millis(timestamp) at").collect()
    assert {(row["at"], row.key, tuple(map(tuple, row.headers))) for row in found} == {
        (began_ms + number, None, (("origin", b"spark"),)) for number in range(3)
    }
    write(frame.selectExpr("'plain' value", "headers"), topic, includeHeaders="false")
    plain = rows_of(spark, topic, includeHeaders="true").where("value = 'plain'").collect()
    assert [row.headers for row in plain] == [None] * 3


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_written_batches_may_be_compressed(spark, cluster, topic, codec):
    write(numbered(spark, 500), topic, compression=codec, batchBytes="2k")
    assert values_in(cluster, topic) == counted(500)


def test_null_values_are_written(spark, topic):
    write(spark.sql("select 'deleted' key, cast(null as string) value"), topic)
    (row,) = rows_of(spark, topic).collect()
    assert (row.key, row.value) == (b"deleted", None)


def test_a_job_without_rows_writes_nothing(spark, cluster, topic):
    write(numbered(spark, 10).where("value = 'none'"), topic)
    assert values_in(cluster, topic, isolation="read_uncommitted") == Counter()
    assert open_transactions(cluster) == []


def test_a_job_that_fails_half_way_leaves_nothing_visible(spark, cluster, topic):
    """With two cores the third task begins when another one is done; its last row fails for good."""
    failing = "if(id = 2999, raise_error('no such order'), cast(id as string)) value"
    with pytest.raises(Exception, match="no such order"):
        write(spark.range(0, 3000, 1, 3).selectExpr(failing), topic)
    assert open_transactions(cluster) == []
    assert undecided(cluster, topic) == 0
    assert values_in(cluster, topic, isolation="read_uncommitted").total() >= 1000
    assert values_in(cluster, topic) == values(rows_of(spark, topic)) == Counter()
    # Nobody has to wait for anything: what comes next is seen at once.
    produce(cluster, topic, ["next"])
    assert values_in(cluster, topic) == Counter(["next"])


def test_a_task_that_fails_once_writes_its_rows_once(spark, cluster, topic, tmp_path):
    frame = numbered(spark, 1000).mapInArrow(noting_attempts(tmp_path, fails=0), "value string")
    write(frame, topic)
    assert attempts(tmp_path) == ["1-0", "1-1"]
    assert values_in(cluster, topic) == counted(1000)


def test_a_topic_that_only_a_row_names_and_that_does_not_exist(spark, cluster, topic):
    """Only the tasks can see it; then nothing of the job is visible."""
    named = f"if(id = 7, 'no-such-topic', '{topic}') topic"
    with pytest.raises(Exception, match="row 7 is for the topic 'no-such-topic', which does not exist"):
        write(spark.range(0, 10, 1, 1).selectExpr("'x' value", named))
    assert values_in(cluster, topic) == Counter()


def test_a_partition_that_does_not_exist(spark, cluster, topic):
    with pytest.raises(Exception, match=f"row 0 is for partition 9 of the topic '{topic}'.* 0 to 3"):
        write(spark.sql("select 'x' value, 9 partition"), topic)
    assert open_transactions(cluster) == []
