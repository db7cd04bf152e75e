"""Producers, consumers and the admin, behind the names that an application imports.

The asyncio clients are the one implementation: `AsyncCluster` makes them over a `ClientRuntime`, which is what all
clients on one loop share. `SyncCluster` makes the same for threads, on a loop in the background. Nothing here knows how
messages travel: that is behind the `Peers` port.
"""

from eagleray.broker.identities import TopicPartition
from eagleray.client.admin import AsyncAdmin
from eagleray.client.batches import Delivery
from eagleray.client.branches import AsyncTransaction, BranchToken, BranchWriter, SealedBranch
from eagleray.client.cluster import AsyncCluster
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.consumer import AsyncConsumer
from eagleray.client.errors import AbortableError, EaglerayError, FatalError, RefusedError, RetriableError
from eagleray.client.loop_thread import LoopThread
from eagleray.client.ports import Peers
from eagleray.client.producer import AsyncProducer
from eagleray.client.runtime import ClientRuntime
from eagleray.client.sync import Consumer, SyncCluster, Transaction
from eagleray.client.sync_admin import Admin
from eagleray.client.sync_producer import Producer
from eagleray.client.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
)

__all__ = [
    "AbortableError",
    "Admin",
    "AsyncAdmin",
    "AsyncCluster",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncTransaction",
    "BranchToken",
    "BranchWriter",
    "ClientRuntime",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Delivery",
    "EaglerayError",
    "FatalError",
    "LoopThread",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Peers",
    "Producer",
    "ProducerConfig",
    "RecordMetadata",
    "RefusedError",
    "RetriableError",
    "SealedBranch",
    "SyncCluster",
    "TopicPartition",
    "Transaction",
]
