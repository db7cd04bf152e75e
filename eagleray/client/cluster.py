"""A cluster as an application on an event loop sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eagleray.client import branches
from eagleray.client.admin import AsyncAdmin
from eagleray.client.branches import AsyncTransaction, BranchToken, BranchWriter
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.consumer import AsyncConsumer
from eagleray.client.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime

_SHORT_NAMES = {"group": "group_id", "isolation": "isolation_level"}


def consumer_config(config: Mapping[str, Any] | None, settings: Mapping[str, object]) -> ConsumerConfig:
    """Make a consumer's config, with the short names that `consumer` takes beside Kafka's."""
    return ConsumerConfig.make(config, **{_SHORT_NAMES.get(name, name): value for name, value in settings.items()})


class AsyncCluster:
    """Makes producers, consumers, the admin and branched transactions, all on one loop.

    Owns: the runtime that they share. Closing it stops the ticker; each client is closed on its own before that.
    """

    def __init__(self, runtime: ClientRuntime) -> None:
        self.runtime = runtime

    def producer(self, config: Mapping[str, Any] | None = None, **settings: object) -> AsyncProducer:
        """Make a producer: `cluster.producer(transactional_id="billing-1", linger_ms=5)`."""
        return AsyncProducer(self.runtime, ProducerConfig.make(config, **settings))

    def consumer(self, *topics: str, config: Mapping[str, Any] | None = None, **settings: object) -> AsyncConsumer:
        """Make a consumer of all partitions of topics: `cluster.consumer("orders", group="audit")`."""
        return AsyncConsumer(self.runtime, consumer_config(config, settings), topics)

    @property
    def admin(self) -> AsyncAdmin:
        """The admin of this cluster: `await cluster.admin.create_topic("orders", partitions=8)`."""
        return AsyncAdmin(self.runtime)

    async def begin(
        self, transactional_id: str, *, tag: str, timeout_ms: int = 60_000, shared: bool = False
    ) -> AsyncTransaction:
        """Begin a transaction with branches that others write; see `branches.begin` for what `shared` means."""
        return await branches.begin(self.runtime, transactional_id, tag=tag, timeout_ms=timeout_ms, shared=shared)

    async def join(
        self, token: BranchToken, config: Mapping[str, Any] | None = None, **settings: object
    ) -> BranchWriter:
        """Begin an attempt at the branch of a token."""
        return await branches.join(self.runtime, token, ProducerConfig.make(config, **settings))

    async def close(self) -> None:
        """Stop what the clients share."""
        self.runtime.close()
        self.runtime.view.close()
