"""Exactly-once streams on the Ray cluster you already have.

    import eagleray

    with eagleray.start(data_dir="data") as cluster:
        cluster.admin.create_topic("orders", partitions=8)
        with cluster.producer(transactional_id="checkout-1") as producer:
            with producer.transaction():
                producer.send("orders", key=b"42", value=b"paid")

`eagleray.aio` has the same for programs on an event loop, `eagleray.errors` what can go wrong; docs/api.md lists all
of it. Names are loaded when they are first used, so that a process that needs one part of the package does not pay for
the rest.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray import aio as aio
    from eagleray import errors as errors
    from eagleray.api import Cluster as Cluster
    from eagleray.api import connect as connect
    from eagleray.api import start as start
    from eagleray.broker.controller.replica_events import Reassignment as Reassignment
    from eagleray.broker.identities import ProducerIdentity as ProducerIdentity
    from eagleray.broker.identities import TopicPartition as TopicPartition
    from eagleray.broker.transactions.descriptions import TransactionDescription as TransactionDescription
    from eagleray.broker.transactions.origin import Origin as Origin
    from eagleray.client.admin.descriptions import BlockingTransaction as BlockingTransaction
    from eagleray.client.admin.descriptions import GroupOffset as GroupOffset
    from eagleray.client.admin.descriptions import HangingTransaction as HangingTransaction
    from eagleray.client.admin.descriptions import NodeDescription as NodeDescription
    from eagleray.client.admin.descriptions import PartitionDescription as PartitionDescription
    from eagleray.client.admin.descriptions import TopicConfigs as TopicConfigs
    from eagleray.client.admin.descriptions import TopicDescription as TopicDescription
    from eagleray.client.admin.sync_admin import Admin as Admin
    from eagleray.client.consumer.sync_consumer import Consumer as Consumer
    from eagleray.client.errors import AbortableError as AbortableError
    from eagleray.client.errors import EaglerayError as EaglerayError
    from eagleray.client.errors import FatalError as FatalError
    from eagleray.client.errors import RefusedError as RefusedError
    from eagleray.client.errors import RetriableError as RetriableError
    from eagleray.client.producer.batches import Delivery as Delivery
    from eagleray.client.producer.branches import BranchToken as BranchToken
    from eagleray.client.producer.branches import SealedBranch as SealedBranch
    from eagleray.client.producer.prepared import PreparedTransaction as PreparedTransaction
    from eagleray.client.producer.resolver import Outcome as Outcome
    from eagleray.client.producer.resolver import Question as Question
    from eagleray.client.producer.resolver import Resolver as Resolver
    from eagleray.client.producer.sync_branches import SyncBranchWriter as _SyncBranchWriter
    from eagleray.client.producer.sync_branches import Transaction as Transaction
    from eagleray.client.producer.sync_pool import SyncPooledTransaction as _SyncPooledTransaction
    from eagleray.client.producer.sync_pool import TransactionPool as TransactionPool
    from eagleray.client.producer.sync_producer import Producer as Producer
    from eagleray.client.settings import ConsumerSettings as ConsumerSettings
    from eagleray.client.settings import ProducerSettings as ProducerSettings
    from eagleray.client.types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from eagleray.client.types import ConsumerRecord as ConsumerRecord
    from eagleray.client.types import OffsetAndMetadata as OffsetAndMetadata
    from eagleray.client.types import OffsetAndTimestamp as OffsetAndTimestamp
    from eagleray.client.types import RecordMetadata as RecordMetadata
    from eagleray.protocol.records import RecordBatch as RecordBatch

    BranchWriter = _SyncBranchWriter
    PooledTransaction = _SyncPooledTransaction

_MODULES = ("aio", "errors")
_HOMES = {
    "api": ("Cluster", "connect", "start"),
    "broker.controller.replica_events": ("Reassignment",),
    "broker.identities": ("ProducerIdentity", "TopicPartition"),
    "broker.transactions.descriptions": ("TransactionDescription",),
    "broker.transactions.origin": ("Origin",),
    "client.admin.descriptions": (
        "BlockingTransaction",
        "GroupOffset",
        "HangingTransaction",
        "NodeDescription",
        "PartitionDescription",
        "TopicConfigs",
        "TopicDescription",
    ),
    "client.admin.sync_admin": ("Admin",),
    "client.consumer.sync_consumer": ("Consumer",),
    "client.errors": ("AbortableError", "EaglerayError", "FatalError", "RefusedError", "RetriableError"),
    "client.producer.batches": ("Delivery",),
    "client.producer.branches": ("BranchToken", "SealedBranch"),
    "client.producer.prepared": ("PreparedTransaction",),
    "client.producer.resolver": ("Outcome", "Question", "Resolver"),
    "client.producer.sync_branches": ("BranchWriter", "Transaction"),
    "client.producer.sync_pool": ("PooledTransaction", "TransactionPool"),
    "client.producer.sync_producer": ("Producer",),
    "client.settings": ("ConsumerSettings", "ProducerSettings"),
    "client.types": (
        "ConsumerGroupMetadata",
        "ConsumerRecord",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "RecordMetadata",
    ),
    "protocol.records": ("RecordBatch",),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
_NAMES_THERE = {"BranchWriter": "SyncBranchWriter", "PooledTransaction": "SyncPooledTransaction"}

__all__ = [*_HOME_OF, *_MODULES]  # noqa: PLE0604 - names, all of them

# A type checker would take whatever this returns for every misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _HOME_OF:
            return getattr(importlib.import_module(_HOME_OF[name]), _NAMES_THERE.get(name, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
