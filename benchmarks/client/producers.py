"""Blocking producers: records from the first `send` until the last is acknowledged."""

import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice, repeat

import confluent_kafka

from benchmarks.client.broker import Broker
from benchmarks.client.comparing import Load, Pair, Scale

TOPIC = "load"
PARTITIONS = 8
VALUE = bytes(100)
LINGER_MS = 5
"""What librdkafka lets a batch linger by default, for both."""

_FEW_KEYS = [b"customer-%d" % number for number in range(10_000)]
_DISTINCT_KEYS_A_SECOND = 1_000_000
"""More than either client sends; a load that has used all of its keys ends, and its rate is what it is."""

_AT_ONCE = 1000

Keys = Callable[[float], Iterator[bytes | None]]
"""Makes the keys for so many seconds."""


def no_keys(_: float) -> Iterator[None]:
    """Records without keys."""
    return repeat(None)


def few_keys(_: float) -> Iterator[bytes]:
    """10,000 keys that come again and again: fewer than our partitioner remembers the hashes of."""
    return cycle(_FEW_KEYS)


def distinct_keys(seconds: float) -> Iterator[bytes]:
    """Each key once: nothing that is remembered of a key helps. They are made before, at the cost of neither client."""
    return iter([b"customer-%d" % number for number in range(int(seconds * _DISTINCT_KEYS_A_SECOND))])


def ours(make_keys: Keys) -> Load:
    """Our blocking producer."""

    def load(on: Broker, scale: Scale) -> float:
        keys = make_keys(scale.seconds)
        with on.connect() as cluster, cluster.producer(linger_ms=LINGER_MS) as producer:
            producer.send(TOPIC, VALUE).result(30)
            send, count, began = producer.send, 0, time.perf_counter()
            while time.perf_counter() < began + scale.seconds and (some := list(islice(keys, _AT_ONCE))):
                for key in some:
                    send(TOPIC, VALUE, key=key)
                count += len(some)
            producer.flush()
            return count / (time.perf_counter() - began)

    return load


def theirs(make_keys: Keys) -> Load:
    """confluent-kafka's producer, with our promise and our partitioner."""

    def load(on: Broker, scale: Scale) -> float:
        keys = make_keys(scale.seconds)
        config = {"bootstrap.servers": on.bootstrap_servers, "linger.ms": LINGER_MS, "enable.idempotence": True}
        producer = confluent_kafka.Producer(config | {"partitioner": "murmur2_random"})
        producer.produce(TOPIC, VALUE)
        producer.flush(30)
        count, began = 0, time.perf_counter()
        while time.perf_counter() < began + scale.seconds and (some := list(islice(keys, _AT_ONCE))):
            for key in some:
                _produce(producer, key)
            producer.poll(0)
            count += len(some)
        left = producer.flush(60)
        assert not left, f"{left} records were not delivered"
        return count / (time.perf_counter() - began)

    return load


def _produce(producer: confluent_kafka.Producer, key: bytes | None) -> None:
    while True:
        try:
            return producer.produce(TOPIC, VALUE, key)
        except BufferError:
            producer.poll(0.01)


def prepare(on: Broker) -> None:
    """Make the topic, which is kept small."""
    with on.connect() as cluster:
        cluster.admin.create_topic(TOPIC, partitions=PARTITIONS, configs={"retention.bytes": str(1 << 26)})


PAIRS = [
    Pair(name, ours(keys), theirs(keys))
    for name, keys in {
        "produce, no keys": no_keys,
        "produce, 10,000 keys": few_keys,
        "produce, distinct keys": distinct_keys,
    }.items()
]
