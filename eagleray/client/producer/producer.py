"""The asyncio producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Self

from eagleray.broker.identities import TopicPartition
from eagleray.client import validation
from eagleray.client.calls import pause
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    ClientClosed,
    EaglerayError,
    InvalidTransactionState,
)
from eagleray.client.producer.accumulator import WaitingSend
from eagleray.client.producer.batches import Delivery, PreparedRecords
from eagleray.client.producer.delivery_guarantee import DeliveryGuarantee, Idempotent
from eagleray.client.producer.record_fields import HeadersLike, OnDelivery
from eagleray.client.producer.sender import Sender
from eagleray.client.producer.transaction_manager import TransactionManager
from eagleray.client.producer.transaction_scope import TransactionScope
from eagleray.client.producer.transaction_states import State
from eagleray.client.runtime import ClientRuntime
from eagleray.client.types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    RecordMetadata,
    offsets_to_commit,
)

logger = logging.getLogger(__name__)


class AsyncProducer:
    """Writes records, in transactions where it has a transactional id.

    `send` is awaited for backpressure only: it returns as soon as the record is in the producer's buffer. What it
    returns can be awaited for the record's place in the log, or left alone:

        async with cluster.producer(transactional_id="billing-1") as producer:
            async with producer.transaction():
                delivery = await producer.send("invoices", b"...", key=b"customer-7")
                await producer.send_offsets({TopicPartition("orders", 0): 42}, "billing")
            print((await delivery).offset)

    Owns: what it has not yet got acknowledged, and nothing on disk. On failure: see `eagleray.client.errors` for the
    groups. Made for many: a thousand of these share one loop, one connection to each node and one ticker.
    """

    __slots__ = (
        "__weakref__",
        "_config",
        "_guarantee",
        "_is_closed",
        "_refused_commit",
        "_runtime",
        "_sender",
        "_transactions",
    )

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig | None = None) -> None:
        config = config or ProducerConfig()
        self._runtime = runtime
        self._config = config
        self._is_closed = False
        self._refused_commit: Exception | None = None
        """Why the last commit aborted its transaction instead, until the next one begins."""

        self._sender = Sender(runtime, config)
        self._transactions: TransactionManager | None = None
        if config.transactional_id is not None:
            self._transactions = TransactionManager(self._sender, runtime, config)
            self._guarantee: DeliveryGuarantee = self._transactions
        elif config.enable_idempotence:
            self._guarantee = Idempotent(self._sender, runtime, config)
        else:
            self._guarantee = DeliveryGuarantee(self._sender)
        self._sender.guarantee = self._guarantee

    @property
    def sender(self) -> Sender:
        """What takes the records, for those who send from other threads."""
        return self._sender

    @property
    def transactional_id(self) -> str | None:
        """The name of this producer's transactions, if it has one."""
        return self._config.transactional_id

    @property
    def state(self) -> State | None:
        """Where the producer's transaction is; None for a producer without transactions."""
        return None if self._transactions is None else self._transactions.state

    # Records

    async def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record; waits while buffer.memory is full, up to max.block.ms.

        Text is written as UTF-8. `on_delivery(metadata, error)` is called on the loop when the record has arrived or
        failed. A record for a topic that is not known is taken, and fails after max.block.ms where there is none.
        """
        taken = self._sender.send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        if type(taken) is Delivery:
            return taken
        return await self._when_room(taken)

    async def send_prepared(self, partition: TopicPartition, records: PreparedRecords) -> Delivery:
        """Take records that are laid out as one batch of a partition already; the delivery is that of the first.

        Waits for room in buffer.memory, up to max.block.ms. The partition has to exist.
        """
        taken = self._sender.send_prepared(partition, records)
        if type(taken) is Delivery:
            return taken
        return await self._when_room(taken)

    async def _when_room(self, waiting: WaitingSend) -> Delivery:
        """Try to send whenever there is more room, up to max.block.ms."""
        deadline_ms = self._runtime.now_ms() + self._config.max_block_ms
        try:
            while True:
                left_ms = deadline_ms - self._runtime.now_ms()
                if left_ms <= 0:
                    self._sender.no_room()
                await self._room(left_ms)
                if type(delivery := self._sender.send_again(waiting)) is Delivery:
                    return delivery
        except BaseException as error:
            self._sender.give_up(waiting, error)
            raise

    async def _room(self, max_ms: int) -> None:
        """Wait until some batch is done."""
        done = self._runtime.loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        if not self._sender.when_room(wake):
            return
        timer = self._runtime.later(max_ms, wake)
        try:
            await done
        finally:
            timer.cancel()

    async def send_and_wait(self, topic: str, value: bytes | str | None = None, **options: Any) -> RecordMetadata:  # noqa: ANN401
        """Send a record and wait until it is acknowledged; takes what `send` takes."""
        return await (await self.send(topic, value, **options))

    async def flush(self) -> None:
        """Send what lingers and wait until everything sent so far has arrived or failed; deliveries say which."""
        waiting = self._sender.unresolved_endings()
        if not waiting:
            return
        done = self._runtime.loop.create_future()
        left = len(waiting)

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not done.done():
                done.set_result(None)

        for ending in waiting:
            ending.when_done(one_done, is_look=False)
        self._sender.flush()
        await done

    # Transactions

    async def init(self) -> None:
        """Get this producer's identity; what a predecessor left open is aborted, and the predecessor fenced."""
        await self._finished(self._in_transactions("init").init)

    def begin(self) -> None:
        """Begin a transaction."""
        self._in_transactions("begin a transaction").begin()
        self._refused_commit = None

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets, those of the next records to read, with the transaction."""
        transactions = self._in_transactions("send offsets")
        try:
            wanted = offsets_to_commit(validation.offsets_to_commit(offsets))
            if not wanted:
                return
            member = validation.consumer_group(group)
        except Exception as error:
            self._sender.send_failed(error)
            raise
        await self._finished(partial(transactions.send_offsets, wanted, member))

    async def commit(self) -> None:
        """Commit: every record and every offset of the transaction becomes visible, or none of them.

        Waits for what was sent to be acknowledged. Where a send has failed, whether the application caught that or
        not, or still waits for room, it aborts, and raises the first such error. A caller that gives up waiting may
        call it again; the outcome is the same.
        """
        transactions = self._in_transactions("commit")
        if self._has_refused_commit:
            assert self._refused_commit is not None
            raise self._refused_commit
        try:
            await self._finished(partial(transactions.end, commit=True))
        except Exception as error:
            if self.state is State.FAILED:
                self._refused_commit = error
                await self.abort_because(error)
            raise

    @property
    def _has_refused_commit(self) -> bool:
        """Whether the last commit has aborted its transaction instead, and no other has begun."""
        return self._refused_commit is not None and self.state is State.READY

    async def abort(self) -> None:
        """Abort: nothing of the transaction ever becomes visible to those who read committed records.

        A transaction that a failed `commit` has aborted may be aborted once more, as programs for Kafka's clients do.
        """
        transactions = self._in_transactions("abort")
        if not self._has_refused_commit:
            await self._finished(partial(transactions.end, commit=False))

    async def abort_because(self, reason: BaseException) -> None:
        """Abort what can be aborted; the reason is what the application has to see, whatever becomes of that."""
        if self.state is not State.OPEN and self.state is not State.FAILED:
            return
        try:
            await self.abort()
        except EaglerayError as error:
            logger.warning("aborting a transaction after %r: %s", reason, error)

    def transaction(self) -> TransactionScope:
        """Return a context that begins, then commits at its end, or aborts where its block raises.

        async with producer.transaction():
            await producer.send("orders", b"...")
        """
        return TransactionScope(self)

    def _in_transactions(self, wanted: str) -> TransactionManager:
        if self._transactions is None:
            raise self._without_transactions(wanted)
        return self._transactions

    def _without_transactions(self, wanted: str) -> InvalidTransactionState:
        return InvalidTransactionState(f"cannot {wanted}: the producer was made without a transactional.id.")

    async def _finished(self, start: Callable[[Callable[[Exception | None], None]], None]) -> None:
        done: asyncio.Future[None] = self._runtime.loop.create_future()
        start(partial(_settle, done))
        await done

    # Life

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Abort an open transaction, wait for records to arrive, and take no more; repeating it does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._transactions is None:
            self._guarantee.refusal = ClientClosed("the producer was closed.")
        await self._within(timeout_ms, self._last_words())
        self.abandon()

    def abandon(self) -> None:
        """Take nothing more and fail what is on its way, without a word to the cluster."""
        self._is_closed = True
        error = ClientClosed("the producer was closed.")
        if self._transactions is not None:
            self._transactions.close()
        self._guarantee.refusal = error
        self._sender.fail_all(error)

    async def _last_words(self) -> None:
        if self.state is State.OPEN or self.state is State.FAILED:
            await self.abort()
        await self.flush()

    async def _within(self, timeout_ms: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        timer = asyncio.ensure_future(pause(self._runtime, timeout_ms))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            timer.cancel()
            for ended in await asyncio.gather(task, timer, return_exceptions=True):
                if isinstance(ended, EaglerayError):
                    logger.warning("while a producer was being closed: %s", ended)

    async def __aenter__(self) -> Self:
        if self._transactions is not None:
            await self.init()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
