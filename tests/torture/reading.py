"""Waiting until all is decided, and reading everything back."""

from __future__ import annotations

import asyncio
import time

from eagleray.broker.identities import TopicPartition
from eagleray.client.cluster import AsyncCluster
from eagleray.client.types import ConsumerRecord
from tests.support.history import FoundRecord, GroupOffset
from tests.torture.settings import GROUP, SOURCE, TARGET

_UNDECIDED = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_LOOK_S = 0.2
_POLL_MS = 1_000


class NotSettled(Exception):
    """Something stays undecided: a transaction hangs."""


async def until_settled(cluster: AsyncCluster, deadline_s: float) -> None:
    """Wait until no coordinator has a transaction open, and no partition holds anything back."""
    while True:
        left = await _undecided(cluster)
        if not left:
            return
        if time.monotonic() > deadline_s:
            raise NotSettled("still undecided: " + "; ".join(left))
        await asyncio.sleep(_LOOK_S)


async def _undecided(cluster: AsyncCluster) -> list[str]:
    admin = cluster.admin
    left = [str(transaction) for transaction in await admin.list_transactions(states=_UNDECIDED)]
    for topic in (SOURCE, TARGET):
        partitions = (await admin.describe_topic(topic)).partitions
        left += [f"{topic} {partition}" for partition in partitions if partition.undecided]
    return left


async def read_all(
    cluster: AsyncCluster, isolation: str, deadline_s: float
) -> dict[TopicPartition, tuple[FoundRecord, ...]]:
    """Read both topics from their beginning to where they end now."""
    async with cluster.consumer(SOURCE, TARGET, isolation=isolation, auto_offset_reset="earliest") as consumer:
        found: dict[TopicPartition, list[FoundRecord]] = {partition: [] for partition in consumer.assignment()}
        ends = await consumer.end_offsets()
        while [partition for partition, end in ends.items() if await consumer.position(partition) < end]:
            if time.monotonic() > deadline_s:
                raise NotSettled(f"reading {isolation} to {ends} has come to {[*map(len, found.values())]} records")
            for record in await consumer.poll(_POLL_MS):
                found[record.topic_partition].append(_as_found(record))
    return {partition: tuple(records) for partition, records in sorted(found.items())}


def _as_found(record: ConsumerRecord) -> FoundRecord:
    return FoundRecord(record.offset, (record.key or b"").decode(), record.value or b"")


async def read_group(cluster: AsyncCluster) -> tuple[GroupOffset, ...]:
    """Read how far the transforming group has come."""
    async with cluster.consumer(SOURCE, group=GROUP) as consumer:
        committed = await consumer.committed()
    return tuple(GroupOffset(GROUP, partition, found.offset) for partition, found in sorted(committed.items()))
