"""The blocking cluster: the asyncio one, on a loop in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, Unpack, get_args

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import Isolation
from eagleray.broker.metadata.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.transactions.origin import Origin
from eagleray.client.admin.sync_admin import Admin
from eagleray.client.cluster import AsyncCluster, consumer_config
from eagleray.client.config import ProducerConfig, check_choice
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.consumer.scan import scan
from eagleray.client.consumer.sync_consumer import Consumer
from eagleray.client.loop_thread import LoopThread
from eagleray.client.ports import Peers
from eagleray.client.producer.branches import BranchToken
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.resolver import Resolver
from eagleray.client.producer.sync_branches import SyncBranchWriter, Transaction
from eagleray.client.producer.sync_pool import TransactionPool
from eagleray.client.producer.sync_producer import Producer
from eagleray.client.runtime import ClientRuntime
from eagleray.client.settings import ConsumerSettings, IsolationLevel, ProducerSettings
from eagleray.protocol.records import RecordBatch


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

    def producer(self, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerSettings]) -> Producer:
        """Make a producer: `cluster.producer(transactional_id="billing-1", linger_ms=5)`."""
        made = ProducerConfig.make(config, **settings)
        return Producer(self._thread, AsyncProducer(self._cluster.runtime, made), made)

    def consumer(
        self, *topics: str, config: Mapping[str, Any] | None = None, **settings: Unpack[ConsumerSettings]
    ) -> Consumer:
        """Make a consumer of topics, in a group or of all partitions: `cluster.consumer("orders", group="audit")`."""
        made = consumer_config(config, settings)

        async def start() -> AsyncConsumer:
            return await self._cluster.make_consumer(made, topics).__aenter__()

        return Consumer(self._thread, self._thread.run(start()))

    @property
    def admin(self) -> Admin:
        """The admin of this cluster: `cluster.admin.create_topic("orders", partitions=8)`."""
        return Admin(self._thread, self._cluster.admin)

    def begin(
        self,
        transactional_id: str,
        *,
        tag: str,
        timeout_ms: int = 60_000,
        shared: bool = False,
        resolver: Resolver | None = None,
        begins_anew: bool = False,
    ) -> Transaction:
        """Begin a transaction with branches that others write; with `shared`, take part in that of the same tag."""
        begin = self._cluster.begin(
            transactional_id,
            tag=tag,
            timeout_ms=timeout_ms,
            shared=shared,
            resolver=resolver,
            begins_anew=begins_anew,
        )
        return Transaction(self._thread, self._thread.run(begin))

    def join(
        self, token: BranchToken, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerSettings]
    ) -> SyncBranchWriter:
        """Begin an attempt at the branch of a token: `with cluster.join(token) as writer:`."""
        made = ProducerConfig.make(config, **settings)
        return SyncBranchWriter(self._thread, self._thread.run(self._cluster.join(token, config, **settings)), made)

    def take_part(
        self,
        transactional_id: str,
        /,
        *,
        tag: str,
        branch: int,
        timeout_ms: int = 60_000,
        config: Mapping[str, Any] | None = None,
        origin: Origin | None = None,
        begins_anew: bool = False,
        **settings: Unpack[ProducerSettings],
    ) -> tuple[Transaction, SyncBranchWriter | None]:
        """Begin with `shared` and join a branch, by one question; there is no writer where the tag is committed."""
        made = ProducerConfig.make(config, **settings)
        transaction, writer = self._thread.run(
            self._cluster.take_part(
                transactional_id,
                tag=tag,
                branch=branch,
                timeout_ms=timeout_ms,
                config=config,
                origin=origin,
                begins_anew=begins_anew,
                **settings,
            )
        )
        return (
            Transaction(self._thread, transaction),
            None if writer is None else SyncBranchWriter(self._thread, writer, made),
        )

    def resume(self, transactional_id: str, *, tag: str, owner: ProducerIdentity) -> Transaction:
        """Return a transaction that workers have begun, for the driver that ends it; this asks nothing."""
        return Transaction(self._thread, self._cluster.resume(transactional_id, tag=tag, owner=owner))

    def transactions(
        self,
        name: str,
        *,
        concurrency: int = 16,
        resolver: Resolver | None = None,
        config: Mapping[str, Any] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> TransactionPool:
        """Make a pool of transactions that are open side by side under one name, `concurrency` of them at most.

        `with cluster.transactions("checkout", concurrency=64) as pool:` takes the name over. A resolver is asked how a
        transaction has to end that was prepared, and that the pool does not end.
        """
        pool = self._cluster.transactions(name, concurrency=concurrency, resolver=resolver, config=config, **settings)
        return TransactionPool(self._thread, pool)

    def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commit or abort a prepared transaction by its token; its producer can do nothing more in it.

        Repeating it changes nothing. Raises CompletedOtherwise where it has ended the other way, and
        TransactionNotFound where its coordinator no longer remembers it: it does until the next one that is prepared
        under the same transactional id has ended.
        """
        self._thread.run(self._cluster.complete(prepared, commit=commit))

    def scan(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: IsolationLevel = "read_committed",
        fetch_bytes: int = 4 * 1024 * 1024,
    ) -> Iterator[list[RecordBatch]]:
        """Yield the visible batches of the offsets from `start` up to `end`, while the next ones are on their way.

        The first and the last batch may reach beyond the range: their reader leaves out what is not in it.
        """
        check_choice("isolation", isolation, get_args(IsolationLevel))
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
