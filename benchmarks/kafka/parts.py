"""What is measured, and which way is better."""

from typing import Literal

from msgspec import Struct

Better = Literal["more", "less", "neither"]


class Metric(Struct, frozen=True):
    """One figure of a part; `key` is what its load calls it."""

    key: str
    label: str
    better: Better
    digits: int = 1


RATE = Metric("rate", "transactions/s", "more", 0)
P50 = Metric("p50_ms", "p50 ms", "less", 2)
P99 = Metric("p99_ms", "p99 ms", "less", 2)
MEGABYTES = Metric("mb_per_second", "MB/s", "more")
MISSED = Metric("missed", "missed arrivals", "less", 0)
RETRIES = Metric("retries", "retries a transaction", "neither", 2)
CLIENT_CPU = Metric("client_us", "client's CPU µs a transaction", "neither", 0)
CLIENT_SHARE = Metric("client_share", "client's share of the CPU, %", "neither", 0)
BROKER_CPU = Metric("broker_us", "broker's CPU µs a transaction", "less", 0)
TRANSACTIONS = (RATE, P50, P99)
LIGHT = (RATE, P50, P99, RETRIES, CLIENT_CPU, CLIENT_SHARE, BROKER_CPU)
OFFERED = (RATE, P50, P99, MISSED, RETRIES, CLIENT_CPU, CLIENT_SHARE, BROKER_CPU)

OFFERED_PER_SECOND = 10_000


class Part(Struct, frozen=True):
    """One load, which runs in a process of its own, and what it reports. `command` is its module and arguments."""

    name: str
    title: str
    command: tuple[str, ...]
    metrics: tuple[Metric, ...]
    options: dict[str, float]
    partitions: int = 8


def _librdkafka(name: str, title: str, load: str, metrics: tuple[Metric, ...], **options: int) -> Part:
    command = ("benchmarks.kafka.librdkafka_load", load)
    return Part(name, title, command, metrics, dict(options), partitions=options.get("partitions", 8))


def _light(name: str, title: str, metrics: tuple[Metric, ...], **options: int) -> Part:
    return Part(name, title, ("benchmarks.kafka.light_load",), metrics, dict(options))


def _light_parts(version: int) -> tuple[Part, ...]:
    kind = f"light client, transaction version {version}"
    return (
        _light(f"light64-v{version}", f"64 producers, {kind}", LIGHT, producers=64, version=version),
        _light(f"light256-v{version}", f"256 producers, {kind}", LIGHT, producers=256, version=version),
        _light(f"light1000-v{version}", f"1,000 producers, {kind}", LIGHT, producers=1000, version=version),
        _light(
            f"offered-v{version}",
            f"{OFFERED_PER_SECOND:,}/s offered to 1,000 producers, {kind}",
            OFFERED,
            producers=1000,
            version=version,
            rate=OFFERED_PER_SECOND,
        ),
    )


PARTS = (
    _librdkafka("txn1", "1 producer, back to back, librdkafka", "transactions", TRANSACTIONS, producers=1),
    _librdkafka("txn8", "8 producers, librdkafka", "transactions", TRANSACTIONS, producers=8),
    _librdkafka("txn64", "64 producers, librdkafka", "transactions", TRANSACTIONS, producers=64),
    _librdkafka(
        *("wide", "100 records over 4 partitions a transaction, librdkafka", "transactions", TRANSACTIONS),
        records=100,
        partitions=4,
    ),
    _librdkafka("produce100", "plain produce, 100 B, librdkafka", "produce", (MEGABYTES,), size=100),
    _librdkafka("produce1k", "plain produce, 1 KB, librdkafka", "produce", (MEGABYTES,), size=1000),
    _librdkafka("fetch", "fetch, 1 KB, librdkafka", "fetch", (MEGABYTES,), size=1000),
    _librdkafka("latency", "from produce to consume, 500/s, librdkafka", "end_to_end", (P50, P99)),
    *_light_parts(1),
    *_light_parts(2),
)

# Taken of every broker, whatever parts are asked for.
START = Part("start", "start-up", (), (Metric("seconds", "seconds until metadata", "less"),), {})
MEMORY = Part(
    "memory",
    "memory after all this",
    (),
    (Metric("broker", "broker MB", "less", 0), Metric("platform", "Ray's own MB", "neither", 0)),
    {},
)
EVERY_PART = (START, *PARTS, MEMORY)
