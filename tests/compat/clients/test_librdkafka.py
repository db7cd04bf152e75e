"""librdkafka's producers and transactions."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Partition

from tests.compat.clients.librdkafka import (
    consuming,
    go_on_reading,
    plain_producer,
    read_count,
    read_to_end,
    transactional_producer,
    values,
)
from tests.support.clusters import fresh


def committed_values(bootstrap_servers, topic, partitions=1):
    with consuming(bootstrap_servers, fresh("reader"), isolation_level="read_committed") as consumer:
        return values(read_to_end(consumer, topic, partitions))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_plain_producer(bootstrap_servers, make_topic, acks):
    topic = make_topic("plain", partitions=3)
    producer = plain_producer(bootstrap_servers, acks=acks)
    for number in range(30):
        producer.produce(topic, b"%d" % number, key=b"k%d" % number, headers={"number": b"%d" % number})
    assert producer.flush(20) == 0

    with consuming(bootstrap_servers, fresh("reader")) as consumer:
        consumer.assign([Partition(topic, number, 0) for number in range(3)])
        records = read_count(consumer, 30)
    assert sorted(values(records), key=int) == [b"%d" % number for number in range(30)]
    assert all(record.key() == b"k" + record.value() for record in records)
    assert all(record.headers() == [("number", record.value())] for record in records)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(bootstrap_servers, make_topic, compression):
    topic = make_topic(compression)
    producer = plain_producer(bootstrap_servers, compression_type=compression, linger_ms=20)
    sent = [b"%d " % number * 50 for number in range(50)]
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    assert committed_values(bootstrap_servers, topic) == sent


def test_idempotent_producer(bootstrap_servers, make_topic):
    topic = make_topic("idempotent")
    delivered = []
    producer = plain_producer(bootstrap_servers, enable_idempotence=True, batch_num_messages=7)
    for number in range(100):
        producer.produce(topic, b"%d" % number, on_delivery=lambda error, record: delivered.append((error, record)))
    assert producer.flush(20) == 0
    assert [(error, record.offset()) for error, record in delivered] == [(None, number) for number in range(100)]
    assert committed_values(bootstrap_servers, topic) == [b"%d" % number for number in range(100)]


def test_unknown_topic_is_an_error_of_the_record(bootstrap_servers):
    errors = []
    producer = plain_producer(bootstrap_servers, message_timeout_ms=2000)
    producer.produce(fresh("nowhere"), b"lost", on_delivery=lambda error, _: errors.append(error.code()))
    producer.flush(20)
    assert errors[0] in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT}


def test_transactions_over_partitions(bootstrap_servers, make_topic):
    topic = make_topic("transactions", partitions=3)
    producer = transactional_producer(bootstrap_servers, fresh("id"))
    for number in range(20):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d" % number, partition=partition)
        if number % 4 == 3:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    committed = [b"%d" % number for number in range(20) if number % 4 != 3]
    assert sorted(committed_values(bootstrap_servers, topic, 3)) == sorted(committed * 3)


def test_empty_transactions(bootstrap_servers):
    producer = transactional_producer(bootstrap_servers, fresh("id"))
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end()


def test_read_committed_stops_at_the_last_stable_offset(bootstrap_servers, history):
    with consuming(bootstrap_servers, fresh("reader"), isolation_level="read_uncommitted") as consumer:
        assert values(read_to_end(consumer, history.topic)) == history.everything
    with consuming(bootstrap_servers, fresh("reader"), isolation_level="read_committed") as consumer:
        assert values(read_to_end(consumer, history.topic)) == history.stable
        history.finish()
        assert values(go_on_reading(consumer)) == history.rest


def test_the_older_of_two_producers_is_fenced(bootstrap_servers, make_topic):
    topic, transactional_id = make_topic("fenced"), fresh("id")
    older = transactional_producer(bootstrap_servers, transactional_id)
    older.begin_transaction()
    older.produce(topic, b"older")
    older.flush()
    newer = transactional_producer(bootstrap_servers, transactional_id)
    newer.begin_transaction()
    newer.produce(topic, b"newer")
    newer.commit_transaction()

    with pytest.raises(KafkaException) as raised:
        older.commit_transaction()
    error = raised.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert committed_values(bootstrap_servers, topic) == [b"newer"]


def test_a_fenced_producer_that_produces(bootstrap_servers, make_topic):
    topic, transactional_id = make_topic("fenced"), fresh("id")
    older = transactional_producer(bootstrap_servers, transactional_id)
    transactional_producer(bootstrap_servers, transactional_id)
    older.begin_transaction()
    older.produce(topic, b"older")
    with pytest.raises(KafkaException) as raised:
        older.commit_transaction()
    error = raised.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    assert committed_values(bootstrap_servers, topic) == []


def test_a_transaction_that_takes_too_long_is_aborted(bootstrap_servers, make_topic):
    topic = make_topic("slow")
    slow = transactional_producer(bootstrap_servers, fresh("id"), transaction_timeout_ms=1000)
    slow.begin_transaction()
    slow.produce(topic, b"slow")
    slow.flush()
    # Its end for readers is the marker, behind which a plain record becomes visible.
    producer = plain_producer(bootstrap_servers)
    producer.produce(topic, b"plain")
    producer.flush()
    with consuming(bootstrap_servers, fresh("reader"), isolation_level="read_committed") as consumer:
        consumer.assign([Partition(topic, 0, 0)])
        assert values(read_count(consumer, 1)) == [b"plain"]
    with pytest.raises(KafkaException):
        slow.commit_transaction()


def test_offsets_in_transactions(bootstrap_servers, make_topic):
    """Read, transform, write: an abort takes the offsets back, a commit keeps them."""
    source, target, group = make_topic("source"), make_topic("target"), fresh("group")
    producer = plain_producer(bootstrap_servers)
    for number in range(10):
        producer.produce(source, b"%d" % number)
    producer.flush()
    worker = transactional_producer(bootstrap_servers, fresh("id"))

    def transform(count, end):
        with consuming(bootstrap_servers, group, isolation_level="read_committed") as consumer:
            consumer.subscribe([source])
            records = read_count(consumer, count)
            worker.begin_transaction()
            for record in records:
                worker.produce(target, b"done " + record.value())
            position = [Partition(source, 0, records[-1].offset() + 1)]
            worker.send_offsets_to_transaction(position, consumer.consumer_group_metadata())
            end()
            return values(records)

    first = transform(6, worker.abort_transaction)
    second = transform(6, worker.commit_transaction)
    third = transform(4, worker.commit_transaction)
    assert first == second == [b"%d" % number for number in range(6)]
    assert third == [b"%d" % number for number in range(6, 10)]
    assert committed_values(bootstrap_servers, target) == [b"done %d" % number for number in range(10)]
