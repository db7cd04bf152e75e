"""Shorthands for tests of clients."""

import asyncio
from typing import Any

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.errors import EaglerayError
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime

ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
INVOICES = tuple(TopicPartition("invoices", number) for number in range(2))

FROM_THE_BEGINNING = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}


def a_producer(runtime: ClientRuntime, **settings: object) -> AsyncProducer:
    return AsyncProducer(runtime, ProducerConfig.make(**settings))


async def a_transactional(runtime: ClientRuntime, name: str = "billing", **settings: object) -> AsyncProducer:
    producer = a_producer(runtime, transactional_id=name, **settings)
    await producer.init()
    return producer


async def a_consumer(runtime: ClientRuntime, *partitions: TopicPartition, **settings: object) -> AsyncConsumer:
    consumer = AsyncConsumer(runtime, ConsumerConfig.make({**FROM_THE_BEGINNING, **settings}))
    consumer.assign(partitions or ORDERS)
    return consumer


async def commit_records(producer: AsyncProducer, *values: bytes, partition: int = 0, topic: str = "orders") -> None:
    producer.begin()
    for value in values:
        await producer.send(topic, value, partition=partition)
    await producer.commit()


async def poll_values(consumer: AsyncConsumer, count: int, timeout_ms: float = 10_000) -> list[bytes | None]:
    """Poll until there are so many records."""
    values: list[bytes | None] = []
    while len(values) < count:
        records = await consumer.poll(timeout_ms)
        assert records, f"only {values} came"
        values += [record.value for record in records]
    return values


async def outcome(work: Any) -> EaglerayError | None:
    """What something raised, if anything."""
    try:
        await work
    except EaglerayError as error:
        return error
    return None


async def settled(milliseconds: float = 2000) -> None:
    """Let whatever is under way come to its end."""
    await asyncio.sleep(milliseconds / 1000)
