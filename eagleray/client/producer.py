"""The asyncio producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Self

from eagleray.broker.identities import TopicPartition
from eagleray.client.batches import Delivery, PreparedRecords
from eagleray.client.calls import pause
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import (
    BufferFull,
    ClientClosed,
    EaglerayError,
    InvalidTransactionState,
    TopicNotFound,
)
from eagleray.client.guarantees import Idempotent, Plain
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sender import Sender
from eagleray.client.transaction_scope import TransactionScope
from eagleray.client.transaction_states import State
from eagleray.client.transactions import Transactions
from eagleray.client.types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    RecordMetadata,
    as_bytes,
    as_group,
    offsets_to_commit,
)
from eagleray.protocol.records import Headers

logger = logging.getLogger(__name__)

HeadersLike = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
OnDelivery = Callable[[RecordMetadata | None, EaglerayError | None], None]


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

    __slots__ = ("__weakref__", "_config", "_guarantee", "_is_closed", "_runtime", "_sender", "_transactions")

    def __init__(self, runtime: ClientRuntime, config: ProducerConfig | None = None) -> None:
        config = config or ProducerConfig()
        self._runtime = runtime
        self._config = config
        self._is_closed = False
        self._sender = Sender(runtime, config)
        self._transactions: Transactions | None = None
        if config.transactional_id is not None:
            self._transactions = Transactions(self._sender, runtime, config)
            self._guarantee: Plain = self._transactions
        elif config.enable_idempotence:
            self._guarantee = Idempotent(self._sender, runtime, config)
        else:
            self._guarantee = Plain(self._sender)
        self._sender.guarantee = self._guarantee

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
        """Take a record; waits while buffer.memory is full or the topic is unknown, up to max.block.ms.

        Text is written as UTF-8. `on_delivery(metadata, error)` is called on the loop when the record has arrived or
        failed.
        """
        if type(value) is not bytes:
            value = as_bytes(value)
        if key is not None and type(key) is not bytes:
            key = as_bytes(key)
        named = _as_headers(headers) if headers else ()
        delivery = self._sender.send(topic, value, key, partition, timestamp_ms, named)
        if delivery is None:
            delivery = await self._send_when_possible((topic, value, key, partition, timestamp_ms, named))
        if on_delivery is not None:
            delivery.add_done_callback(partial(_report, on_delivery))
        return delivery

    def try_send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery | None:
        """Take a record now, or return None where `send` would wait; to be called on the loop."""
        named = _as_headers(headers) if headers else ()
        delivery = self._sender.send(topic, as_bytes(value), as_bytes(key), partition, timestamp_ms, named)
        if delivery is not None and on_delivery is not None:
            delivery.add_done_callback(partial(_report, on_delivery))
        return delivery

    async def send_prepared(self, partition: TopicPartition, records: PreparedRecords) -> Delivery:
        """Take records that are laid out as one batch of a partition already; the delivery is that of the first.

        Waits for room in buffer.memory, up to max.block.ms. The partition has to exist.
        """
        deadline_ms = self._runtime.now_ms() + self._config.max_block_ms
        while (batch := self._sender.send_prepared(partition, records)) is None:
            left_ms = deadline_ms - self._runtime.now_ms()
            if left_ms <= 0:
                raise self._cannot_take(partition.topic, partition.partition, is_known=True)
            await self._room(left_ms)
        return Delivery(batch, 0, self._runtime.wall_ms())

    async def _send_when_possible(self, fields: tuple[Any, ...]) -> Delivery:
        topic, partition = fields[0], fields[3]
        deadline_ms = self._runtime.now_ms() + self._config.max_block_ms
        while True:
            left_ms = deadline_ms - self._runtime.now_ms()
            partitions = await self._runtime.view.find_topic(topic, left_ms)
            delivery = self._sender.send(*fields)
            if delivery is not None:
                return delivery
            is_known = partition is None or 0 <= partition < len(partitions)
            if left_ms <= 0:
                raise self._cannot_take(topic, partition, is_known=is_known)
            if is_known:
                await self._room(left_ms)
            else:
                await self._runtime.view.refreshed()

    def _cannot_take(self, topic: str, partition: int | None, *, is_known: bool) -> EaglerayError:
        if not is_known:
            return TopicNotFound(f"topic {topic!r} has no partition {partition}.")
        config, used = self._config, self._sender.buffered_bytes
        return BufferFull(
            f"{used} of {config.buffer_memory} bytes of buffer.memory were in use for {config.max_block_ms} ms."
        )

    async def _room(self, max_ms: int) -> None:
        """Wait until some batch is done."""
        done = self._runtime.loop.create_future()

        def wake() -> None:
            if not done.done():
                done.set_result(None)

        self._sender.room_waiters.append(wake)
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
        waiting = self._sender.unresolved_batches()
        if not waiting:
            return
        done = self._runtime.loop.create_future()
        left = len(waiting)

        def one_done() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not done.done():
                done.set_result(None)

        for batch in waiting:
            batch.when_done(one_done)
        self._sender.flush()
        await done

    # Transactions

    async def init(self) -> None:
        """Get this producer's identity; what a predecessor left open is aborted, and the predecessor fenced."""
        await self._finished(self._in_transactions("init").init)

    def begin(self) -> None:
        """Begin a transaction."""
        self._in_transactions("begin a transaction").begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets, those of the next records to read, with the transaction."""
        transactions = self._in_transactions("send offsets")
        if not offsets:
            return
        wanted = offsets_to_commit(offsets)
        await self._finished(partial(transactions.send_offsets, wanted, as_group(group)))

    async def commit(self) -> None:
        """Commit: every record and every offset of the transaction becomes visible, or none of them.

        Waits for what was sent to be acknowledged. Who gives up waiting may call it again; the outcome is the same.
        """
        transactions = self._transactions
        if transactions is None:
            raise self._without_transactions("commit")
        done = self._runtime.loop.create_future()
        transactions.end(partial(_settle, done), commit=True)
        await done

    async def abort(self) -> None:
        """Abort: nothing of the transaction ever becomes visible to those who read committed records."""
        await self._finished(partial(self._in_transactions("abort").end, commit=False))

    def transaction(self) -> TransactionScope:
        """Return a context that begins, then commits at its end, or aborts where its block raises.

        async with producer.transaction():
            await producer.send("orders", b"...")
        """
        return TransactionScope(self)

    def _in_transactions(self, wanted: str) -> Transactions:
        if self._transactions is None:
            raise self._without_transactions(wanted)
        return self._transactions

    def _without_transactions(self, wanted: str) -> InvalidTransactionState:
        return InvalidTransactionState(f"cannot {wanted}: the producer was made without a transactional.id.")

    async def _finished(self, start: Callable[[Callable[[EaglerayError | None], None]], None]) -> None:
        done: asyncio.Future[None] = self._runtime.loop.create_future()
        start(partial(_settle, done))
        await done

    # Life

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Abort an open transaction, wait for records to arrive, and take no more; repeating it does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._within(timeout_ms, self._last_words())
        self.abandon()

    def abandon(self) -> None:
        """Take nothing more and fail what is on its way, without a word to anybody in the cluster."""
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


def _as_headers(headers: HeadersLike) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, as_bytes(value)) for name, value in pairs)


def _settle(done: asyncio.Future[None], error: EaglerayError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _report(on_delivery: OnDelivery, delivery: Delivery) -> None:
    error = delivery.exception()
    on_delivery(None if error is not None else delivery.result(), error)
