"""The blocking producer: the asyncio one, on a loop in the background."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from eagleray.broker.identities import TopicPartition
from eagleray.client.config import ProducerConfig
from eagleray.client.errors import AbortableError, ClientClosed, ForkedClient
from eagleray.client.loop_thread import LoopThread
from eagleray.client.producer.blocking_send import BlockingSender
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.resolver import Resolver
from eagleray.client.producer.transaction_states import State
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata

Result = TypeVar("Result")


class Producer(BlockingSender):
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
        super().__init__(thread, producer.sender, config)
        self._producer = producer
        self._is_closed = False
        thread.host(self)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._thread.run(work)

    # Transactions

    @property
    def state(self) -> State | None:
        """Where the producer's transaction is; None for a producer without transactions."""
        return self._producer.state

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction that this producer has to end: what a crash has left, or what it has prepared.

        While there is one no other begins: see `complete`. It is known once the producer is initialized.
        """
        return self._producer.prepared

    def init(self) -> None:
        """Get this producer's identity; what a predecessor left open is aborted, and the predecessor fenced.

        With transaction.two.phase.commit.enable what a predecessor has left prepared stays, as `prepared`.
        """
        self._run(self._producer.init())

    def begin(self, *, resolver: Resolver | None = None) -> None:
        """Begin a transaction; initializes the producer where that has not been done."""
        self._run(self._begin(resolver))

    async def _begin(self, resolver: Resolver | None) -> None:
        if self._producer.state is State.UNINITIALIZED:
            await self._producer.init()
        self._producer.begin(resolver=resolver)

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

    def prepare(self, *, context: bytes = b"") -> PreparedTransaction:
        """Prepare: from here on the transaction is whole, takes no more, and has no timeout; it waits for its outcome.

        Waits until every record and every offset of it is acknowledged; raises where one was not, and then it can only
        be aborted. `commit`, `abort` or `complete` end it, in this producer or in the next of its transactional id, or
        `cluster.complete` with what this returns. Neither an exception nor `close` nor a crash does. `context` is kept
        with it for those who find it later. Needs transaction.two.phase.commit.enable, or a resolver.
        """
        return self._run(self._producer.prepare(context=context))

    def complete(self, prepared: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is this one, and abort it otherwise; return whether it was committed.

        For a producer that begins where a crash has left something prepared: it takes the token that the other system
        has stored, or None where that has stored none.
        """
        return self._run(self._producer.complete(prepared))

    @contextmanager
    def transaction(self, *, resolver: Resolver | None = None) -> Generator[Self, None, None]:
        """Begin; commit at the end of the block, or abort where it raises, and let what it raised go through.

        Once the transaction is prepared, an exception leaves it prepared. A resolver is asked then how it has to end,
        if this producer does not end it.
        """
        self.begin(resolver=resolver)
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

    # Incarnation

    def close(self, timeout_ms: int = 30_000) -> None:
        """Abort an open transaction, wait for records to arrive, and take no more; repeating it does nothing.

        A transaction that is prepared stays so.
        """
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
