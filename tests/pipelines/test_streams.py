"""Streaming queries: micro-batches, restarts from a checkpoint, topics that change while nobody looks."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from eagleray import TopicPartition
from tests.support.clusters import fresh, until
from tests.support.spark import (
    Copy,
    ends_of,
    forget_last_commit,
    numbered,
    open_transactions,
    produce,
    values_in,
    write,
)

pytestmark = pytest.mark.xdist_group("spark")


def test_a_stream_goes_on_where_it_was_with_what_came_meanwhile(spark, cluster, topic, target, tmp_path):
    """Several batches, a restart, more records, and partitions that were not there before."""
    produce(cluster, topic, numbered(0, 60))
    copy = Copy(spark, tmp_path, target, {"subscribe": topic, "maxOffsetsPerTrigger": "11"})
    assert copy.run() == [11, 11, 11, 11, 11, 5]
    assert values_in(cluster, target) == Counter(numbered(0, 60))

    cluster.admin.grow_topic(topic, 6)
    produce(cluster, topic, numbered(60, 65), partition=5)
    produce(cluster, topic, numbered(65, 70), partition=0)
    assert sum(copy.run()) == 10
    assert values_in(cluster, target) == Counter(numbered(0, 70))
    assert open_transactions(cluster) == []


def test_a_pattern_takes_up_topics_that_come_later(spark, cluster, target, tmp_path):
    family = fresh("family")
    cluster.admin.create_topic(f"{family}-a", partitions=1)
    produce(cluster, f"{family}-a", ["a"])
    copy = Copy(spark, tmp_path, target, {"subscribePattern": f"{family}-.*"})
    copy.run()
    cluster.admin.create_topic(f"{family}-b", partitions=2)
    produce(cluster, f"{family}-b", ["b"])
    copy.run()
    assert values_in(cluster, target) == Counter(["a", "b"])


def test_records_are_taken_as_they_come(spark, cluster, topic, target, tmp_path):
    """By default a stream begins at the end of its topics; its first batch says in the checkpoint where that was."""
    produce(cluster, topic, ["before"])
    copy = Copy(spark, tmp_path, target, {"subscribe": topic, "startingOffsets": "latest"})
    query = copy.start(processingTime="0 seconds")
    try:
        until(lambda: query.lastProgress, "the first batch is done")
        for number in range(3):
            produce(cluster, topic, numbered(number * 10, number * 10 + 10))
            wanted = Counter(numbered(0, number * 10 + 10))
            until(lambda wanted=wanted: values_in(cluster, target) == wanted, "what was sent has arrived", 60)
    finally:
        query.stop()


def test_a_group_has_the_offsets_of_the_source(spark, cluster, topic, target, tmp_path):
    """Of several topics, as far as the batch went that was written with them."""
    other, group = fresh("other"), fresh("group")
    cluster.admin.create_topic(other, partitions=1)
    produce(cluster, topic, numbered(0, 20))
    produce(cluster, other, numbered(20, 30))
    copy = Copy(spark, tmp_path, target, {"subscribe": f"{topic},{other}"}, {"group": group})
    copy.run()
    assert values_in(cluster, target) == Counter(numbered(0, 30))
    committed = {each.partition: each.offset for each in cluster.admin.describe_group(group)}
    assert committed == {**ends_of(cluster, topic), **ends_of(cluster, other)}


def test_an_aggregation_writes_its_whole_result_with_each_batch(spark, cluster, topic, target, tmp_path):
    """It goes on with what it has counted so far, and a batch that is run again is not written again."""

    def count(frame):
        return frame.groupBy("value").count().selectExpr("value key", "concat(cast(value as string), count) value")

    copy = Copy(spark, tmp_path, target, {"subscribe": topic})
    produce(cluster, topic, ["a", "b", "a"])
    copy.run(change=count, output_mode="complete")
    produce(cluster, topic, ["a", "c"])
    copy.run(change=count, output_mode="complete")
    expected = Counter(["a2", "b1", "a3", "b1", "c1"])
    assert values_in(cluster, target) == expected
    forget_last_commit(tmp_path)
    copy.run(change=count, output_mode="complete")
    assert values_in(cluster, target) == expected


def test_a_function_may_write_each_batch(spark, cluster, topic, target, tmp_path):
    produce(cluster, topic, numbered(0, 20))
    stream = spark.readStream.format("eagleray").options(subscribe=topic, startingOffsets="earliest").load()

    def act(frame, batch_id):
        write(frame.select("value"), target)

    query = stream.writeStream.foreachBatch(act).option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()
    assert values_in(cluster, target) == Counter(numbered(0, 20))


def test_queries_run_beside_each_other(spark, cluster, topic, target, tmp_path):
    """Both write to one topic; neither hinders the other, or takes its batches for its own."""
    produce(cluster, topic, numbered(0, 20))
    source = {"subscribe": topic, "maxOffsetsPerTrigger": "10"}
    copies = [Copy(spark, tmp_path / name, target, source) for name in ("one", "two")]
    queries = [copy.start(availableNow=True) for copy in copies]
    for query in queries:
        query.awaitTermination()
    assert values_in(cluster, target) == Counter(numbered(0, 20) * 2)


def test_records_that_are_gone_are_data_loss(spark, cluster, topic, target, tmp_path):
    produce(cluster, topic, numbered(0, 10), partition=0)
    Copy(spark, tmp_path, target, {"subscribe": topic}).run()
    produce(cluster, topic, numbered(10, 20), partition=0)
    cluster.admin.delete_records({TopicPartition(topic, 0): 15})
    said = f"goes on at offset 10 of {topic}-0, but its log starts at 15.*failOnDataLoss to false"
    with pytest.raises(StreamingQueryException, match=said):
        Copy(spark, tmp_path, target, {"subscribe": topic}).run()
    assert values_in(cluster, target) == Counter(numbered(0, 10))
    Copy(spark, tmp_path, target, {"subscribe": topic, "failOnDataLoss": "false"}).run()
    assert values_in(cluster, target) == Counter([*numbered(0, 10), *numbered(15, 20)])


def test_gaps_are_no_data_loss(spark, cluster, topic, target, tmp_path):
    """Of every second transaction nothing is left but offsets; batches end amid them, and at the markers."""
    with cluster.producer(transactional_id=fresh("gaps")) as producer:
        for number in range(20):
            producer.begin()
            producer.send(topic, f"{number}", partition=0)
            producer.flush()
            producer.commit() if number % 2 else producer.abort()
    expected = Counter(f"{number}" for number in range(1, 20, 2))
    assert values_in(cluster, topic) == expected
    copy = Copy(spark, tmp_path, target, {"subscribe": topic, "maxOffsetsPerTrigger": "7"})
    assert len(copy.run()) == 6
    copy.run()
    assert values_in(cluster, target) == expected


def test_the_end_of_a_batch_that_ends_early(spark, cluster, topic, target, tmp_path):
    """A transaction that is open holds the stream back, and is read whole once it is committed."""
    copy = Copy(spark, tmp_path, target, {"subscribe": topic})
    with cluster.producer(transactional_id=fresh("open"), transaction_timeout_ms=600_000) as producer:
        producer.begin()
        producer.send(topic, "open", partition=0)
        producer.flush()
        produce(cluster, topic, ["behind"], partition=0)
        copy.run()
        assert values_in(cluster, target) == Counter()
        producer.commit()
    until(lambda: values_in(cluster, topic).total() == 2, "the commit is visible")
    copy.run()
    assert values_in(cluster, target) == Counter(["open", "behind"])


def test_blocking_transaction_shows_its_query_and_batch(spark, cluster, topic, target, tmp_path):
    """One task of the second batch has written and another waits, so that the transaction is open."""
    go_on = str(tmp_path / "go-on")
    copy = Copy(spark, tmp_path / "checkpoint", target, {"subscribe": topic})
    produce(cluster, topic, numbered(0, 5), partition=0)
    copy.run()

    def all_but_the_first_task_wait(batches):
        import os
        import time

        from pyspark import TaskContext

        while TaskContext.get().partitionId() and not os.path.exists(go_on):
            time.sleep(0.05)
        yield from batches

    for partition in range(2):
        produce(cluster, topic, numbered(5 * partition + 5, 5 * partition + 10), partition=partition)
    schema = "key binary, value binary"
    query = copy.start(lambda frame: frame.mapInArrow(all_but_the_first_task_wait, schema), availableNow=True)
    try:
        (found, *_) = until(lambda: cluster.admin.blocking(target), "the transaction of the batch is open")
        Path(go_on).touch()
        query.awaitTermination()
    finally:
        Path(go_on).touch()
        query.stop()

    assert found.transactional_id == f"spark-{query.id}"
    assert (found.origin.spark_query, found.origin.spark_batch) == (query.id, 1)
    assert found.origin.spark_application == spark.sparkContext.applicationId
    assert values_in(cluster, target) == Counter(numbered(0, 15))
    assert cluster.admin.blocking(target) == []
