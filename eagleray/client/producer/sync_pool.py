"""The blocking pool of transactions: the asyncio one, on a loop in the background."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from eagleray.broker.identities import TopicPartition
from eagleray.client.errors import AbortableError, ClientClosed, ForkedClient
from eagleray.client.loop_thread import LoopThread
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.blocking_send import BlockingSender
from eagleray.client.producer.pool import AsyncTransactionPool, PooledTransaction
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.record_fields import SendOptions
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata


class TransactionPool:
    """Transactions that are open side by side under one name, for threads; see `AsyncTransactionPool`.

        with cluster.transactions("checkout", concurrency=64) as pool:
            with pool.begin() as txn:
                txn.send("orders", body, key=key)
                txn.send("ledger", entry, key=key)

    May be used by any number of threads, each with transactions of its own.
    """

    def __init__(self, thread: LoopThread, pool: AsyncTransactionPool) -> None:
        self._thread = thread
        self._pool = pool
        thread.host(self)

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self._pool.name

    @property
    def recovered(self) -> tuple[PreparedTransaction, ...]:
        """What earlier owners have left prepared, as it was when the name was taken over."""
        return self._pool.recovered

    def begin(self) -> SyncPooledTransaction:
        """Return a transaction, which begins when its block is entered: `with pool.begin() as txn:`.

        That waits up to max.block.ms while as many are open as the pool may have, and raises PoolBusy then.
        """
        return SyncPooledTransaction(self._thread, self._pool)

    def close(self, timeout_ms: int = 30_000) -> None:
        """Abort what is open and not prepared, and begin nothing more; repeating it does nothing."""
        # Where the loop is gone there is nothing left to close.
        with suppress(ClientClosed, ForkedClient):
            self._thread.run(self._pool.close(timeout_ms))

    def abandon(self) -> None:
        """Fail what is open, and begin nothing more; the loop is ending."""
        self._pool.abandon()

    def forked(self, error: ForkedClient) -> None:
        """Take no more: the loop is in another process."""
        self._pool.forked(error)

    def __enter__(self) -> Self:
        self._thread.run(self._pool.take_over())
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class SyncPooledTransaction:
    """One transaction of a pool, for threads; see `PooledTransaction`."""

    __slots__ = ("_pool", "_sender", "_thread", "_transaction")

    def __init__(self, thread: LoopThread, pool: AsyncTransactionPool) -> None:
        self._thread = thread
        self._pool = pool
        self._transaction: PooledTransaction = pool.begin()
        self._sender: BlockingSender | None = None

    def send(self, topic: str, value: bytes | str | None = None, **options: Unpack[SendOptions]) -> Delivery:
        """Take a record; takes what the `send` of a producer takes, and waits for room as that does."""
        producer = self._transaction.producer
        if self._sender is None:
            self._sender = BlockingSender(self._thread, producer.sender, self._pool.config)
        return self._sender.send(topic, value, **options)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: str | ConsumerGroupMetadata
    ) -> None:
        """Commit a group's offsets, those of the next records to read, with the transaction.

        Raises OffsetsInUse where another transaction of the pool holds offsets of the same group and partition and has
        not ended. This one can only be aborted then.
        """
        producer = self._transaction.producer
        try:
            self._thread.run(self._transaction.send_offsets(offsets, group))
        except (KeyboardInterrupt, SystemExit):
            # The loop may not even have begun to send them.
            producer.sender.send_failed(AbortableError("sending offsets was interrupted."))
            raise

    def prepare(self, *, context: bytes = b"") -> PreparedTransaction:
        """Prepare: from here on it is whole, takes no more, and has no timeout; see `Producer.prepare`."""
        return self._thread.run(self._transaction.prepare(context=context))

    def commit(self) -> None:
        """Commit: every record and every offset of the transaction becomes visible, or none of them."""
        self._thread.run(self._transaction.commit())

    def abort(self) -> None:
        """Abort: nothing of the transaction ever becomes visible to those who read committed records."""
        self._thread.run(self._transaction.abort())

    def __enter__(self) -> Self:
        try:
            self._thread.run(self._transaction.__aenter__())
        except (KeyboardInterrupt, SystemExit) as interrupt:
            # It may have begun all the same, and no block will end it.
            self.__exit__(type(interrupt), interrupt, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        if raised is None:
            self._thread.run(self._transaction.__aexit__(None, None, None))
            return
        # The loop may be gone, and what the block raised is what the application has to see.
        with suppress(ClientClosed, ForkedClient):
            self._thread.run(self._transaction.__aexit__(kind, raised, trace))
