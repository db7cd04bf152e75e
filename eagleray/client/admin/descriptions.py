"""What an admin is told about a cluster: frozen, and JSON by `msgspec.json.encode`."""

from __future__ import annotations

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.origin import UNKNOWN_ORIGIN, Origin


class PartitionDescription(msgspec.Struct, frozen=True):
    """Where a partition stands."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_start_offset: int
    last_stable_offset: int
    """Up to where readers of committed records see the partition."""

    high_watermark: int
    log_end_offset: int
    size_bytes: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """While replicas are moved: which of them are new, and which go when these are in sync."""

    @property
    def undecided(self) -> int:
        """How many offsets are held back from readers of committed records."""
        return self.high_watermark - self.last_stable_offset


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic and its partitions."""

    name: str
    topic_id: str
    configs: dict[str, str]
    partitions: tuple[PartitionDescription, ...]


class TopicConfigs(msgspec.Struct, frozen=True):
    """The settings of a topic that are in force, and which of them were given to it."""

    configs: dict[str, str]
    explicit: tuple[str, ...]


class HangingTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition and that no coordinator will ever end."""

    partition: TopicPartition
    producer: ProducerIdentity
    coordinator_epoch: int
    open_since_offset: int
    last_timestamp_ms: int


class BlockingTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that holds readers of committed records back: they see nothing from its first offset on."""

    partition: TopicPartition
    open_since_offset: int
    """The last stable offset of the partition, which is the first offset of the transaction there.

    In `__consumer_offsets` it is where the transaction has put the first offsets of the group that was asked about.
    """

    records_waiting: int
    """How many offsets from there on are replicated, and wait for its end; markers and aborted records count, too."""

    last_timestamp_ms: int
    """The newest record of it in the partition."""

    producer: ProducerIdentity
    """The identity that writes in the partition: the producer, or a branch of a transaction with many writers."""

    transactional_id: str | None
    """Its owner; None where no coordinator knows it, so that it never ends by itself."""

    state: str
    """Kafka's name of it, or `hanging` without an owner."""

    start_ms: int = -1
    timeout_ms: int = -1
    max_hold_ms: int = -1
    """The smallest `transaction.max.hold.ms` of its topics; -1 where none of them has one."""

    ends_by_ms: int = -1
    """When the coordinator aborts it by itself, by its timeout or for its topics; -1 where it does not."""

    prepared_ms: int = -1
    """Since when it is prepared, so that only its token ends it; -1 where it is not."""

    tag: str | None = None
    """What a transaction with many writers is for."""

    origin: Origin = UNKNOWN_ORIGIN
    """Which program has begun it."""

    end_with: str
    """The command that ends it; that which shows how, where another system takes part in a two-phase commit."""


class GroupOffset(msgspec.Struct, frozen=True):
    """How far a group has come in a partition, and how much is left for it."""

    partition: TopicPartition
    offset: int
    log_end_offset: int
    metadata: str = ""

    @property
    def lag(self) -> int:
        """How many offsets the group is behind."""
        return max(self.log_end_offset - self.offset, 0)


class NodeDescription(msgspec.Struct, frozen=True):
    """A node of the cluster, and how much it has to do."""

    node_id: int
    machine: str
    """What it shares its disk and its fate with; empty where there is one machine alone."""

    roles: tuple[str, ...]
    registered: bool
    """Whether it has come, and the controller hears of it."""

    draining: bool
    """Whether it gets no new replicas, because those that it has are to go elsewhere."""

    leads: int
    """How many partitions it leads, those of internal topics too."""

    keeps: int
    """How many partitions it has replicas of, or is to have."""
