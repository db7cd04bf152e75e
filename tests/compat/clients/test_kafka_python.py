"""kafka-python: its producers, groups, transactions and admin."""

import gc
import time
from contextlib import closing

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import AbortTransactionSpec, TransactionState
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import ClusterAuthorizationFailedError, ProducerFencedError, TopicAlreadyExistsError

from tests.support.clusters import fresh, until

SECONDS = 120

# kafka-python lets go of sockets without closing them, and whichever test runs when they are collected would fail.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def collect_sockets():
    """Have them collected before a test of another file runs."""
    yield
    gc.collect()


@pytest.fixture
def producing(bootstrap_servers):
    """Make producers; they are closed with the test."""
    made = []

    def make(**options):
        producer = KafkaProducer(bootstrap_servers=bootstrap_servers, retry_backoff_ms=20, **options)
        made.append(producer)
        if "transactional_id" in options:
            producer.init_transactions()
        return producer

    yield make
    for producer in made:
        producer.close(timeout=0)


@pytest.fixture
def kafka_admin(bootstrap_servers):
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as client:
        yield client


def consuming(bootstrap_servers, *topics, **options):
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    return closing(KafkaConsumer(*topics, bootstrap_servers=bootstrap_servers, **defaults | options))


def go_on_reading(consumer, topic, partitions=1):
    """Read to the end that the consumer may see."""
    assigned = [TopicPartition(topic, number) for number in range(partitions)]
    ends = consumer.end_offsets(assigned)
    found = []

    def is_at_end():
        found.extend(value_of for records in consumer.poll(50).values() for value_of in records)
        return all(consumer.position(partition) >= ends[partition] for partition in assigned)

    until(is_at_end, f"{topic} is read to {ends}", SECONDS)
    return [record.value for record in found]


def read_to_end(bootstrap_servers, topic, isolation="read_committed", partitions=1):
    with consuming(bootstrap_servers, isolation_level=isolation) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        consumer.seek_to_beginning()
        return go_on_reading(consumer, topic, partitions)


def read_count(consumer, count):
    # A poll that is cut short while the consumer joins its group may leave it without partitions.
    records = []
    deadline = time.monotonic() + SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records have come"
        records.extend(record for batch in consumer.poll(1000).values() for record in batch)
    return records


@pytest.mark.parametrize(
    "options", [{"acks": 1, "enable_idempotence": False}, {"acks": "all"}], ids=["plain", "idempotent"]
)
def test_producer(bootstrap_servers, make_topic, producing, options):
    topic = make_topic("produced", partitions=2)
    producer = producing(**options)
    sent = [producer.send(topic, b"%d" % number, key=b"key", headers=[("a", b"b")]) for number in range(20)]
    assert [future.get(SECONDS).offset for future in sent] == list(range(20))
    assert read_to_end(bootstrap_servers, topic, partitions=2) == [b"%d" % number for number in range(20)]


def test_transactions(bootstrap_servers, make_topic, producing):
    topic = make_topic("transactions", partitions=2)
    producer = producing(transactional_id=fresh("id"))
    for number in range(8):
        producer.begin_transaction()
        for partition in range(2):
            producer.send(topic, b"%d" % number, partition=partition)
        if number % 4 == 3:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    committed = [b"%d" % number for number in range(8) if number % 4 != 3]
    assert sorted(read_to_end(bootstrap_servers, topic, partitions=2)) == sorted(committed * 2)


def test_read_committed_stops_at_the_last_stable_offset(bootstrap_servers, history):
    assert read_to_end(bootstrap_servers, history.topic, "read_uncommitted") == history.everything
    with consuming(bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(history.topic, 0)])
        consumer.seek_to_beginning()
        assert go_on_reading(consumer, history.topic) == history.stable
        history.finish()
        assert [record.value for record in read_count(consumer, 2)] == history.rest


def test_the_older_of_two_producers_is_fenced(bootstrap_servers, make_topic, producing):
    topic, transactional_id = make_topic("fenced"), fresh("id")
    older = producing(transactional_id=transactional_id)
    older.begin_transaction()
    older.send(topic, b"older").get(SECONDS)
    newer = producing(transactional_id=transactional_id)
    newer.begin_transaction()
    newer.send(topic, b"newer")
    newer.commit_transaction()
    with pytest.raises(ProducerFencedError):
        older.commit_transaction()
    assert read_to_end(bootstrap_servers, topic) == [b"newer"]


def test_offsets_in_transactions(bootstrap_servers, make_topic, producing):
    source, target, group = make_topic("source"), make_topic("target"), fresh("group")
    plain = producing()
    for number in range(6):
        plain.send(source, b"%d" % number)
    plain.flush()
    worker = producing(transactional_id=fresh("id"))

    def transform(end):
        with consuming(bootstrap_servers, source, group_id=group, max_poll_records=3) as consumer:
            records = read_count(consumer, 3)[:3]
            worker.begin_transaction()
            for record in records:
                worker.send(target, b"done " + record.value)
            position = {TopicPartition(source, 0): OffsetAndMetadata(records[-1].offset + 1, "", -1)}
            worker.send_offsets_to_transaction(position, consumer.group_metadata())
            end()
            return [record.value for record in records]

    first, second = transform(worker.abort_transaction), transform(worker.commit_transaction)
    third = transform(worker.commit_transaction)
    assert (first, second, third) == ([b"0", b"1", b"2"], [b"0", b"1", b"2"], [b"3", b"4", b"5"])
    assert read_to_end(bootstrap_servers, target) == [b"done %d" % number for number in range(6)]


@pytest.mark.parametrize("assignor", [RangePartitionAssignor, CooperativeStickyAssignor])
def test_group(bootstrap_servers, make_topic, assignor):
    topic = make_topic("shared", partitions=4)
    options = {
        "group_id": fresh("group"),
        "partition_assignment_strategy": [assignor],
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6000,
    }

    def poll(*consumers):
        for consumer in consumers:
            consumer.poll(1000)
        return [len(consumer.assignment()) for consumer in consumers]

    with consuming(bootstrap_servers, topic, **options) as staying:
        until(lambda: poll(staying) == [4], "the first has all", SECONDS)
        with consuming(bootstrap_servers, topic, **options) as leaving:
            until(lambda: poll(staying, leaving) == [2, 2], "two share", SECONDS)
            assert not staying.assignment() & leaving.assignment()
        until(lambda: poll(staying) == [4], "the first has all again", SECONDS)


def test_admin(kafka_admin, make_topic, producing, is_kafka):
    topic, transactional_id = make_topic("administered"), fresh("id")
    with pytest.raises(TopicAlreadyExistsError):
        kafka_admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    assert topic in kafka_admin.list_topics()
    (described,) = kafka_admin.describe_topics([topic])
    assert [partition["partition_index"] for partition in described["partitions"]] == [0]
    assert kafka_admin.describe_cluster()["brokers"]

    producer = producing(transactional_id=transactional_id)
    producer.begin_transaction()
    producer.send(topic, b"open").get(SECONDS)
    listed = [each for some in kafka_admin.list_transactions().values() for each in some]
    assert transactional_id in {each.transactional_id for each in listed}
    transaction = kafka_admin.describe_transactions([transactional_id])[transactional_id]
    partition = TopicPartition(topic, 0)
    assert (transaction.state, transaction.topic_partitions) == (TransactionState.ONGOING, {partition})
    (active,) = kafka_admin.describe_producers([partition])[partition].active_producers
    assert (active.producer_id, active.current_transaction_start_offset) == (transaction.producer_id, 0)
    asked = AbortTransactionSpec(partition, active.producer_id, active.producer_epoch)
    if is_kafka:
        kafka_admin.abort_transaction(asked)
    else:
        # Such an abort is for what no coordinator knows (test_hanging_transactions.py), and here a coordinator does.
        with pytest.raises(ClusterAuthorizationFailedError):
            kafka_admin.abort_transaction(asked)
    producer.abort_transaction()

    def is_ended():
        (ended,) = kafka_admin.describe_producers([partition])[partition].active_producers
        return ended.current_transaction_start_offset == -1

    until(is_ended, "it is aborted", SECONDS)
