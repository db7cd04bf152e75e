"""One producer after the other under one transactional id, and what is known about each of its transactions."""

from __future__ import annotations

import asyncio

from eagleray.client.cluster import AsyncCluster
from eagleray.client.errors import AbortableError, EaglerayError, FatalError, ProducerFenced
from eagleray.client.producer.producer import AsyncProducer
from tests.support.history import (
    Begun,
    Ended,
    Ending,
    GroupOffset,
    HistoryWriter,
    Outcome,
    SentRecord,
    TransactionName,
    encode_payload,
)
from tests.torture.settings import TRANSACTION_TIMEOUT_MS

TIMEOUTS = {"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, "request_timeout_ms": 3_000, "max_block_ms": 120_000}
_INCARNATIONS_OF_A_PROCESS = 100_000


class Superseded(Exception):
    """Somebody else has the transactional id now."""


class Producing:
    """Runs transactions under one transactional id and writes down what becomes of them.

    Owns: the producer. It is replaced, as another incarnation, where it can do nothing more. An outcome is written down
    as unknown only where a commit was asked for and neither it nor its refusal was heard of.
    """

    def __init__(self, cluster: AsyncCluster, history: HistoryWriter, transactional_id: str, incarnation: int) -> None:
        self._cluster = cluster
        self._history = history
        self.transactional_id = transactional_id
        self._incarnation = incarnation * _INCARNATIONS_OF_A_PROCESS
        self._number = 0
        self._producer: AsyncProducer | None = None

    async def take_over(self) -> AsyncProducer | None:
        """Begin another incarnation, which fences the last one; return that."""
        last, self._producer = self._producer, None
        self._incarnation += 1
        self._number = 0
        producer = self._cluster.producer(transactional_id=self.transactional_id, **TIMEOUTS)
        await producer.init()
        self._producer = producer
        return last

    def next_name(self) -> TransactionName:
        """Return the name of the next transaction."""
        self._number += 1
        return TransactionName(self.transactional_id, self._incarnation, self._number)

    async def begin(
        self, name: TransactionName, records: tuple[SentRecord, ...], offsets: tuple[GroupOffset, ...] = ()
    ) -> bool:
        """Begin a transaction and send what belongs to it; return whether it may commit."""
        assert self._producer is not None
        self._history.write(Begun(name, records, offsets))
        try:
            self._producer.begin()
            for record in records:
                await self._send(record)
            for group in {each.group for each in offsets}:
                moves = {each.partition: each.offset for each in offsets if each.group == group}
                await self._producer.send_offsets(moves, group)
        except ProducerFenced as error:
            raise Superseded(self.transactional_id) from error
        except AbortableError:
            return False
        return True

    async def _send(self, record: SentRecord) -> None:
        assert self._producer is not None
        # Whether it arrived is seen when the transaction ends.
        await self._producer.send(
            record.partition.topic,
            encode_payload(record.payload),
            key=record.key.encode(),
            partition=record.partition.partition,
        )

    async def commit(self, name: TransactionName) -> bool:
        """Ask for the commit; return whether it was given."""
        assert self._producer is not None
        self._history.write(Ending(name, True))
        try:
            await self._producer.commit()
        except AbortableError as error:
            self._history.write(Ended(name, Outcome.ABORTED, str(error)))
            await self.abort(name)
            return False
        except EaglerayError as error:
            self._history.write(Ended(name, Outcome.UNKNOWN, str(error)))
            raise self._verdict(error) from error
        self._history.write(Ended(name, Outcome.COMMITTED))
        return True

    async def abort(self, name: TransactionName) -> None:
        """Abort; nobody has to write down how that ended, for what was not asked to commit cannot commit."""
        assert self._producer is not None
        try:
            await self._producer.abort()
        except FatalError as error:
            raise self._verdict(error) from error

    def _verdict(self, error: EaglerayError) -> Exception:
        return Superseded(self.transactional_id) if isinstance(error, ProducerFenced) else error

    async def try_as_zombie(self, zombie: AsyncProducer, name: TransactionName) -> None:
        """Let a producer that was taken over from ask for the commit of what it has left open: it must be refused."""
        self._history.write(Ending(name, True))
        try:
            await zombie.commit()
        except (FatalError, AbortableError) as error:
            # All that it had open was decided before its successor got an identity.
            self._history.write(Ended(name, Outcome.ABORTED, str(error)))
        else:
            self._history.write(Ended(name, Outcome.COMMITTED, "by a zombie"))

    async def close(self) -> None:
        """Close the producer, with nothing open."""
        if self._producer is not None:
            await asyncio.wait_for(self._producer.close(), 60)
