"""Exactly-once streams on the Ray cluster you already have.

    import eagleray

    with eagleray.start(data_dir="data") as cluster:
        cluster.admin.create_topic("orders", partitions=8)
        with cluster.producer(transactional_id="checkout-1") as producer:
            with producer.transaction():
                producer.send("orders", key=b"42", value=b"paid")

`eagleray.aio` has the same for programs on an event loop. Names are loaded when they are first used, so that a process
that needs one part of the package does not pay for all of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagleray import aio as aio
    from eagleray.api import Cluster as Cluster
    from eagleray.api import connect as connect
    from eagleray.api import start as start
    from eagleray.broker.identities import TopicPartition as TopicPartition
    from eagleray.client.types import ConsumerGroupMetadata as ConsumerGroupMetadata
    from eagleray.client.types import ConsumerRecord as ConsumerRecord
    from eagleray.client.types import OffsetAndMetadata as OffsetAndMetadata
    from eagleray.client.types import RecordMetadata as RecordMetadata

_HOMES = {
    "Cluster": "eagleray.api",
    "ConsumerGroupMetadata": "eagleray.client.types",
    "ConsumerRecord": "eagleray.client.types",
    "OffsetAndMetadata": "eagleray.client.types",
    "RecordMetadata": "eagleray.client.types",
    "TopicPartition": "eagleray.broker.identities",
    "connect": "eagleray.api",
    "start": "eagleray.api",
}
_MODULES = {"aio": "eagleray.aio", "errors": "eagleray.client.errors"}

__all__ = [*_HOMES, *_MODULES]  # noqa: PLE0604 - names, all of them


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
