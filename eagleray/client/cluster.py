"""A cluster as an application on an event loop sees it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.transactions.origin import Origin
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.producer import branches, completing
from eagleray.client.producer.branches import AsyncTransaction, BranchToken, BranchWriter
from eagleray.client.producer.pool import AsyncTransactionPool
from eagleray.client.producer.prepared import PreparedTransaction
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.resolver import Resolver
from eagleray.client.runtime import ClientRuntime
from eagleray.client.settings import ConsumerSettings, ProducerSettings

SHORT_NAMES = {"group": "group_id", "isolation": "isolation_level"}


def consumer_config(config: Mapping[str, Any] | None, settings: ConsumerSettings) -> ConsumerConfig:
    """Make a consumer's config, with the short names that `consumer` takes beside Kafka's."""
    return ConsumerConfig.make(config, **{SHORT_NAMES.get(name, name): value for name, value in settings.items()})


class AsyncCluster:
    """Makes producers, consumers, the admin and branched transactions, all on one loop.

    Owns: the runtime that they share. Closing it lets consumers leave their groups and stops the ticker; each client is
    closed on its own before that.
    """

    def __init__(self, runtime: ClientRuntime) -> None:
        self.runtime = runtime
        self._consumers: weakref.WeakSet[AsyncConsumer] = weakref.WeakSet()

    def producer(self, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerSettings]) -> AsyncProducer:
        """Make a producer: `cluster.producer(transactional_id="billing-1", linger_ms=5)`."""
        return AsyncProducer(self.runtime, ProducerConfig.make(config, **settings))

    def consumer(
        self, *topics: str, config: Mapping[str, Any] | None = None, **settings: Unpack[ConsumerSettings]
    ) -> AsyncConsumer:
        """Make a consumer of topics, in a group or of all partitions: `cluster.consumer("orders", group="audit")`."""
        return self.make_consumer(consumer_config(config, settings), topics)

    def make_consumer(self, config: ConsumerConfig, topics: Iterable[str]) -> AsyncConsumer:
        """Make a consumer that leaves its group when the cluster is closed, if it is still in it."""
        consumer = AsyncConsumer(self.runtime, config, topics)
        self._consumers.add(consumer)
        return consumer

    @property
    def admin(self) -> AsyncAdmin:
        """The admin of this cluster: `await cluster.admin.create_topic("orders", partitions=8)`."""
        return AsyncAdmin(self.runtime)

    async def begin(
        self,
        transactional_id: str,
        *,
        tag: str,
        timeout_ms: int = 60_000,
        shared: bool = False,
        resolver: Resolver | None = None,
        begins_anew: bool = False,
    ) -> AsyncTransaction:
        """Begin a transaction with branches; see `branches.begin` for what `shared` and `begins_anew` mean."""
        return await branches.begin(
            self.runtime,
            transactional_id,
            tag=tag,
            timeout_ms=timeout_ms,
            shared=shared,
            resolver=resolver,
            begins_anew=begins_anew,
        )

    async def join(
        self, token: BranchToken, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerSettings]
    ) -> BranchWriter:
        """Begin an attempt at the branch of a token."""
        return await branches.join(self.runtime, token, ProducerConfig.make(config, **settings))

    async def take_part(
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
    ) -> tuple[AsyncTransaction, BranchWriter | None]:
        """Begin with `shared` and join a branch, by one question; there is no writer where the tag is committed.

        `origin` is what `admin.blocking` shows of the program, where that is not what it knows of itself.
        """
        made = ProducerConfig.make(config, **settings)
        return await branches.take_part(
            self.runtime,
            transactional_id,
            tag=tag,
            branch=branch,
            timeout_ms=timeout_ms,
            config=made,
            origin=origin,
            begins_anew=begins_anew,
        )

    def resume(self, transactional_id: str, *, tag: str, owner: ProducerIdentity) -> AsyncTransaction:
        """Return a transaction that workers have begun, for the driver that ends it; this asks nothing."""
        return AsyncTransaction(self.runtime, transactional_id, tag, owner)

    def transactions(
        self,
        name: str,
        *,
        concurrency: int = 16,
        resolver: Resolver | None = None,
        config: Mapping[str, Any] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> AsyncTransactionPool:
        """Make a pool of transactions that are open side by side under one name, `concurrency` of them at most.

        `async with cluster.transactions("checkout", concurrency=64) as pool:` takes the name over. A resolver is asked
        how a transaction has to end that was prepared, and that the pool does not end.
        """
        return AsyncTransactionPool(
            self.runtime, name, concurrency=concurrency, resolver=resolver, config=config, **settings
        )

    async def complete(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commit or abort a prepared transaction by its token; its producer can do nothing more in it.

        Repeating it changes nothing. Raises CompletedOtherwise where it has ended the other way, and
        TransactionNotFound where its coordinator no longer remembers it: it does until the next one that is prepared
        under the same transactional id has ended.
        """
        await completing.complete(self.runtime, prepared, commit=commit)

    async def close(self) -> None:
        """Let consumers leave their groups, and stop what the clients share."""
        await asyncio.gather(*(consumer.close_ends() for consumer in list(self._consumers)))
        self.runtime.close()
        self.runtime.view.close()
