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
    from eagleray import aio, errors
    from eagleray.api import Cluster, connect, start
    from eagleray.client import (
        AbortableError,
        Admin,
        BranchToken,
        Consumer,
        ConsumerGroupMetadata,
        ConsumerRecord,
        ConsumerSettings,
        Delivery,
        EaglerayError,
        FatalError,
        GroupOffset,
        HangingTransaction,
        NodeDescription,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionDescription,
        Producer,
        ProducerIdentity,
        ProducerSettings,
        Reassignment,
        RecordBatch,
        RecordMetadata,
        RefusedError,
        RetriableError,
        SealedBranch,
        TopicConfigs,
        TopicDescription,
        TopicPartition,
        Transaction,
        TransactionDescription,
    )
    from eagleray.client import SyncBranchWriter as BranchWriter

__all__ = [
    "AbortableError",
    "Admin",
    "BranchToken",
    "BranchWriter",
    "Cluster",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerSettings",
    "Delivery",
    "EaglerayError",
    "FatalError",
    "GroupOffset",
    "HangingTransaction",
    "NodeDescription",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionDescription",
    "Producer",
    "ProducerIdentity",
    "ProducerSettings",
    "Reassignment",
    "RecordBatch",
    "RecordMetadata",
    "RefusedError",
    "RetriableError",
    "SealedBranch",
    "TopicConfigs",
    "TopicDescription",
    "TopicPartition",
    "Transaction",
    "TransactionDescription",
    "aio",
    "connect",
    "errors",
    "start",
]

_MODULES = ("aio", "errors")
_HOMES = {
    "BranchWriter": ("eagleray.client", "SyncBranchWriter"),
    "Cluster": ("eagleray.api", "Cluster"),
    "connect": ("eagleray.api", "connect"),
    "start": ("eagleray.api", "start"),
}
"""Names that are not found under themselves in `eagleray.client`."""

# A type checker would take whatever this returns for every misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in __all__:
            module, name_there = _HOMES.get(name, ("eagleray.client", name))
            return getattr(importlib.import_module(module), name_there)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
