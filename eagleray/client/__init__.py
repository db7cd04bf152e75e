"""Producers, consumers and the admin, behind the names that an application imports.

The asyncio clients are the one implementation: `AsyncCluster` makes them over a `ClientRuntime`, which is what all
clients on one loop share. `SyncCluster` makes the same for threads, on a loop in the background. Nothing here knows how
messages travel: that is behind the `Peers` port.
"""

from eagleray.broker.controller.events import Reassignment
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import TransactionDescription
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.client.admin.descriptions import (
    GroupOffset,
    HangingTransaction,
    NodeDescription,
    PartitionDescription,
    TopicConfigs,
    TopicDescription,
)
from eagleray.client.admin.sync_admin import Admin
from eagleray.client.cluster import AsyncCluster
from eagleray.client.config import ConsumerConfig, ProducerConfig
from eagleray.client.consumer.consumer import AsyncConsumer
from eagleray.client.consumer.sync_consumer import Consumer
from eagleray.client.errors import AbortableError, EaglerayError, FatalError, RefusedError, RetriableError
from eagleray.client.loop_thread import LoopThread
from eagleray.client.ports import Peers
from eagleray.client.producer.batches import Delivery
from eagleray.client.producer.branches import AsyncTransaction, BranchToken, BranchWriter, SealedBranch
from eagleray.client.producer.producer import AsyncProducer
from eagleray.client.producer.sync_branches import SyncBranchWriter, Transaction
from eagleray.client.producer.sync_producer import Producer
from eagleray.client.runtime import ClientRuntime
from eagleray.client.settings import ConsumerSettings, ProducerSettings
from eagleray.client.sync_cluster import SyncCluster
from eagleray.client.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
)
from eagleray.protocol.records import RecordBatch

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
    "ConsumerSettings",
    "Delivery",
    "EaglerayError",
    "FatalError",
    "GroupOffset",
    "HangingTransaction",
    "LoopThread",
    "NodeDescription",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionDescription",
    "Peers",
    "Producer",
    "ProducerConfig",
    "ProducerIdentity",
    "ProducerSettings",
    "Reassignment",
    "RecordBatch",
    "RecordMetadata",
    "RefusedError",
    "RetriableError",
    "SealedBranch",
    "SyncBranchWriter",
    "SyncCluster",
    "TopicConfigs",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionDescription",
]
