"""What the metadata says of one topic."""

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
    """Who keeps one partition, and who leads it."""

    leader: int
    leader_epoch: int
    """Rises whenever a leader begins anew, be it the same node or another; every append is fenced by it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """The replicas that are in sync, of which the next leader is chosen."""

    partition_epoch: int = 0
    """Rises with every change of this partition, also with one that keeps the leader and its epoch."""

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """While replicas are moved: those that are to stay but were not there, and those that go when all these are in
    sync. Both are among `replicas` until then."""


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
