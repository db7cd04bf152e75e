"""Batch reads: which records a job gets, from where to where, and what each row says."""

import json
import time
from collections import Counter

import pytest

from eagleray import TopicPartition
from tests.support.clusters import fresh
from tests.support.spark import ends_of, names, numbered, open_transactions, produce, rows_of, values, values_in

pytestmark = pytest.mark.xdist_group("spark")

BEGAN_MS = int(time.time()) * 1000 - 3_600_000
"""The time of the first record; much older ones would be deleted."""


@pytest.fixture
def filled(cluster):
    """A topic with two partitions: 0 to 9 in the first, 10 to 19 in the second, a second apart."""
    topic = fresh("filled")
    cluster.admin.create_topic(topic, partitions=2)
    with cluster.producer() as producer:
        for number in range(20):
            producer.send(topic, f"{number}", partition=number // 10, timestamp_ms=BEGAN_MS + number * 1000)
    return topic


def test_offsets_bound_a_read(spark, filled):
    starts = json.dumps({filled: {"0": 3, "1": -2}})
    ends = json.dumps({filled: {"0": -1, "1": 4}})
    found = values(rows_of(spark, filled, startingOffsets=starts, endingOffsets=ends))
    assert found == Counter([*numbered(3, 10), *numbered(10, 14)])


def test_times_bound_a_read(spark, filled):
    found = values(
        rows_of(
            spark,
            filled,
            startingTimestamp=str(BEGAN_MS + 5000),
            startingOffsetsByTimestampStrategy="latest",
            endingOffsetsByTimestamp=json.dumps({filled: {"0": BEGAN_MS + 8000, "1": BEGAN_MS + 12_000}}),
        )
    )
    assert found == Counter([*numbered(5, 8), *numbered(10, 12)])


def test_a_time_that_no_record_has_reached_is_an_error(spark, filled):
    late_ms = BEGAN_MS + 15_000
    frame = rows_of(spark, filled, startingTimestamp=str(late_ms))
    with pytest.raises(
        Exception, match=f"startingTimestamp is {late_ms}, but {filled}-0 has no record that is as late"
    ):
        frame.collect()


def test_certain_partitions_are_read(spark, filled):
    assert values(rows_of(spark, assign=json.dumps({filled: [1]}))) == Counter(numbered(10, 20))


def test_topics_are_read_by_a_pattern_and_several_by_name(spark, cluster):
    first, second = fresh("pattern-north"), fresh("pattern-south")
    for topic in (first, second):
        cluster.admin.create_topic(topic, partitions=2)
        produce(cluster, topic, [topic])
    assert values(rows_of(spark, subscribePattern=f"{first}|{second}")) == Counter([first, second])
    # The whole name has to match, and not only how it begins.
    assert values(rows_of(spark, subscribePattern="pattern-north-")) == Counter()
    by_topic = {row.topic: row.value.decode() for row in rows_of(spark, first, second).collect()}
    assert by_topic == {first: first, second: second}


def test_one_task_reads_small_partitions_together(spark, filled):
    assert rows_of(spark, filled).rdd.getNumPartitions() == 1


def test_more_tasks_than_partitions_read_each_record_once(spark, filled):
    frame = rows_of(spark, filled, minPartitions="7")
    assert frame.rdd.getNumPartitions() == 7
    assert values(frame) == Counter(numbered(0, 20))
    assert rows_of(spark, filled, maxRecordsPerPartition="4").rdd.getNumPartitions() == 6


def test_a_row_says_where_its_record_was(spark, filled):
    rows = rows_of(spark, filled).selectExpr("*", "unix_millis(timestamp) at").collect()
    found = {(row.topic, row.partition, row.offset, row["at"], row.timestampType) for row in rows}
    assert found == {(filled, n // 10, n % 10, BEGAN_MS + n * 1000, 0) for n in range(20)}


def test_keys_values_and_headers_may_be_absent(spark, cluster, topic):
    with cluster.producer() as producer:
        producer.send(topic, None, key=b"gone")
        producer.send(topic, b"", key=None)
        producer.send(topic, b"three", headers=[("a", b"1"), ("a", b"2"), ("b", None)])
    rows = rows_of(spark, topic, includeHeaders="true").collect()
    found = {row.value: (row.key, row.headers and [tuple(header) for header in row.headers]) for row in rows}
    assert found == {
        None: (b"gone", None),
        b"": (None, None),
        b"three": (None, [("a", b"1"), ("a", b"2"), ("b", None)]),
    }


def test_an_empty_topic_has_no_rows(spark, topic):
    assert rows_of(spark, topic).count() == 0
    assert rows_of(spark, topic, minPartitions="8").collect() == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(spark, cluster, topic, codec):
    with cluster.producer(compression_type=codec) as producer:
        for number in range(300):
            producer.send(topic, f"{codec}-{number}")
    assert values(rows_of(spark, topic)) == Counter(f"{codec}-{number}" for number in range(300))


def test_of_many_transactions_those_that_were_committed_are_read(spark, cluster, topic):
    """Of two hundred, two at a time with their records among each other, one is committed and one aborted."""
    committed, aborted = [], []
    with (
        cluster.producer(transactional_id=fresh("one")) as one,
        cluster.producer(transactional_id=fresh("two")) as two,
    ):
        producers = {"one": one, "two": two}
        for number in range(100):
            for name, producer in producers.items():
                producer.begin()
                for turn in range(3):
                    producer.send(topic, f"{name}-{number}-{turn}", partition=(number + turn) % 4)
                producer.flush()
            chosen, other = ("one", "two") if number % 2 else ("two", "one")
            producers[chosen].commit()
            producers[other].abort()
            committed.extend(f"{chosen}-{number}-{turn}" for turn in range(3))
            aborted.extend(f"{other}-{number}-{turn}" for turn in range(3))
    assert min(len(committed), len(aborted)) == 300
    assert values(rows_of(spark, topic)) == values_in(cluster, topic) == Counter(committed)
    assert values(rows_of(spark, topic, minPartitions="16")) == Counter(committed)
    everything = Counter([*committed, *aborted])
    assert values(rows_of(spark, topic, isolation="read_uncommitted")) == everything


def test_a_transaction_that_is_open_bounds_the_read(spark, cluster, topic):
    """What comes behind its first record is not read either, though it is committed; other partitions are."""
    transactional_id = fresh("open")
    produce(cluster, topic, ["before"], partition=0)
    with cluster.producer(transactional_id=transactional_id, transaction_timeout_ms=600_000) as producer:
        producer.begin()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        produce(cluster, topic, ["behind"], partition=0)
        produce(cluster, topic, ["beside"], partition=1)
        assert open_transactions(cluster) == [transactional_id]
        assert ends_of(cluster, topic) == dict(zip(names(topic), (1, 1, 0, 0), strict=True))
        assert values(rows_of(spark, topic)) == Counter(["before", "beside"])
        uncommitted = rows_of(spark, topic, isolation="read_uncommitted")
        assert values(uncommitted) == Counter(["before", "open", "behind", "beside"])
        producer.commit()
    assert values_in(cluster, topic) == Counter(["before", "open", "behind", "beside"])
    assert values(rows_of(spark, topic)) == Counter(["before", "open", "behind", "beside"])


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_offsets_that_are_gone_are_data_loss(spark, cluster, filled, fail_on_data_loss):
    cluster.admin.delete_records({TopicPartition(filled, 0): 5})
    frame = rows_of(
        spark,
        filled,
        startingOffsets=json.dumps({filled: {"0": 2, "1": 10}}),
        failOnDataLoss=str(fail_on_data_loss).lower(),
    )
    if fail_on_data_loss:
        with pytest.raises(Exception, match=f"startingOffsets has 2 for {filled}-0, whose log has 5 to 10 to read"):
            frame.collect()
    else:
        assert values(frame) == Counter(numbered(5, 10))
    assert values(rows_of(spark, filled)) == Counter(numbered(5, 20))
