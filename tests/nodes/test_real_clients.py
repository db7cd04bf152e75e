"""Clients that we did not write, against real nodes without Ray: transactions in, committed records out."""

import asyncio
import time
from contextlib import asynccontextmanager

import aiokafka
import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition

from eagleray.testing import COLOCATED, SEPARATE, LocalCluster

LAYOUTS = {"separate": SEPARATE, "colocated": COLOCATED}
TIMEOUT_S = 90


@pytest.fixture(params=[*LAYOUTS])
def layout(request):
    return LAYOUTS[request.param]


@asynccontextmanager
async def serving(tmp_path, layout, settings=None):
    async with LocalCluster(tmp_path, layout, {"num.partitions": "3"} | (settings or {})) as nodes:
        yield f"127.0.0.1:{nodes.nodes[max(nodes.nodes)].port}"


def run(tmp_path, layout, client, settings=None):
    """Run a blocking client in a thread beside the nodes."""

    async def scenario():
        async with serving(tmp_path, layout, settings) as bootstrap:
            return await asyncio.to_thread(client, bootstrap)

    return asyncio.run(scenario())


def producer_of(bootstrap, **config):
    return confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0} | config)


def transactional(bootstrap, transactional_id):
    producer = producer_of(bootstrap, **{"transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    return producer


def read(bootstrap, topic, count, isolation="read_committed"):
    """Read as many records from all partitions by assign(), and see that no more come."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
    values, deadline = [], time.monotonic() + TIMEOUT_S
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(100, 0.2) if message.error() is None]
    values += [message.value() for message in consumer.consume(1, 0.3) if message.error() is None]
    consumer.close()
    return sorted(values)


def test_librdkafka_transactions_are_seen_whole_or_not_at_all(tmp_path, layout):
    def client(bootstrap):
        producer = transactional(bootstrap, "checkout")
        expected = []
        for number in range(20):
            producer.begin_transaction()
            values = [b"%d-%d" % (number, part) for part in range(5)]
            for part, value in enumerate(values):
                producer.produce("orders", value, partition=part % 3)
            if number % 4 == 3:
                producer.flush(TIMEOUT_S)
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
                expected += values
        assert read(bootstrap, "orders", len(expected)) == sorted(expected)
        assert len(read(bootstrap, "orders", 100, "read_uncommitted")) == 100

    run(tmp_path, layout, client)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_compresses_as_it_likes(tmp_path, codec):
    def client(bootstrap):
        producer = producer_of(bootstrap, **{"compression.type": codec, "enable.idempotence": True, "linger.ms": 20})
        values = [b"%05d" % number * 20 for number in range(500)]
        for value in values:
            producer.produce("orders", value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        assert read(bootstrap, "orders", 500) == values

    run(tmp_path, COLOCATED, client)


def test_librdkafka_sends_and_gets_large_batches(tmp_path):
    def client(bootstrap):
        producer = producer_of(bootstrap, **{"linger.ms": 50, "batch.size": 900_000})
        values = [b"%06d" % number * 200 for number in range(5000)]
        for value in values:
            producer.produce("orders", value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        assert read(bootstrap, "orders", 5000) == values

    run(tmp_path, COLOCATED, client)


def test_a_second_librdkafka_producer_fences_the_first(tmp_path, layout):
    def client(bootstrap):
        old = transactional(bootstrap, "checkout")
        old.begin_transaction()
        old.produce("orders", b"zombie")
        old.flush(TIMEOUT_S)
        new = transactional(bootstrap, "checkout")
        new.begin_transaction()
        new.produce("orders", b"successor")
        new.commit_transaction(TIMEOUT_S)
        with pytest.raises(confluent_kafka.KafkaException) as fenced:
            old.commit_transaction(TIMEOUT_S)
        assert fenced.value.args[0].code() == confluent_kafka.KafkaError._FENCED
        assert read(bootstrap, "orders", 1) == [b"successor"]

    run(tmp_path, layout, client)


def test_librdkafka_sends_offsets_in_a_transaction(tmp_path, layout):
    def client(bootstrap):
        seed = producer_of(bootstrap)
        seed.produce("orders", b"input", partition=0)
        seed.flush(TIMEOUT_S)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "job"})
        position = confluent_kafka.TopicPartition("orders", 0, 1)
        producer = transactional(bootstrap, "job")
        for commit in (False, True):
            producer.begin_transaction()
            producer.produce("totals", b"output")
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), TIMEOUT_S)
            if commit:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)
                (found,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], TIMEOUT_S)
                assert found.offset < 0
        (found,) = consumer.committed([confluent_kafka.TopicPartition("orders", 0)], TIMEOUT_S)
        assert found.offset == 1
        assert read(bootstrap, "totals", 1) == [b"output"]
        consumer.close()

    run(tmp_path, layout, client)


def test_kafka_python_produces_in_transactions_and_reads_them(tmp_path, layout):
    def client(bootstrap):
        producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="checkout", linger_ms=0)
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send("orders", b"%d" % number, partition=0).get(TIMEOUT_S)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        producer.close()
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            consumer_timeout_ms=2000,
            enable_auto_commit=False,
        )
        partition = KafkaPythonPartition("orders", 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found = [record.value for record in consumer]
        consumer.close()
        assert found == [b"0", b"2"]

    run(tmp_path, layout, client)


async def test_aiokafka_produces_in_transactions_and_reads_them(tmp_path, layout):
    async with serving(tmp_path, layout) as bootstrap:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="checkout")
        await producer.start()
        for number in range(4):
            await producer.begin_transaction()
            await producer.send_and_wait("orders", b"%d" % number, partition=0)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.send_offsets_to_transaction({aiokafka.TopicPartition("orders", 1): number}, "job")
                await producer.commit_transaction()
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition("orders", 0)])
        async with asyncio.timeout(TIMEOUT_S):
            found = [(await consumer.getone()).value for _ in range(2)]
        await consumer.stop()
        assert found == [b"0", b"2"]
