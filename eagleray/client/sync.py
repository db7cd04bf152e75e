"""The blocking consumer, branched transactions and cluster: the asyncio ones, on a loop in the background."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation
from eagleray.client.batches import PreparedRecords
from eagleray.client.branches import AsyncTransaction, BranchToken, BranchWriter, SealedBranch
from eagleray.client.cluster import AsyncCluster, consumer_config
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.consumer import AsyncConsumer
from eagleray.client.errors import ClientClosed, ForkedClient
from eagleray.client.loop_thread import LoopThread
from eagleray.client.ports import Peers
from eagleray.client.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime
from eagleray.client.scanning import scan
from eagleray.client.sync_admin import Admin
from eagleray.client.sync_producer import Producer
from eagleray.client.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from eagleray.protocol.records import RecordBatch

_LONG_POLL_MS = 60_000


class Consumer:
    """Reads partitions, for threads.

        with cluster.consumer("orders", group="audit", isolation="read_committed") as consumer:
            for record in consumer:
                print(record.offset, record.value)
                consumer.commit()

    What `AsyncConsumer` says holds here too. Iterating takes many records over from the loop at once, and counts as
    read only those that were yielded. Not for several threads at once.
    """

    def __init__(self, thread: LoopThread, consumer: AsyncConsumer, config: ConsumerConfig) -> None:
        self._thread = thread
        self._consumer = consumer
        # What is committed by itself must not be ahead of what was yielded.
        self._ahead = 1 if config.enable_auto_commit else config.max_poll_records
        self._taken: deque[ConsumerRecord] = deque()
        self._is_closed = False

    def _call(self, act: Callable[..., Any], *fields: object) -> Any:  # noqa: ANN401 - what the call returns
        async def on_loop() -> object:
            return act(*fields)

        return self._thread.run(on_loop())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others."""
        wanted = tuple(partitions)
        self._taken = deque(record for record in self._taken if record.topic_partition in wanted)
        self._call(self._consumer.assign, wanted)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are read."""
        return self._consumer.assignment()

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as soon as there are some, an empty list where there are none in time."""
        if self._taken:
            taken, self._taken = list(self._taken), deque()
            return taken
        return self._thread.run(self._consumer.poll(timeout_ms, max_records))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records for ever."""
        while True:
            while self._taken:
                yield self._taken.popleft()
            self._taken.extend(self._thread.run(self._consumer.poll(_LONG_POLL_MS, self._ahead)))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go to an offset; the next record of the partition is that one, or the first behind it."""
        self._call(self._consumer.seek, partition, offset)
        self._forget({partition})

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of partitions, or of all."""
        self._call(self._consumer.seek_to_beginning, *partitions)
        self._forget(set(partitions) or self.assignment())

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of partitions, or of all."""
        self._call(self._consumer.seek_to_end, *partitions)
        self._forget(set(partitions) or self.assignment())

    def _forget(self, partitions: set[TopicPartition]) -> None:
        self._taken = deque(record for record in self._taken if record.topic_partition not in partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these partitions until `resume`."""
        for record in reversed(self._taken):
            if record.topic_partition in partitions:
                self._call(self._consumer.seek, record.topic_partition, record.offset)
        self._forget(set(partitions))
        self._call(self._consumer.pause, *partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these partitions where they were."""
        self._call(self._consumer.resume, *partitions)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record of a partition."""
        first = self._not_yet_yielded().get(partition)
        return self._thread.run(self._consumer.position(partition)) if first is None else first

    def _not_yet_yielded(self) -> dict[TopicPartition, int]:
        return {record.topic_partition: record.offset for record in reversed(self._taken)}

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return how far the group has come."""
        return self._thread.run(self._consumer.committed(*partitions))

    def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Have the group keep these offsets, or those behind what was returned."""
        self._thread.run(self._commit(offsets))

    async def _commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None) -> None:
        if offsets is None:
            offsets = {**self._consumer.positions(), **self._not_yet_yielded()}
        await self._consumer.commit(offsets)

    def beginning_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where partitions begin."""
        return self._thread.run(self._consumer.beginning_offsets(*partitions))

    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """Return where the next record would come that this consumer can read."""
        return self._thread.run(self._consumer.end_offsets(*partitions))

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition that is as young as this; None where there is none."""
        return self._thread.run(self._consumer.offsets_for_times(timestamps_ms))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who consumes, for `send_offsets` of a producer."""
        return self._consumer.group_metadata()

    def close(self) -> None:
        """Commit where that is automatic, and read no more; repeating it does nothing."""
        if not self._is_closed:
            self._is_closed = True
            # Where the loop is gone there is nothing left to close.
            with suppress(ClientClosed, ForkedClient):
                self._thread.run(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._is_closed:
            warnings.warn("a Consumer was dropped without close()", ResourceWarning, 2)


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

        async def send() -> None:
            for partition, records in batches:
                await self._writer.send_prepared(partition, records)

        self._run(send())

    def seal(self) -> SealedBranch:
        """Wait until everything is acknowledged; raise what was not. Nothing more can be sent after this."""
        return self._run(self._writer.seal())


class SyncCluster:
    """Makes clients for threads, all on one loop in the background.

    Owns: the thread. Closing it ends the thread; clients that are still open get `ClientClosed` from then on.
    """

    def __init__(self, thread: LoopThread, cluster: AsyncCluster) -> None:
        self._thread = thread
        self._cluster = cluster

    @classmethod
    def connect(cls, peers: Callable[[], Peers], image: MetadataImage = EMPTY_IMAGE, *, name: str = "") -> Self:
        """Start a loop and a runtime on it; `peers` is called on the loop."""
        thread = LoopThread()

        async def make() -> AsyncCluster:
            return AsyncCluster(ClientRuntime(peers(), image, cluster=name))

        return cls(thread, thread.run(make()))

    def producer(self, config: Mapping[str, Any] | None = None, **settings: object) -> Producer:
        """Make a producer: `cluster.producer(transactional_id="billing-1", linger_ms=5)`."""
        made = ProducerConfig.make(config, **settings)
        return Producer(self._thread, AsyncProducer(self._cluster.runtime, made), made)

    def consumer(self, *topics: str, config: Mapping[str, Any] | None = None, **settings: object) -> Consumer:
        """Make a consumer of all partitions of topics: `cluster.consumer("orders", group="audit")`."""
        made = consumer_config(config, settings)

        async def start() -> AsyncConsumer:
            return await AsyncConsumer(self._cluster.runtime, made, topics).__aenter__()

        return Consumer(self._thread, self._thread.run(start()), made)

    @property
    def admin(self) -> Admin:
        """The admin of this cluster: `cluster.admin.create_topic("orders", partitions=8)`."""
        return Admin(self._thread, self._cluster.admin)

    def begin(self, transactional_id: str, *, tag: str, timeout_ms: int = 60_000, shared: bool = False) -> Transaction:
        """Begin a transaction with branches that others write; with `shared`, take part in that of the same tag."""
        begin = self._cluster.begin(transactional_id, tag=tag, timeout_ms=timeout_ms, shared=shared)
        return Transaction(self._thread, self._thread.run(begin))

    def join(self, token: BranchToken, config: Mapping[str, Any] | None = None, **settings: object) -> SyncBranchWriter:
        """Begin an attempt at the branch of a token: `with cluster.join(token) as writer:`."""
        made = ProducerConfig.make(config, **settings)
        return SyncBranchWriter(self._thread, self._thread.run(self._cluster.join(token, config, **settings)), made)

    def scan(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: str = "read_committed",
        fetch_bytes: int = 4 * 1024 * 1024,
    ) -> Iterator[list[RecordBatch]]:
        """Yield the visible batches of the offsets from `start` up to `end`, while the next ones are on their way.

        The first and the last batch may reach beyond the range: who decodes them leaves out what is not in it.
        """
        return scan(
            self._thread, self._cluster.runtime, partition, start, end, Isolation[isolation.upper()], fetch_bytes
        )

    def close(self) -> None:
        """End the loop's thread; repeating it does nothing."""
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
