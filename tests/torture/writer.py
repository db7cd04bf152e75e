"""A producer that writes orders: most transactions it commits, some it aborts, and some it abandons."""

from __future__ import annotations

import asyncio
from random import Random

from eagleray.broker.identities import TopicPartition
from tests.support.history import Payload, SentRecord, TransactionName
from tests.torture.producing import Producing
from tests.torture.settings import SOURCE, ClientSpec

_RECORDS = (1, 5)
_COMMITTED, _ABORTED = 0.8, 0.15
"""The shares of transactions; the rest is abandoned."""
_ZOMBIE_S = 60


class Writer:
    """Writes until it is told to stop, or somebody else has its transactional id."""

    def __init__(self, spec: ClientSpec, producing: Producing, stopping: asyncio.Event) -> None:
        self._spec = spec
        self._producing = producing
        self._stopping = stopping
        self._random = Random(f"{spec.seed}/{producing.transactional_id}/{spec.incarnation}")

    async def start(self) -> None:
        """Get an identity; whoever had the transactional id before has lost it when this returns."""
        await self._producing.take_over()

    async def run(self) -> None:
        """Write, one transaction after the other."""
        while not self._stopping.is_set():
            await self._one_transaction()
            await asyncio.sleep(self._random.uniform(0, 2 / self._spec.transactions_per_second))
        await self._producing.close()

    async def _one_transaction(self) -> None:
        name = self._producing.next_name()
        chance = self._random.random()
        may_commit = await self._producing.begin(name, self._orders(name))
        if self._random.random() < 0.2:
            await asyncio.sleep(self._random.uniform(0, 0.5))
        if may_commit and chance < _COMMITTED:
            await self._producing.commit(name)
        elif not self._spec.is_wild or chance < _COMMITTED + _ABORTED:
            await self._producing.abort(name)
        else:
            await self._abandon(name)

    async def _abandon(self, name: TransactionName) -> None:
        """Leave it open and begin as somebody new; let the old one try to commit nevertheless, now and then."""
        zombie = await self._producing.take_over()
        if zombie is not None and self._random.random() < 0.5:
            await asyncio.wait_for(self._producing.try_as_zombie(zombie, name), _ZOMBIE_S)

    def _orders(self, name: TransactionName) -> tuple[SentRecord, ...]:
        def order(index: int) -> SentRecord:
            partition = TopicPartition(SOURCE, self._random.randrange(self._spec.source_partitions))
            return SentRecord(partition, name.producer, Payload(name, index, f"{name}:{index}"))

        return tuple(order(index) for index in range(self._random.randint(*_RECORDS)))
