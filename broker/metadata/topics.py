"""One topic and its partitions in the metadata: replicas, ISR, leader and epochs."""

from __future__ import annotations

from typing import Final

from eagleray.broker.messages import Message

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
CLUSTER_METADATA: Final = "__cluster_metadata"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, CLUSTER_METADATA})
"""Topics that belong to the broker: clients neither create, change nor delete them."""

NO_TOPIC_ID: Final = bytes(16)


class PartitionImage(Message, frozen=True):
    """The replicas of one partition, its ISR and its leader."""

    leader: int
    leader_epoch: int
    """Rises whenever a leader starts, be it the same node or another; every append is fenced by it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """The in-sync replicas (ISR), from which the next leader is elected."""

    partition_epoch: int = 0
    """Rises with every change of this partition, even with one that keeps the leader and its epoch."""

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """During a reassignment: the replicas that are being added, and those that leave once the added ones are in sync.
    Both are among `replicas` until then."""


class TopicImage(Message, frozen=True):
    """A topic, the settings that were given to it, and its partitions."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: tuple[PartitionImage, ...]

    @property
    def is_internal(self) -> bool:
        """Whether the topic is the broker's own."""
        return self.name in INTERNAL_TOPICS
