"""Names that travel between machines; nobody formats or parses them by hand."""

from __future__ import annotations

import msgspec


class TopicPartition(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False, cache_hash=True):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ProducerIdentity(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A producer id and the epoch that tells its incarnations apart."""

    producer_id: int
    epoch: int


NO_PRODUCER_ID = -1
NO_EPOCH = -1
LAST_EPOCH = 2**15 - 1
"""The largest epoch; it is kept for fencing, so a producer itself never gets beyond the one before."""

NO_PRODUCER = ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)
