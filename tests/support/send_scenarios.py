"""One table of what becomes of a transaction some of whose sends fail, and the producers that run it.

Each flavour of producer runs every scenario, and all have to agree: on what the application is told, and on what a
reader of committed records sees afterwards.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from eagleray.client.errors import BufferFull, DeliveryTimeout, MessageTooLarge, TopicNotFound
from eagleray.client.sync_cluster import SyncCluster
from eagleray.client.types import RecordMetadata

MAX_REQUEST_BYTES = 1024 * 1024
TOO_LARGE = bytes(MAX_REQUEST_BYTES + 1)
UNKNOWN = "no-such-topic"
SILENT = "silent-topic"
"""A topic whose leader answers no producer."""

WAIT_SECONDS = 20


def no_partition(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
    """A partitioner of an application, with a bug."""
    if value == b"bad":
        raise ZeroDivisionError
    return 0


class Send(msgspec.Struct, frozen=True):
    """One record; where `topic` is None it goes to the scenario's own."""

    value: object
    options: dict[str, object] = {}
    topic: str | None = None
    is_caught: bool = False
    """Whether the application waits for the record and goes on after whatever that raises."""


class Scenario(msgspec.Struct, frozen=True):
    """Sends of one transaction, what its block has to raise, and what is visible afterwards."""

    name: str
    sends: tuple[Send, ...]
    raised: type[Exception] | None
    committed: tuple[bytes, ...] = ()
    settings: dict[str, object] = {}
    topic_configs: dict[str, object] = {}
    command_line: tuple[str, ...] | None = None
    """The options with which the command line does the same; None where it has no way to ask for it."""


def _bad_send(
    name: str, send: Send, raised: type[Exception], *, before: tuple[Send, ...] = (), **options: object
) -> list[Scenario]:
    """A send that fails between two good ones, behind what makes it fail: the error caught, and not."""
    first, last = (Send(b"first"), *before), Send(b"last")
    caught = msgspec.structs.replace(send, is_caught=True)
    command_line = options.pop("command_line", None)
    return [
        Scenario(f"{name}, not caught", (*first, send, last), raised, command_line=command_line, **options),
        Scenario(f"{name}, caught", (*first, caught, msgspec.structs.replace(last, is_caught=True)), raised, **options),
        Scenario(f"{name}, caught, as the last", (*first, caught), raised, **options),
    ]


SCENARIOS = [
    Scenario("good records", (Send(b"one"), Send("two"), Send(b"3", is_caught=True)), None, (b"one", b"two", b"3"),
             command_line=()),
    Scenario("no records", (), None, command_line=()),
    *_bad_send("too large", Send(TOO_LARGE), MessageTooLarge, command_line=()),
    *_bad_send("unknown topic", Send(b"x", topic=UNKNOWN), TopicNotFound, settings={"max_block_ms": 300}),
    *_bad_send("unknown partition", Send(b"x", {"partition": 99}), TopicNotFound),
    *_bad_send("negative partition", Send(b"x", {"partition": -1}), TopicNotFound),
    *_bad_send("partition of a wrong type", Send(b"x", {"partition": "0"}), TypeError),
    *_bad_send("value of a wrong type", Send(7), TypeError),
    *_bad_send("key of a wrong type", Send(b"x", {"key": 7}), TypeError),
    *_bad_send("value that is no text", Send("\ud800"), ValueError),
    *_bad_send("timestamp of a wrong type", Send(b"x", {"timestamp_ms": "now"}), TypeError),
    *_bad_send("timestamp out of range", Send(b"x", {"timestamp_ms": 1 << 63}), ValueError),
    *_bad_send("topic of a wrong type", Send(b"x", topic=b"bytes"), TypeError),  # type: ignore[arg-type]
    *_bad_send("headers that are no pairs", Send(b"x", {"headers": [b"h"]}), ValueError),
    *_bad_send("headers of a wrong type", Send(b"x", {"headers": 7}), TypeError),
    *_bad_send("header name of a wrong type", Send(b"x", {"headers": [(b"h", b"v")]}), TypeError),
    *_bad_send("header value of a wrong type", Send(b"x", {"headers": {"h": 7}}), TypeError),
    *_bad_send("partitioner that raises", Send(b"bad"), ZeroDivisionError, settings={"partitioner": no_partition}),
    *_bad_send("refused by the broker", Send(bytes(1000)), MessageTooLarge, command_line=(),
               topic_configs={"max.message.bytes": 500}),
    *_bad_send("without an answer", Send(b"x", topic=SILENT), DeliveryTimeout, settings={"delivery_timeout_ms": 500}),
    *_bad_send("full buffer", Send(bytes(800)), BufferFull, before=(Send(bytes(800), topic=SILENT),),
               settings={"buffer_memory": 1000, "max_block_ms": 200, "delivery_timeout_ms": 2500}),
    Scenario(
        "first error of two",
        (Send(TOO_LARGE, is_caught=True), Send(7, is_caught=True), Send(b"last", is_caught=True)),
        MessageTooLarge,
    ),
    Scenario(
        "first error of two, the other way round",
        (Send(7, is_caught=True), Send(TOO_LARGE, is_caught=True)),
        TypeError,
    ),
]  # fmt: skip


def blocking_block(cluster: SyncCluster, name: str, topic: str, scenario: Scenario) -> None:
    """The block of the blocking producer."""
    with cluster.producer(transactional_id=name, **scenario.settings) as producer, producer.transaction():
        _send_all(producer, topic, scenario)


def blocking_calls(cluster: SyncCluster, name: str, topic: str, scenario: Scenario) -> None:
    """The calls of the blocking producer, and an application that commits whatever it has caught."""
    with cluster.producer(transactional_id=name, **scenario.settings) as producer:
        producer.begin()
        try:
            _send_all(producer, topic, scenario)
            producer.commit()
        except Exception:
            producer.abort()
            raise


def blocking_prepared(cluster: SyncCluster, name: str, topic: str, scenario: Scenario) -> None:
    """The block of the blocking producer that prepares, and is completed by its token."""
    settings = {"transaction_two_phase_commit_enable": True, **scenario.settings}
    with cluster.producer(transactional_id=name, **settings) as producer, producer.transaction():
        _send_all(producer, topic, scenario)
        cluster.complete(producer.prepare(), commit=True)


def blocking_prepared_branch(cluster: SyncCluster, name: str, topic: str, scenario: Scenario) -> None:
    """One of many writers, blocking, whose driver prepares."""
    with cluster.begin(name, tag="one") as transaction:
        with cluster.join(transaction.branch(), **scenario.settings) as writer:
            _send_all(writer, topic, scenario)
            sealed = writer.seal()
        transaction.prepare([sealed])


def blocking_branch(cluster: SyncCluster, name: str, topic: str, scenario: Scenario) -> None:
    """One of many writers, blocking."""
    with cluster.begin(name, tag="one") as transaction:
        with cluster.join(transaction.branch(), **scenario.settings) as writer:
            _send_all(writer, topic, scenario)
            sealed = writer.seal()
        transaction.commit([sealed])


def _send_all(producer, topic: str, scenario: Scenario) -> None:
    for send in scenario.sends:
        if send.is_caught:
            with suppress(Exception):
                _ = producer.send(send.topic or topic, send.value, **send.options).result(WAIT_SECONDS)
        else:
            producer.send(send.topic or topic, send.value, **send.options)


async def asyncio_block(cluster, name: str, topic: str, scenario: Scenario) -> None:
    """The block of the asyncio producer."""
    async with cluster.producer(transactional_id=name, **scenario.settings) as producer, producer.transaction():
        await _send_all_on_loop(producer, topic, scenario)


async def asyncio_calls(cluster, name: str, topic: str, scenario: Scenario) -> None:
    """The calls of the asyncio producer, and an application that commits whatever it has caught."""
    async with cluster.producer(transactional_id=name, **scenario.settings) as producer:
        producer.begin()
        try:
            await _send_all_on_loop(producer, topic, scenario)
            await producer.commit()
        except Exception:
            await producer.abort()
            raise


async def asyncio_prepared(cluster, name: str, topic: str, scenario: Scenario) -> None:
    """The producer that prepares, and the next of its name, which completes."""
    settings = {"transaction_two_phase_commit_enable": True, **scenario.settings}
    async with cluster.producer(transactional_id=name, **settings) as producer:
        producer.begin()
        await _send_all_on_loop(producer, topic, scenario)
        prepared = await producer.prepare()
    async with cluster.producer(transactional_id=name, **settings) as producer:
        assert await producer.complete(prepared)


async def asyncio_branch(cluster, name: str, topic: str, scenario: Scenario) -> None:
    """One of many writers, on a loop."""
    async with await cluster.begin(name, tag="one") as transaction:
        async with await cluster.join(transaction.branch(), **scenario.settings) as writer:
            await _send_all_on_loop(writer, topic, scenario)
            sealed = await writer.seal()
        await transaction.commit([sealed])


async def _send_all_on_loop(producer, topic: str, scenario: Scenario) -> None:
    for send in scenario.sends:
        if send.is_caught:
            with suppress(Exception):
                await _delivered(producer, topic, send)
        else:
            await producer.send(send.topic or topic, send.value, **send.options)


async def _delivered(producer, topic: str, send: Send) -> RecordMetadata:
    async with asyncio.timeout(WAIT_SECONDS):
        return await (await producer.send(send.topic or topic, send.value, **send.options))


BLOCKING = {
    "blocking block": blocking_block,
    "blocking calls": blocking_calls,
    "blocking branch": blocking_branch,
    "blocking prepared": blocking_prepared,
    "blocking prepared branch": blocking_prepared_branch,
}
ON_LOOP = {
    "asyncio block": asyncio_block,
    "asyncio calls": asyncio_calls,
    "asyncio branch": asyncio_branch,
    "asyncio prepared": asyncio_prepared,
}
