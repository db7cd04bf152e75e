"""Identities that travel between nodes: a partition of a topic, and a producer with its epoch."""

from __future__ import annotations

import msgspec

from eagleray.broker.limits import Int16, Int32, Int64, Text


class TopicPartition(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False, cache_hash=True):
    """One partition of one topic."""

    topic: Text
    partition: Int32

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdentity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A producer id and the epoch that tells its incarnations apart."""

    producer_id: Int64
    epoch: Int16


NO_PRODUCER_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 2**15 - 1
"""The largest epoch; it is kept for fencing, so a producer itself never gets beyond the one before it."""

NO_PRODUCER = ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)
