"""What clients see of records that a topic does not take: which they are, and that the others were refused with them.

`EAGLERAY_COMPAT_TARGET=kafka` shows the same of Apache Kafka.
"""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaProducer
from kafka.errors import InvalidRecordError, InvalidTimestampError

from tests.compat.clients.librdkafka import consuming, plain_producer, read_to_end, transactional_producer, values
from tests.support.clusters import fresh

DAY_MS = 24 * 3600 * 1000
SECONDS = 60

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def sent(producer, topic, records):
    """Send records as (key, time) and return the code of each: None for one that is written."""
    codes = {}
    for number, (key, time_ms) in enumerate(records):

        def delivered(error, _, number=number):
            codes[number] = None if error is None else error.code()

        producer.produce(topic, b"%d" % number, key=key, timestamp=time_ms, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    return [codes[number] for number in range(len(records))]


def written(bootstrap_servers, topic):
    with consuming(bootstrap_servers, fresh("reader")) as consumer:
        return values(read_to_end(consumer, topic))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_tells_records_without_keys_from_those_beside_them(bootstrap_servers, make_topic, compression):
    topic = make_topic("compacted", cleanup_policy="compact")
    producer = plain_producer(bootstrap_servers, linger_ms=500, compression_type=compression)
    records = [(None if number % 10 == 0 else b"key %d" % number, 0) for number in range(100)]
    codes = sent(producer, topic, records)
    assert codes == [
        KafkaError.INVALID_RECORD if number % 10 == 0 else KafkaError._INVALID_DIFFERENT_RECORD for number in range(100)
    ]
    assert sent(producer, topic, [(b"key", 0)]) == [None]
    assert written(bootstrap_servers, topic) == [b"0"]


def test_librdkafka_loses_only_the_records_without_keys_where_each_has_a_batch_of_its_own(
    bootstrap_servers, make_topic
):
    topic = make_topic("compacted", cleanup_policy="compact")
    producer = plain_producer(bootstrap_servers, batch_size=1)
    codes = sent(producer, topic, [(None if number % 10 == 0 else b"key", 0) for number in range(50)])
    assert codes == [KafkaError.INVALID_RECORD if number % 10 == 0 else None for number in range(50)]


def test_librdkafka_is_told_which_record_is_untimely(bootstrap_servers, make_topic):
    topic = make_topic("timely", message_timestamp_before_max_ms="60000", message_timestamp_after_max_ms="60000")
    now_ms = int(time.time() * 1000)
    producer = plain_producer(bootstrap_servers, linger_ms=500)
    codes = sent(producer, topic, [(None, now_ms), (None, now_ms - DAY_MS), (None, now_ms + DAY_MS)])
    # librdkafka has this code for all records that are named, whatever the answer's own is.
    assert codes == [KafkaError._INVALID_DIFFERENT_RECORD, KafkaError.INVALID_RECORD, KafkaError.INVALID_RECORD]
    assert written(bootstrap_servers, topic) == []


def test_librdkafka_aborts_a_transaction_with_a_record_that_is_refused(bootstrap_servers, make_topic):
    topic = make_topic("compacted", cleanup_policy="compact")
    transactional_id = fresh("id")
    producer = transactional_producer(bootstrap_servers, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"without a key")
    with pytest.raises(KafkaException) as failure:
        producer.commit_transaction(SECONDS)
    assert failure.value.args[0].txn_requires_abort()
    producer.abort_transaction(SECONDS)
    # It goes on numbering behind the record that was refused, which no broker takes: only another producer goes on.
    producer = transactional_producer(bootstrap_servers, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"with a key", key=b"key")
    producer.commit_transaction(SECONDS)
    assert written(bootstrap_servers, topic) == [b"with a key"]


@pytest.mark.parametrize(
    ("settings", "time_ms", "error"),
    [
        ({"cleanup_policy": "compact"}, None, InvalidRecordError),
        ({"message_timestamp_before_max_ms": "60000"}, 1000, InvalidTimestampError),
    ],
)
def test_kafka_python_raises_what_the_broker_answers(bootstrap_servers, make_topic, settings, time_ms, error):
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, retries=0)
    try:
        with pytest.raises(error):
            producer.send(make_topic("picky", **settings), b"value", timestamp_ms=time_ms).get(SECONDS)
    finally:
        producer.close(timeout=0)
