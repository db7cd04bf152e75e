"""The blocking cluster: the asyncio one, on a loop in the background."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, Unpack, get_args

from eagleray.broker.controller.image import EMPTY_IMAGE, MetadataImage
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Isolation
from eagleray.client.admin.sync_admin import Admin
from eagleray.client.cluster import AsyncCluster, consumer_config
from eagleray.client.config import ProducerConfig, check_choice
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.consumer.scan import scan
from eagleray.client.consumer.sync_consumer import Consumer
from eagleray.client.loop_thread import LoopThread
from eagleray.client.ports import Peers
from eagleray.client.producer.branches import BranchToken
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.sync_branches import SyncBranchWriter, Transaction
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

    def begin(self, transactional_id: str, *, tag: str, timeout_ms: int = 60_000, shared: bool = False) -> Transaction:
        """Begin a transaction with branches that others write; with `shared`, take part in that of the same tag."""
        begin = self._cluster.begin(transactional_id, tag=tag, timeout_ms=timeout_ms, shared=shared)
        return Transaction(self._thread, self._thread.run(begin))

    def join(
        self, token: BranchToken, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerSettings]
    ) -> SyncBranchWriter:
        """Begin an attempt at the branch of a token: `with cluster.join(token) as writer:`."""
        made = ProducerConfig.make(config, **settings)
        return SyncBranchWriter(self._thread, self._thread.run(self._cluster.join(token, config, **settings)), made)

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

        The first and the last batch may reach beyond the range: who decodes them leaves out what is not in it.
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
