"""What holds readers of committed records back: which transaction, since when, and whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import DescribeProducers, ProducerDescription, ProducersDescribed
from eagleray.broker.transactions.events import TransactionDescription
from eagleray.client.calls import RetryPolicy, call_with_retries

if TYPE_CHECKING:
    from eagleray.cli.session import Session


class Blocking(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition; nothing from its first offset on is read as committed."""

    topic: str
    partition: int
    open_since_offset: int
    last_write_ms: int
    producer_id: int
    epoch: int
    transactional_id: str | None
    """Whose it is; None where no coordinator knows it, so that it never ends by itself."""

    state: str
    started_ms: int
    end_with: str
    """The command that ends it."""


async def find_blocking(session: Session, topics: Iterable[str]) -> list[Blocking]:
    """Find every transaction that is open in some partition, the oldest of each partition first."""
    view = session.cluster.runtime.view
    await view.refreshed()
    names = tuple(topics) or tuple(name for name in view.partitions if not name.startswith("__"))
    for name in names:
        await session.require_topic(name)
    partitions = [partition for name in names for partition in view.partitions[name]]
    producers = await asyncio.gather(*(_open_in(session, partition) for partition in partitions))
    if not any(producers):
        return []
    # Asked for last, so that what has begun meanwhile is not taken for one that no coordinator knows.
    known = await session.cluster.admin.list_transactions(states=("Ongoing", "PrepareCommit", "PrepareAbort"))
    return [
        _blocking(partition, found, known)
        for partition, each in zip(partitions, producers, strict=True)
        for found in sorted(each, key=lambda producer: producer.open_since_offset)
    ]


async def _open_in(session: Session, partition: TopicPartition) -> list[ProducerDescription]:
    runtime = session.cluster.runtime
    reply: ProducersDescribed = await call_with_retries(
        runtime,
        lambda: runtime.view.leaders.get(partition, NO_NODE),
        f"describing the producers of {partition}",
        DescribeProducers,
        partition,
        retry_policy=RetryPolicy(),
    )
    return [producer for producer in reply.producers if producer.open_since_offset >= 0]


def _blocking(
    partition: TopicPartition, found: ProducerDescription, known: Sequence[TransactionDescription]
) -> Blocking:
    owner = _owner(partition, found.producer.producer_id, known)
    orphaned = f"eagleray txn abort-hanging {partition.topic} {partition.partition} {found.producer.producer_id}"
    return Blocking(
        topic=partition.topic,
        partition=partition.partition,
        open_since_offset=found.open_since_offset,
        last_write_ms=found.last_timestamp_ms,
        producer_id=found.producer.producer_id,
        epoch=found.producer.epoch,
        transactional_id=None if owner is None else owner.transactional_id,
        state="hanging" if owner is None else owner.state,
        started_ms=-1 if owner is None else owner.start_ms,
        end_with=orphaned if owner is None else f"eagleray txn abort {owner.transactional_id}",
    )


def _owner(
    partition: TopicPartition, producer_id: int, known: Sequence[TransactionDescription]
) -> TransactionDescription | None:
    """The transaction with this producer, or else one with branches in the partition: it may be one of those."""
    here = [transaction for transaction in known if partition in transaction.partitions]
    of_producer = [transaction for transaction in here if transaction.producer.producer_id == producer_id]
    with_branches = [transaction for transaction in here if transaction.branches > 0]
    return next(iter((*of_producer, *with_branches)), None)
