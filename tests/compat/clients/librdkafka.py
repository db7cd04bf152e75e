"""confluent-kafka (librdkafka), set up to answer quickly."""

import time
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Partition

SECONDS = 120


def plain_producer(bootstrap_servers, **config):
    return Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0, **dotted(config)})


def transactional_producer(bootstrap_servers, transactional_id, **config):
    producer = plain_producer(bootstrap_servers, transactional_id=transactional_id, **config)
    producer.init_transactions(SECONDS)
    return producer


@contextmanager
def consuming(bootstrap_servers, group, **config):
    """A consumer that is closed at the end, and so leaves its group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            # Quick to learn of a rebalance, slow to be given up on a busy machine.
            **({} if config.get("group_protocol") == "consumer" else {"heartbeat.interval.ms": 200}),
            **dotted(config),
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def dotted(config):
    return {name.replace("_", "."): value for name, value in config.items()}


def read_to_end(consumer, topic, partitions=1):
    """Read each partition to the end that the consumer may see, and return the records in the order they came."""
    consumer.assign([Partition(topic, number, 0) for number in range(partitions)])
    return go_on_reading(consumer, partitions)


def go_on_reading(consumer, partitions=1):
    """Read on from where the consumer is until it has met the end of every partition."""
    records, ended = [], set()
    deadline = time.monotonic() + SECONDS
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"read {len(records)} records and met no end"
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            records.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise AssertionError(message.error())
    return records


def read_count(consumer, count):
    """Poll until this many records have come."""
    records = []
    deadline = time.monotonic() + SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records have come"
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            records.append(message)
    return records


def values(records):
    return [record.value() for record in records]
