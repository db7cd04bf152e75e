"""Records of `__consumer_offsets` about new-style groups (KIP-848): what a coordinator has told their members.

Before a key stands its record type, before a value its version, two bytes each. A null value is a tombstone. A group
has an epoch, the epoch of its target assignment, and for each member a subscription, a target and a current assignment.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int8,
    Int32,
    Int64,
    Message,
    Tagged,
    Uuid,
    Wire,
    WireStruct,
)


class ConsumerGroupMetadataKey(Message, frozen=True):
    """The group that an epoch is about."""

    wire = Wire(record_type=3, versions=(0, 0))

    group_id: str = ""


class ConsumerGroupMetadataValue(Message, frozen=True):
    """The epoch of a group, and a hash over the topics that it is subscribed to."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, Tagged(0)] = 0


class ConsumerGroupPartitionMetadataKey(Message, frozen=True):
    """The group whose topics follow; since Kafka 4.1 the hash beside the group's epoch takes their place."""

    wire = Wire(record_type=4, versions=(0, 0))

    group_id: str = ""


class PartitionMetadata(WireStruct, frozen=True):
    """Where a partition's replicas are; no longer used."""

    partition: Int32 = 0
    racks: tuple[str, ...] = ()


class TopicMetadata(WireStruct, frozen=True):
    """A topic as it was when the group last looked."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: tuple[PartitionMetadata, ...] = ()


class ConsumerGroupPartitionMetadataValue(Message, frozen=True):
    """The topics that a group is subscribed to."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    topics: tuple[TopicMetadata, ...] = ()


class ConsumerGroupMemberMetadataKey(Message, frozen=True):
    """The member that a subscription is about."""

    wire = Wire(record_type=5, versions=(0, 0))

    group_id: str = ""
    member_id: str = ""


class ClassicProtocol(WireStruct, frozen=True):
    """A protocol that a classic member knows."""

    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(WireStruct, frozen=True):
    """What is known of a member that joined by the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(Message, frozen=True):
    """Who a member is, and what it is subscribed to."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Tagged(0)] = None


class ConsumerGroupTargetAssignmentMetadataKey(Message, frozen=True):
    """The group whose target assignment has an epoch."""

    wire = Wire(record_type=6, versions=(0, 0))

    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message, frozen=True):
    """The group epoch that the target assignment was computed at."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, Tagged(0), Ignorable()] = 0


class ConsumerGroupTargetAssignmentMemberKey(Message, frozen=True):
    """The member that a target is about."""

    wire = Wire(record_type=7, versions=(0, 0))

    group_id: str = ""
    member_id: str = ""


class TopicPartition(WireStruct, frozen=True):
    """The partitions of one topic in a target."""

    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupTargetAssignmentMemberValue(Message, frozen=True):
    """What a member shall own in the end."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    topic_partitions: tuple[TopicPartition, ...] = ()


class ConsumerGroupCurrentMemberAssignmentKey(Message, frozen=True):
    """The member that a current assignment is about."""

    wire = Wire(record_type=8, versions=(0, 0))

    group_id: str = ""
    member_id: str = ""


class TopicPartitions(WireStruct, frozen=True):
    """The partitions of one topic that a member was told of, and since which epochs each is its own."""

    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, Tagged(0)] = None


class ConsumerGroupCurrentMemberAssignmentValue(Message, frozen=True):
    """What a member was told: its epoch, what it owns, and what it has to give up first."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()


class ConsumerGroupRegularExpressionKey(Message, frozen=True):
    """The regular expression that members of a group are subscribed to."""

    wire = Wire(record_type=16, versions=(0, 0))

    group_id: str = ""
    regular_expression: str = ""


class ConsumerGroupRegularExpressionValue(Message, frozen=True):
    """The topics that a regular expression stands for, as of a version of the metadata."""

    wire = Wire(versions=(0, 0), flexible_since=0)

    topics: tuple[str, ...] = ()
    version: Int64 = 0
    timestamp: Int64 = 0
