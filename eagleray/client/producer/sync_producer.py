"""The blocking producer: the asyncio one, on a loop in the background."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import AbortableError, ClientClosed, ForkedClient
from eagleray.client.loop_thread import LoopThread
from eagleray.client.producer.accumulator import WaitingSend
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.record_fields import HeadersLike, OnDelivery
from eagleray.client.producer.transaction_states import State
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata

Result = TypeVar("Result")


class Producer:
    """Writes records, in transactions where it has a transactional id; for threads.

        with cluster.producer(transactional_id="billing-1") as producer:
            with producer.transaction():
                delivery = producer.send("invoices", b"...", key=b"customer-7")
                producer.send_offsets({TopicPartition("orders", 0): 42}, "billing")
            print(delivery.result().offset)

    `send` puts the record into a batch in the caller's own thread, and wakes the loop once for many records; it
    blocks, up to max.block.ms, only while buffer.memory is full. Every other call is for all that was sent before.
    May be used by several threads, as long as they agree about transactions.
    """

    def __init__(self, thread: LoopThread, producer: AsyncProducer, config: ProducerConfig) -> None:
        self._thread = thread
        self._producer = producer
        self._sender = producer.sender
        self._take = producer.sender.send
        self._config = config
        self._is_closed = False
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
    ) -> Delivery:
        """Take a record, and return what waits for its place in the log where that is wanted.

        What is wrong with the record itself is raised. A record for a topic that is not known is taken, and fails
        after max.block.ms where there is none. `on_delivery(metadata, error)` is called on the loop's thread.
        """
        try:
            taken = self._take(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if type(taken) is Delivery:
                return taken
        except BaseException as error:
            # An interrupt may come before the sender has begun; what has to wait for room is known to it from there on.
            self._sender.send_failed(error)
            raise
        return self._when_room(taken)

    def _when_room(self, waiting: WaitingSend) -> Delivery:
        """Try to send whenever there is more room, up to max.block.ms."""
        deadline = time.monotonic() + self._config.max_block_ms / 1000
        try:
            while True:
                left_seconds = deadline - time.monotonic()
                if left_seconds <= 0:
                    self._sender.no_room()
                self._thread.check()
                has_room = threading.Event()
                if self._sender.when_room(has_room.set):
                    has_room.wait(left_seconds)
                if type(delivery := self._sender.send_again(waiting)) is Delivery:
                    return delivery
        except BaseException as error:
            self._sender.give_up(waiting, error)
            raise

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._thread.run(work)

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
        try:
            self._run(self._producer.send_offsets(offsets, group))
        except (KeyboardInterrupt, SystemExit):
            # The loop may not even have begun to send them.
            self._sender.send_failed(AbortableError("sending offsets was interrupted."))
            raise

    def commit(self) -> None:
        """Commit: every record and every offset of the transaction becomes visible, or none of them.

        Where a send has failed, whether the application caught that or not, or still waits for room, it aborts, and
        raises the first such error.
        """
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
        except BaseException as raised:
            # The loop may be gone, and what the block raised is what the application has to see.
            with suppress(ClientClosed, ForkedClient):
                self._run(self._producer.abort_because(raised))
            raise
        self.commit()

    def flush(self) -> None:
        """Send what lingers and wait until everything sent so far has arrived or failed; deliveries say which."""
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
        """Fail what is on its way, and take no more; the loop is ending."""
        self._is_closed = True
        self._producer.abandon()

    def forked(self, error: ForkedClient) -> None:
        """Take no more: the loop is in another process."""
        self._is_closed = True
        self._sender.forked(error)

    def __enter__(self) -> Self:
        if self._config.transactional_id is not None:
            self.init()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_closed:
            warnings.warn("a Producer was dropped without close(); what it held may be lost", ResourceWarning, 2)
