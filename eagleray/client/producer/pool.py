"""A pool: transactions that are open side by side under one name."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, Unpack

from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.descriptions import TransactionDescription
from eagleray.broker.transactions.events import PoolReply, TakePoolOver
from eagleray.broker.transactions.pools.names import slot_of
from eagleray.client import validation
from eagleray.client.calls import Question, call_with_retries, error_in
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    EaglerayError,
    FatalError,
    ForkedClient,
    InvalidConfig,
    InvalidTransactionState,
    NotCompleted,
    PoolBusy,
    PoolFenced,
)
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.pool_offsets import PoolOffsets
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.record_fields import SendOptions
from eagleray.client.producer.resolver import Resolver, resolver_name
from eagleray.client.producer.slots import PoolOwnership, SlotProducer, slot_config
from eagleray.client.producer.transaction_states import State
from eagleray.client.retry_policy import RetryPolicy
from eagleray.client.runtime import ClientRuntime
from eagleray.client.settings import ProducerSettings
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_commit
from eagleray.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

_OVER: Final = (State.READY, State.PREPARED, State.DEAD)
"""Where the producer of a slot has nothing under way."""

MOST_TRANSACTIONS: Final = 10_000


class AsyncTransactionPool:
    """Transactions that are open side by side under one name, each committed or aborted on its own.

        async with cluster.transactions("checkout", concurrency=64) as pool:
            async with pool.begin() as txn:
                await txn.send("orders", body, key=key)
                await txn.send("ledger", entry, key=key)

    Entering takes the name over: the pool that had it is fenced, and what that has left open is aborted. What it has
    left prepared is `recovered`, for `cluster.complete` or its resolver to end; the pool goes on beside it.

    Owns: the producers of its slots, and nothing on disk. On failure: a transaction fails alone; where another program
    takes the name over, all of them raise PoolFenced. For one event loop; it may have any number of tasks.
    """

    def __init__(
        self,
        runtime: ClientRuntime,
        name: str,
        *,
        concurrency: int = 16,
        resolver: Resolver | None = None,
        config: Mapping[str, Any] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self.name = validation.pool_name(name)
        self.concurrency = validation.integer("concurrency", concurrency, 1, MOST_TRANSACTIONS)
        self.config = _config(self.name, config, settings)
        self.resolver = resolver_name(resolver, runtime.ray_namespace)
        self.recovered: tuple[PreparedTransaction, ...] = ()
        """What earlier owners have left prepared, as it was when the name was taken over."""

        self.offsets = PoolOffsets(runtime)
        self._runtime = runtime
        self._ownership: PoolOwnership | None = None
        self._room = asyncio.Semaphore(self.concurrency)
        self._producers: set[SlotProducer] = set()
        self._idle: list[SlotProducer] = []
        self._numbers = _SlotNumbers(self.concurrency)
        self._settling: set[asyncio.Task[None]] = set()

    # Its whole life

    async def take_over(self) -> None:
        """Take the name over; the block of the pool does this."""
        if self._ownership is not None:
            raise InvalidTransactionState(f"the pool {self.name!r} was entered before; make another one.")
        reply = await call_with_retries(
            self._runtime,
            lambda: self._runtime.view.transaction_coordinator(self.name),
            f"taking the pool {self.name!r} over",
            Question(TakePoolOver, self.name, self.config.transaction_timeout_ms, self._runtime.origin),
            retry_policy=RetryPolicy.of(self.config, self.config.max_block_ms),
            exception_for=_exception_for,
        )
        self._ownership = PoolOwnership(self.name, reply.producer, self._on_lost)
        self._recover(reply.left)

    def _recover(self, left: tuple[TransactionDescription, ...]) -> None:
        self.recovered = tuple(PreparedTransaction(each.transactional_id, each.producer) for each in left)
        self.offsets.recover(left)
        for each in left:
            self._numbers.occupy(each.transactional_id)

    def _on_lost(self, error: PoolFenced) -> None:
        logger.warning("%s", error)
        for producer in list(self._producers):
            producer.tell_lost()

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Abort what is open and not prepared, and begin nothing more; repeating it does nothing."""
        if self._ownership is None or self._ownership.failure is not None:
            self.abandon()
            return
        self._ownership.close()
        if self._settling:
            await asyncio.wait(self._settling, timeout=timeout_ms / 1000)
        await asyncio.gather(*(producer.close(timeout_ms) for producer in list(self._producers)))

    def abandon(self) -> None:
        """Begin nothing more and fail what is open, without a word to the cluster."""
        if self._ownership is not None:
            self._ownership.close()
        for producer in list(self._producers):
            producer.abandon()

    def forked(self, error: ForkedClient) -> None:
        """Take no more: the loop is in another process."""
        for producer in list(self._producers):
            producer.sender.forked(error)

    async def __aenter__(self) -> Self:
        await self.take_over()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    # Transactions

    def begin(self) -> PooledTransaction:
        """Return a transaction, which begins when its block is entered: `async with pool.begin() as txn:`.

        That waits up to max.block.ms while as many are open as the pool may have, and raises PoolBusy then.
        """
        return PooledTransaction(self)

    async def take_slot(self) -> SlotProducer:
        """Wait for a slot in which nothing is open, and begin a transaction in it."""
        self._owned()
        await self._wait_for_room()
        try:
            ownership = self._owned()
            producer = self._idle.pop() if self._idle else await self._another(ownership)
            producer.begin_with(self.resolver)
        except BaseException:
            self._room.release()
            raise
        return producer

    async def _wait_for_room(self) -> None:
        if not self._room.locked():
            await self._room.acquire()
            return
        try:
            async with asyncio.timeout(self.config.max_block_ms / 1000):
                await self._room.acquire()
        except TimeoutError:
            raise PoolBusy(
                f"{self.concurrency} transactions of the pool {self.name!r} are open, and none has ended in "
                f"{self.config.max_block_ms} ms."
            ) from None

    @property
    def failure(self) -> FatalError | None:
        """Why no transaction goes on: another has the name, or the pool was closed; None while they do."""
        return None if self._ownership is None else self._ownership.failure

    def _owned(self) -> PoolOwnership:
        if self._ownership is None:
            raise InvalidTransactionState(f"the pool {self.name!r} does not have its name yet: enter it first.")
        if self._ownership.failure is not None:
            raise self._ownership.failure
        return self._ownership

    async def _another(self, ownership: PoolOwnership) -> SlotProducer:
        """Return the producer of a slot that has none, and is not occupied by something prepared."""
        tried: set[int] = set()
        while True:
            number = self._numbers.take(tried)
            producer = SlotProducer(self._runtime, slot_config(self.config, self.name, number), number, ownership)
            self._producers.add(producer)
            try:
                await producer.init()
            except BaseException as error:
                is_occupied = isinstance(error, EaglerayError) and error.error_code is ErrorCode.INVALID_TXN_STATE
                self._retire(producer, is_occupied=is_occupied)
                if not is_occupied:
                    raise
                tried.add(number)
            else:
                return producer

    def give_back(self, transaction: PooledTransaction, producer: SlotProducer) -> None:
        """Let others have a slot and the offsets of its transaction, once nothing of that is under way."""
        if producer.state in _OVER:
            self._take_back(transaction, producer)
        else:
            task = asyncio.ensure_future(self._settle(transaction, producer))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle(self, transaction: PooledTransaction, producer: SlotProducer) -> None:
        """See to the end of a transaction whose program has given up waiting for it."""
        try:
            if producer.state is State.COMMITTING:
                await producer.commit()
            else:
                await producer.abort()
        except EaglerayError as error:
            logger.warning("ending a transaction of %r: %s", producer.transactional_id, error)
        finally:
            self._take_back(transaction, producer)

    def _take_back(self, transaction: PooledTransaction, producer: SlotProducer) -> None:
        self.offsets.release(transaction, producer.prepared)
        self._room.release()
        if producer.state is State.READY and self._ownership is not None and self._ownership.failure is None:
            self._idle.append(producer)
        else:
            self._retire(producer, is_occupied=producer.prepared is not None)

    def _retire(self, producer: SlotProducer, *, is_occupied: bool) -> None:
        """Have no more to do with the producer of a slot; another one may have its number."""
        self._producers.discard(producer)
        producer.abandon()
        self._numbers.give_back(producer.number, is_occupied=is_occupied)


class PooledTransaction:
    """One transaction of a pool: its block commits at its end, and aborts where it raises.

    Once it is prepared, an exception leaves it prepared; it is ended by `commit`, by `abort`, by its token or by the
    resolver of the pool. It may be ended within its block, and takes nothing more then.
    """

    __slots__ = ("__weakref__", "_ended", "_pool", "_producer")

    def __init__(self, pool: AsyncTransactionPool) -> None:
        self._pool = pool
        self._producer: SlotProducer | None = None
        self._ended: str | None = None
        """How it has ended, in words."""

    @property
    def producer(self) -> SlotProducer:
        """The producer of its slot; raises where there is none before its beginning or after its end."""
        if self._producer is None:
            if self._ended is not None and self._pool.failure is not None:
                raise self._pool.failure
            why = self._ended or "has not begun: enter its block first"
            raise InvalidTransactionState(f"the transaction of the pool {self._pool.name!r} {why}.")
        return self._producer

    async def send(self, topic: str, value: bytes | str | None = None, **options: Unpack[SendOptions]) -> Delivery:
        """Take a record; takes what the `send` of a producer takes, and waits for room as that does."""
        return await self.producer.send(topic, value, **options)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets, those of the next records to read, with the transaction.

        Raises OffsetsInUse where another transaction of the pool holds offsets of the same group and partition and has
        not ended. This one can only be aborted then.
        """
        producer = self.producer
        try:
            wanted = offsets_to_commit(validation.offsets_to_commit(offsets))
            await self._pool.offsets.take(self, validation.consumer_group(group).group_id, wanted)
        except Exception as error:
            producer.sender.send_failed(error)
            raise
        await producer.send_offsets(offsets, group)

    async def prepare(self, *, context: bytes = b"") -> PreparedTransaction:
        """Prepare: from here on it is whole, takes no more, and has no timeout; see `AsyncProducer.prepare`."""
        return await self.producer.prepare(context=context)

    async def commit(self) -> None:
        """Commit: every record and every offset of the transaction becomes visible, or none of them."""
        producer, is_committed = self.producer, False
        try:
            await producer.commit()
            is_committed = True
        finally:
            self._end_where_over("was committed" if is_committed else "could not be committed")

    async def abort(self) -> None:
        """Abort: nothing of the transaction ever becomes visible to those who read committed records."""
        producer = self.producer
        try:
            await producer.abort()
        finally:
            self._end_where_over("was aborted")

    def _end_where_over(self, how: str) -> None:
        # Otherwise the caller has given up waiting, and may call again.
        if self._producer is not None and self._producer.state in (State.READY, State.DEAD):
            self._end(how)

    def _end(self, how: str) -> None:
        producer, self._producer, self._ended = self.producer, None, how
        self._pool.give_back(self, producer)

    async def __aenter__(self) -> Self:
        if self._producer is not None or self._ended is not None:
            raise InvalidTransactionState("a transaction of a pool has one block: begin() another one.")
        self._producer = await self._pool.take_slot()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        producer = self._producer
        if producer is None:
            return
        try:
            if raised is not None:
                await producer.abort_because(raised)
            else:
                await producer.commit()
        finally:
            if self._producer is not None:
                self._end("has ended with its block")


class _SlotNumbers:
    """Which slots have a producer or something prepared, so that another producer takes another slot."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._next = 0
        self._free: list[int] = []
        self._occupied: set[int] = set()
        """Those with something prepared, as far as this program knows; another one may have completed it."""

    def occupy(self, transactional_id: str) -> None:
        """Leave a slot alone in which something prepared was found."""
        slot = slot_of(transactional_id)
        if slot is not None:
            self._occupied.add(slot.number)

    def take(self, tried: set[int]) -> int:
        """Return the number of a slot; beyond the concurrency, first what may have been completed by now."""
        if self._free:
            return heapq.heappop(self._free)
        while self._next in self._occupied:
            self._next += 1
        untried = self._occupied - tried
        if self._next >= self._concurrency and untried:
            number = min(untried)
            self._occupied.discard(number)
            return number
        self._next += 1
        return self._next - 1

    def give_back(self, number: int, *, is_occupied: bool) -> None:
        """Let the number of a slot be taken again."""
        if is_occupied:
            self._occupied.add(number)
        else:
            heapq.heappush(self._free, number)


def _config(name: str, config: Mapping[str, Any] | None, settings: ProducerSettings) -> ProducerConfig:
    given = {key.replace(".", "_") for key in (*(config or ()), *settings)}
    if "transactional_id" in given:
        raise InvalidConfig("transactional.id is not a setting of a pool: its transactions have the name of the pool.")
    return ProducerConfig.make(config, **{**settings, "transactional_id": name})


def _exception_for(error_code: ErrorCode, doing: str, reply: PoolReply) -> EaglerayError:
    if error_code is ErrorCode.INVALID_TXN_STATE:
        return NotCompleted(f"{doing}: a producer has left a prepared transaction under this name.", error_code)
    if error_code is ErrorCode.PRODUCER_FENCED:
        return PoolFenced(f"{doing}: another program has taken it over meanwhile.", error_code)
    return error_in(error_code, doing, reply)
