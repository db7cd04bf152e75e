"""The blocking producer: the asyncio one, on a loop in the background."""

from __future__ import annotations

import concurrent.futures
import threading
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.client.accumulator import RECORD_OVERHEAD_BYTES
from eagleray.client.batches import Delivery
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import AbortableError, BufferFull, ClientClosed, EaglerayError, ForkedClient
from eagleray.client.loop_thread import LoopThread
from eagleray.client.producer import AsyncProducer, HeadersLike, OnDelivery, logger
from eagleray.client.transaction_states import State
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, as_bytes

Result = TypeVar("Result")
DeliveryFuture = concurrent.futures.Future[RecordMetadata]


class _Handed(msgspec.Struct, gc=False):
    """A record between the thread that sends it and the loop."""

    topic: str
    value: bytes | None
    options: dict[str, Any]
    future: DeliveryFuture
    size_bytes: int


class Producer:
    """Writes records, in transactions where it has a transactional id; for threads.

        with cluster.producer(transactional_id="billing-1") as producer:
            with producer.transaction():
                future = producer.send("invoices", b"...", key=b"customer-7")
                producer.send_offsets({TopicPartition("orders", 0): 42}, "billing")
            print(future.result().offset)

    `send` hands the record over without waiting for the loop, and wakes it once for many records; it blocks, up to
    max.block.ms, only while buffer.memory is full of records that were handed over. Every other call waits until the
    loop has taken what was sent before. May be used by several threads, as long as they agree about transactions.
    """

    def __init__(self, thread: LoopThread, producer: AsyncProducer, config: ProducerConfig) -> None:
        self._thread = thread
        self._producer = producer
        self._config = config
        self._handed: deque[_Handed] = deque()
        self._has_room = threading.Condition()
        self._handed_bytes = 0
        self._is_awake = False
        self._is_blocked = False
        self._when_taken: list[Callable[[], None]] = []
        self._is_closed = False
        self._is_abandoned = False
        thread.host(self)

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
        on_delivery: OnDelivery | None = None,
    ) -> DeliveryFuture:
        """Take a record and return a future of its place in the log. `on_delivery` is called on the loop's thread."""
        if self._is_closed:
            raise ClientClosed("the producer was closed.")
        content, name = as_bytes(value), as_bytes(key)
        options = {
            "key": name,
            "partition": partition,
            "timestamp_ms": timestamp_ms,
            "headers": headers,
            "on_delivery": on_delivery,
        }
        size_bytes = RECORD_OVERHEAD_BYTES + len(content or b"") + len(name or b"")
        self._take_room(size_bytes)
        future: DeliveryFuture = concurrent.futures.Future()
        self._handed.append(_Handed(topic, content, options, future, size_bytes))
        if self._is_abandoned:
            self._fail_handed()
        elif not self._is_awake:
            self._is_awake = True
            self._thread.call_soon(self._wake)
        return future

    def _take_room(self, size_bytes: int) -> None:
        limit = self._config.buffer_memory
        with self._has_room:
            if self._handed_bytes + size_bytes > limit and self._handed_bytes:
                self._thread.check()
                seconds = self._config.max_block_ms / 1000
                if not self._has_room.wait_for(lambda: self._handed_bytes + size_bytes <= limit, seconds):
                    raise BufferFull(f"{limit} bytes of buffer.memory were in use for {self._config.max_block_ms} ms.")
            self._handed_bytes += size_bytes

    # On the loop's thread

    def _wake(self) -> None:
        self._is_awake = False
        self._take_all()

    def _take_all(self) -> None:
        """Give the producer what was handed over, in order, up to the first record that has to wait."""
        while self._handed and not self._is_blocked:
            record = self._handed.popleft()
            try:
                delivery = self._producer.try_send(record.topic, record.value, **record.options)
            except (EaglerayError, TypeError, ValueError) as error:
                self._refused(record, error)
                continue
            if delivery is not None:
                self._taken(record, delivery)
            else:
                self._is_blocked = True
                self._thread.loop.create_task(self._take_slowly(record))
        if not self._handed and not self._is_blocked:
            waiting, self._when_taken = self._when_taken, []
            for callback in waiting:
                callback()

    async def _take_slowly(self, record: _Handed) -> None:
        try:
            self._taken(record, await self._producer.send(record.topic, record.value, **record.options))
        except EaglerayError as error:
            self._refused(record, error)
        finally:
            if not record.future.done() and self._is_closed:
                record.future.set_exception(ClientClosed("the producer was closed."))
            self._is_blocked = False
            self._take_all()

    def _taken(self, record: _Handed, delivery: Delivery) -> None:
        self._give_room(record.size_bytes)
        delivery.add_done_callback(lambda done: _copy(done, record.future))

    def _refused(self, record: _Handed, error: Exception) -> None:
        self._give_room(record.size_bytes)
        if not record.future.done():
            record.future.set_exception(error)

    def _give_room(self, size_bytes: int) -> None:
        with self._has_room:
            self._handed_bytes -= size_bytes
            self._has_room.notify_all()

    async def _after_sends(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something once everything that was sent before has been taken."""
        try:
            self._take_all()
            if self._handed or self._is_blocked:
                taken = self._thread.loop.create_future()
                self._when_taken.append(lambda: None if taken.done() else taken.set_result(None))
                await taken
        except BaseException:
            work.close()
            raise
        return await work

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            self._thread.check()
        except BaseException:
            work.close()
            raise
        return self._thread.run(self._after_sends(work))

    # Transactions

    @property
    def state(self) -> State | None:
        """Where the producer's transaction is; None for a producer without transactions."""
        return self._producer.state

    def init(self) -> None:
        """Get this producer's identity; what a predecessor left open is aborted, and the predecessor fenced."""
        self._run(self._producer.init())

    def begin(self) -> None:
        """Begin a transaction; initializes the producer where that has not been done."""
        self._run(self._begin())

    async def _begin(self) -> None:
        if self._producer.state is State.UNINITIALIZED:
            await self._producer.init()
        self._producer.begin()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets, those of the next records to read, with the transaction."""
        self._run(self._producer.send_offsets(offsets, group))

    def commit(self) -> None:
        """Commit: every record and every offset of the transaction becomes visible, or none of them."""
        self._run(self._producer.commit())

    def abort(self) -> None:
        """Abort: nothing of the transaction ever becomes visible to those who read committed records."""
        self._run(self._producer.abort())

    @contextmanager
    def transaction(self) -> Generator[Self, None, None]:
        """Begin; commit at the end of the block, or abort where it raises, and let what it raised go through."""
        self.begin()
        try:
            yield self
        except BaseException:
            self._abort_quietly()
            raise
        try:
            self.commit()
        except AbortableError:
            self._abort_quietly()
            raise

    def _abort_quietly(self) -> None:
        if self._producer.state in (State.OPEN, State.FAILED):
            try:
                self.abort()
            except EaglerayError as error:
                logger.warning("aborting a transaction whose block has raised: %s", error)

    def flush(self) -> None:
        """Send what lingers and wait until everything sent so far has arrived or failed; futures say which."""
        self._run(self._producer.flush())

    # Life

    def close(self, timeout_ms: int = 30_000) -> None:
        """Abort an open transaction, wait for records to arrive, and take no more; repeating it does nothing."""
        if not self._is_closed:
            self._is_closed = True
            # Where the loop is gone there is nothing left to close.
            with suppress(ClientClosed, ForkedClient):
                self._run(self._producer.close(timeout_ms))

    def abandon(self) -> None:
        """Fail what was handed over and what is on its way; the loop is ending."""
        self._is_closed = self._is_abandoned = True
        self._producer.abandon()
        self._fail_handed()

    def _fail_handed(self) -> None:
        while self._handed:
            self._refused(self._handed.popleft(), ClientClosed("the client's loop was closed."))

    def __enter__(self) -> Self:
        if self._config.transactional_id is not None:
            self.init()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_closed:
            warnings.warn("a Producer was dropped without close(); what it held may be lost", ResourceWarning, 2)


def _copy(delivery: Delivery, future: DeliveryFuture) -> None:
    if future.done() or not future.set_running_or_notify_cancel():
        return
    error = delivery.exception()
    if error is None:
        future.set_result(delivery.result())
    else:
        future.set_exception(error)
