"""Consumers that read the same records, each in a group of its own."""

import asyncio
import time
import uuid

import confluent_kafka

from benchmarks.client.broker import Broker
from benchmarks.client.comparing import Pair, Scale

TOPIC = "records"
PARTITIONS = 8
VALUE = bytes(100)
_IN_A_BATCH = 150
STEP = 500
"""How many records a poll brings at most, for both."""

_LONG_MS = 30_000


def prepare(on: Broker, scale: Scale) -> None:
    """Write the records, in batches such as producers send."""
    with on.connect() as cluster:
        cluster.admin.create_topic(TOPIC, partitions=PARTITIONS)
        with cluster.producer(linger_ms=5, batch_size=_IN_A_BATCH * 110) as producer:
            for number in range(scale.records):
                producer.send(TOPIC, VALUE, partition=number // _IN_A_BATCH % PARTITIONS)


class Meter:
    """Counts records from the first ones on: joining a group is not reading."""

    def __init__(self, records: int) -> None:
        self._left = records
        self._counted = 0
        self._began_s: float | None = None
        self._ended_s = 0.0

    def read(self, count: int, now_s: float) -> bool:
        """Note that records have come; return whether there are more to come."""
        if self._began_s is None:
            self._began_s = now_s if count else None
        else:
            self._counted += count
        self._ended_s = now_s
        self._left -= count
        return self._left > 0

    def rate(self) -> float:
        """Return the records of each second."""
        assert self._began_s is not None, "records have come"
        return self._counted / (self._ended_s - self._began_s)


def polled(on: Broker, scale: Scale) -> float:
    """Read by polling."""
    meter = Meter(scale.records)
    with on.connect() as cluster, cluster.consumer(TOPIC, group=uuid.uuid4().hex) as consumer:
        while True:
            records = consumer.poll(_LONG_MS, STEP)
            for record in records:
                assert record.value is not None
            if not meter.read(len(records), time.perf_counter()):
                return meter.rate()


def iterated(on: Broker, scale: Scale) -> float:
    """Read by iterating."""
    return _iterated(on, scale, commits=False)


def iterated_with_commits(on: Broker, scale: Scale) -> float:
    """Read by iterating, with automatic commits."""
    return _iterated(on, scale, commits=True)


def _iterated(on: Broker, scale: Scale, *, commits: bool) -> float:
    meter = Meter(scale.records)
    with (
        on.connect() as cluster,
        cluster.consumer(TOPIC, group=uuid.uuid4().hex, enable_auto_commit=commits) as consumer,
    ):
        for number, record in enumerate(consumer, 1):
            assert record.value is not None
            if number % STEP == 0 and not meter.read(STEP, time.perf_counter()):
                break
    return meter.rate()


def iterated_on_a_loop(on: Broker, scale: Scale) -> float:
    """Read by iterating over the asyncio consumer."""
    return asyncio.run(_iterate_on_a_loop(on, scale))


async def _iterate_on_a_loop(on: Broker, scale: Scale) -> float:
    meter, number = Meter(scale.records), 0
    cluster, peers = on.connect_loop()
    async with cluster.consumer(TOPIC, group=uuid.uuid4().hex) as consumer:
        async for record in consumer:
            assert record.value is not None
            number += 1
            if number % STEP == 0 and not meter.read(STEP, time.perf_counter()):
                break
    await cluster.close()
    peers.close()
    return meter.rate()


def theirs(on: Broker, scale: Scale) -> float:
    """Read by confluent-kafka, in batches as large as ours."""
    return _theirs(on, scale, commits=False)


def theirs_with_commits(on: Broker, scale: Scale) -> float:
    """Read by confluent-kafka, with automatic commits."""
    return _theirs(on, scale, commits=True)


def _theirs(on: Broker, scale: Scale, *, commits: bool) -> float:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": on.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "group.protocol": "consumer",
            "enable.auto.commit": commits,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    meter = Meter(scale.records)
    while meter.read(_consume(consumer), time.perf_counter()):
        pass
    consumer.close()
    return meter.rate()


def _consume(consumer: confluent_kafka.Consumer) -> int:
    messages = consumer.consume(STEP, _LONG_MS / 1000)
    for message in messages:
        assert message.value() is not None
    return len(messages)


PAIRS = [
    Pair("consume, poll", polled, theirs),
    Pair("consume, iteration", iterated, theirs),
    Pair("consume, iteration, automatic commits", iterated_with_commits, theirs_with_commits),
    Pair("consume, asyncio iteration", iterated_on_a_loop, theirs),
]
