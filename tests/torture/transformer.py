"""A consumer that makes an invoice of each order, with its offsets in the same transaction."""

from __future__ import annotations

import asyncio
from random import Random

from eagleray.broker.identities import TopicPartition
from eagleray.client.cluster import AsyncCluster
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.errors import RetriableError
from eagleray.client.types import ConsumerRecord
from tests.support.history import (
    GroupOffset,
    Payload,
    Place,
    SentRecord,
    TransactionName,
    decode_payload,
    transformed,
)
from tests.torture.producing import Producing
from tests.torture.settings import GROUP, SOURCE, TARGET, ClientSpec

_POLL_MS = 200
_BATCH = 20
_ABORTED, _REPLACED = 0.1, 0.05
"""The shares of steps that are aborted, and that a wild client leaves open to begin as somebody new."""


class Transformer:
    """Consumes one partition of the source, exactly once, until it is told to stop or superseded.

    After a step that was not committed it goes back to where its group is, as after a restart.
    """

    def __init__(
        self, spec: ClientSpec, cluster: AsyncCluster, producing: Producing, partition: int, stopping: asyncio.Event
    ) -> None:
        self._spec = spec
        self._cluster = cluster
        self._producing = producing
        self._partition = TopicPartition(SOURCE, partition)
        self._stopping = stopping
        self._random = Random(f"{spec.seed}/{producing.transactional_id}/{spec.incarnation}")
        self._consumer: AsyncConsumer | None = None

    async def start(self) -> None:
        """Get an identity, so that nobody else moves the group, then find out where the group is."""
        await self._producing.take_over()
        self._consumer = self._cluster.consumer(
            group=GROUP,
            isolation="read_committed",
            auto_offset_reset="earliest",
            max_poll_records=_BATCH,
            request_timeout_ms=3_000,
        )
        self._consumer.assign([self._partition])
        await self._go_back()

    async def _go_back(self) -> None:
        assert self._consumer is not None
        committed = await self._consumer.committed(self._partition)
        found = committed.get(self._partition)
        self._consumer.seek(self._partition, 0 if found is None else found.offset)

    async def run(self) -> None:
        """Transform, one batch after the other."""
        assert self._consumer is not None
        while not self._stopping.is_set():
            records = await self._poll()
            if records and not await self._step(records):
                await self._go_back()
        await self._consumer.close()
        await self._producing.close()

    async def _poll(self) -> list[ConsumerRecord]:
        assert self._consumer is not None
        try:
            return await self._consumer.poll(_POLL_MS, self._random.randint(1, _BATCH))
        except RetriableError:
            return []

    async def _step(self, records: list[ConsumerRecord]) -> bool:
        """Return whether the step was committed."""
        name = self._producing.next_name()
        offset = GroupOffset(GROUP, self._partition, records[-1].offset + 1)
        chance = self._random.random()
        may_commit = await self._producing.begin(name, self._invoices(name, records), (offset,))
        if may_commit and chance > _ABORTED + _REPLACED:
            return await self._producing.commit(name)
        if self._spec.is_wild and chance < _REPLACED:
            await self._producing.take_over()
        else:
            await self._producing.abort(name)
        return False

    def _invoices(self, name: TransactionName, records: list[ConsumerRecord]) -> tuple[SentRecord, ...]:
        target = TopicPartition(TARGET, self._random.randrange(self._spec.source_partitions))
        return tuple(
            SentRecord(target, name.producer, self._invoice(name, index, record))
            for index, record in enumerate(records)
        )

    def _invoice(self, name: TransactionName, index: int, record: ConsumerRecord) -> Payload:
        assert record.value is not None
        body = transformed(decode_payload(record.value).body)
        return Payload(name, index, body, GROUP, Place(self._partition, record.offset))
