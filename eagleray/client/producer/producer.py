"""The asyncio producer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Self, Unpack

from eagleray.broker.identities import TopicPartition
from eagleray.client import validation
from eagleray.client.calls import pause
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import ClientClosed, EaglerayError, InvalidTransactionState
from eagleray.client.producer.accumulator import WaitingSend
from eagleray.client.producer.batches import Delivery, PreparedRecords
from eagleray.client.producer.delivery_guarantee import DeliveryGuarantee, Idempotent
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.record_fields import HeadersLike, OnDelivery, SendOptions
from eagleray.client.producer.resolver import Resolver, resolver_name
from eagleray.client.producer.sender import Sender
from eagleray.client.producer.transaction_scope import TransactionScope
from eagleray.client.producer.transaction_states import UNPREPARED, State
from eagleray.client.producer.two_phase import TwoPhaseManager
from eagleray.client.runtime import ClientRuntime, settle
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, offsets_to_commit

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
        self._transactions: TwoPhaseManager | None = None
        if config.transactional_id is not None:
            self._transactions = TwoPhaseManager(self._sender, runtime, config)
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

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction that this producer has to end: what a crash has left, or what it has prepared.

        While there is one no other begins: see `complete`. It is known once the producer is initialized.
        """
        return None if self._transactions is None else self._transactions.prepared

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
        done: asyncio.Future[None] = self._runtime.loop.create_future()
        wake = partial(settle, done, None)
        if not self._sender.when_room(wake):
            return
        timer = self._runtime.later(max_ms, wake)
        try:
            await done
        finally:
            timer.cancel()

    async def send_and_wait(
        self, topic: str, value: bytes | str | None = None, **options: Unpack[SendOptions]
    ) -> RecordMetadata:
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
        """Get this producer's identity; what a predecessor left open is aborted, and the predecessor fenced.

        With transaction.two.phase.commit.enable what a predecessor has left prepared stays, as `prepared`.
        """
        await self._finished(self._in_transactions("init").init)

    def begin(self, *, resolver: Resolver | None = None) -> None:
        """Begin a transaction; see `transaction` for what the resolver is for."""
        transactions = self._in_transactions("begin a transaction")
        transactions.begin(resolver_name(resolver, self._runtime.ray_namespace))
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
        if self._refused_commit is not None and self.state is State.READY:
            raise self._refused_commit
        try:
            await self._finished(partial(transactions.end, commit=True))
        except Exception as error:
            if self.state is State.FAILED:
                self._refused_commit = error
                await self.abort_because(error)
            raise

    async def abort(self) -> None:
        """Abort: nothing of the transaction ever becomes visible to those who read committed records.

        A transaction that a failed `commit` has aborted may be aborted once more, as programs for Kafka's clients do.
        """
        transactions = self._in_transactions("abort")
        if self._refused_commit is None or self.state is not State.READY:
            await self._finished(partial(transactions.end, commit=False))

    async def abort_because(self, reason: BaseException) -> None:
        """Abort what can be aborted; the reason is what the application has to see, whatever becomes of that.

        A prepared transaction stays as it is.
        """
        if self.state not in UNPREPARED:
            return
        try:
            await self.abort()
        except EaglerayError as error:
            logger.warning("aborting a transaction after %r: %s", reason, error)

    async def prepare(self, *, context: bytes = b"") -> PreparedTransaction:
        """Prepare: from here on the transaction is whole, takes no more, and has no timeout; it waits for its outcome.

        Waits until every record and every offset of it is acknowledged; raises where one was not, and then it can only
        be aborted. `commit`, `abort` or `complete` end it, in this producer or in the next of its transactional id, or
        `cluster.complete` with what this returns. Neither an exception nor `close` nor a crash does. `context` is kept
        with it for those who find it later. Needs transaction.two.phase.commit.enable, or a resolver.
        """
        transactions = self._in_two_phases("prepare a transaction")
        await self._finished(partial(transactions.prepare_to_end, validation.context(context)))
        if transactions.prepared is None:
            raise InvalidTransactionState("the transaction was ended by another task while it was being prepared.")
        return transactions.prepared

    async def complete(self, prepared: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is this one, and abort it otherwise; return whether it was committed.

        For a producer that begins where a crash has left something prepared: it takes the token that the other system
        has stored, or None where that has stored none.
        """
        transactions = self._in_two_phases("complete a transaction")
        commit = transactions.is_to_commit(prepared)
        await self._finished(partial(transactions.end, commit=commit))
        return commit

    def transaction(self, *, resolver: Resolver | None = None) -> TransactionScope:
        """Return a context that begins, then commits at its end, or aborts where its block raises.

        Once the transaction is prepared, an exception leaves it prepared. A resolver is asked then how it has to end,
        if this producer does not end it.

        async with producer.transaction():
            await producer.send("orders", b"...")
        """
        return TransactionScope(self, resolver)

    def _in_transactions(self, wanted: str) -> TwoPhaseManager:
        if self._transactions is None:
            raise InvalidTransactionState(f"cannot {wanted}: the producer was made without a transactional.id.")
        return self._transactions

    def _in_two_phases(self, wanted: str) -> TwoPhaseManager:
        transactions = self._in_transactions(wanted)
        if not transactions.takes_part:
            raise InvalidTransactionState(
                f"cannot {wanted}: the producer was made without transaction.two.phase.commit.enable, and its "
                "transaction has no resolver."
            )
        return transactions

    async def _finished(self, start: Callable[[Callable[[Exception | None], None]], None]) -> None:
        done: asyncio.Future[None] = self._runtime.loop.create_future()
        start(partial(_settle, done))
        await done

    # Incarnation

    async def close(self, timeout_ms: int = 30_000) -> None:
        """Abort an open transaction, wait for records to arrive, and take no more; repeating it does nothing.

        A transaction that is prepared stays so.
        """
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
        if self.state in UNPREPARED:
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
