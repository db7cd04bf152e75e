"""The blocking branched transactions: the asyncio ones, on a loop in the background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.client.config import ProducerConfig
from eagleray.client.loop_thread import LoopThread
from eagleray.client.producer.batches import Delivery, PreparedRecords
from eagleray.client.producer.branches import AsyncTransaction, BranchToken, BranchWriter, Remembered, SealedBranch
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.sync_producer import Producer
from eagleray.client.types import ConsumerGroupMetadata, OffsetAndMetadata


class Transaction:
    """A transaction whose branches others write, for threads; see `AsyncTransaction`."""

    def __init__(self, thread: LoopThread, transaction: AsyncTransaction) -> None:
        self._run = thread.run
        self._transaction = transaction

    @property
    def already_committed(self) -> bool:
        """Whether the transaction of this tag was committed before, so that nothing is left to do."""
        return self._transaction.already_committed

    @property
    def owner(self) -> ProducerIdentity:
        """Who has the transactional id while this transaction is open."""
        return self._transaction.owner

    @property
    def remembered(self) -> Remembered | None:
        """What the coordinator had of tags when the transaction began; None where it was not asked."""
        return self._transaction.remembered

    def branch(self, number: int | None = None) -> BranchToken:
        """Return leave to write into another branch, or into the one with this number."""
        return self._transaction.branch(number)

    def commit(
        self,
        sealed: Iterable[SealedBranch] = (),
        *,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        group: str | ConsumerGroupMetadata | None = None,
    ) -> None:
        """Commit exactly these branches, and abort all others."""
        self._run(self._transaction.commit(sealed, offsets=offsets, group=group))

    def prepare(
        self,
        sealed: Iterable[SealedBranch] = (),
        *,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        group: str | ConsumerGroupMetadata | None = None,
        context: bytes = b"",
    ) -> PreparedTransaction:
        """Prepare to commit exactly these branches: no timeout ends the transaction from here on, nor does a crash."""
        return self._run(self._transaction.prepare(sealed, offsets=offsets, group=group, context=context))

    def abort(self) -> None:
        """Abort all branches."""
        self._run(self._transaction.abort())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._run(self._transaction.__aexit__(kind, *raised))


class SyncBranchWriter(Producer):
    """One attempt at one branch, for threads; see `BranchWriter`."""

    def __init__(self, thread: LoopThread, writer: BranchWriter, config: ProducerConfig) -> None:
        super().__init__(thread, writer, config)
        self._writer = writer

    def send_prepared(self, batches: Iterable[tuple[TopicPartition, PreparedRecords]]) -> None:
        """Take records that are laid out as batches of partitions already; `seal` raises what became of them."""

        send = self._sender.send_prepared
        try:
            for partition, records in batches:
                taken = send(partition, records)
                if type(taken) is not Delivery:
                    self._when_room(taken)
        except BaseException as error:
            self._sender.send_failed(error)
            raise

    def seal(self) -> SealedBranch:
        """Wait until everything is acknowledged; raise what was not. Nothing more can be sent once this is called."""
        return self._run(self._writer.seal())
