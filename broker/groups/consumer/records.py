"""Records of `__consumer_offsets` about new-style groups, in Kafka's own format: to bytes, and back."""

from __future__ import annotations

from typing import Final, TypeAlias

from eagleray.broker.groups.consumer.member import Member
from eagleray.broker.groups.consumer.partitions import Partitions, TopicIdPartition, by_topic
from eagleray.protocol.codec import MalformedMessage, decode_versioned, encode_versioned, read_prefix
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)

Record: TypeAlias = tuple[bytes, bytes | None]
"""A key and a value, as the log has them; None is a tombstone."""

Key: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)

_VALUES: Final[dict[type[Key], type[Message]]] = {
    ConsumerGroupMetadataKey: ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey: ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey: ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey: ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey: ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey: ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey: ConsumerGroupRegularExpressionValue,
}
_KEYS: Final[dict[int | None, type[Key]]] = {key.wire.record_type: key for key in _VALUES}
MESSAGES: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    key.wire.record_type: (key, value) for key, value in _VALUES.items() if key.wire.record_type is not None
}
"""The keys and values by the types of the keys."""
RECORD_TYPES: Final = frozenset(key.wire.record_type for key in _VALUES if key.wire.record_type is not None)
"""The types of the keys under which these groups keep something in the log."""

_VERSION: Final = 0


def encode_record(key: Key, value: Message | None) -> Record:
    """Give what is to be appended to the log. Raises UnencodableMessage for what does not fit."""
    return encode_versioned(key, _VERSION), None if value is None else encode_versioned(value, _VERSION)


def decode_key(key: bytes) -> Key | None:
    """Read a key, or None from one that is about something else. Raises MalformedMessage."""
    key_type = _KEYS.get(read_prefix(key))
    return None if key_type is None else decode_versioned(key_type, key)


def decode_value(key: Key, value: bytes | None) -> Message | None:
    """Read the value that belongs to a key. Raises UnsupportedVersion or MalformedMessage."""
    return None if value is None else decode_versioned(_VALUES[type(key)], value)


def subscription_of(member: Member) -> ConsumerGroupMemberMetadataValue:
    """Give what is kept of who a member is and what it wants."""
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )


def target_of(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    """Give what is kept of a member's target."""
    topics = tuple(TopicPartition(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic(partitions))
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


def current_of(member: Member) -> ConsumerGroupCurrentMemberAssignmentValue:
    """Give what is kept of what a member was told."""
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topics(member, member.assigned),
        partitions_pending_revocation=_topics(member, member.to_revoke),
    )


def _topics(member: Member, partitions: Partitions) -> tuple[TopicPartitions, ...]:
    return tuple(
        TopicPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=tuple(member.held_since[TopicIdPartition(topic_id, number)] for number in numbers),
        )
        for topic_id, numbers in by_topic(partitions)
    )


def epochs_of(value: ConsumerGroupCurrentMemberAssignmentValue) -> dict[TopicIdPartition, int]:
    """Read the epochs at which a member got what it holds; where none are kept it is as if it were now."""
    epochs: dict[TopicIdPartition, int] = {}
    for topic in value.assigned_partitions + value.partitions_pending_revocation:
        since = topic.assignment_epochs or (value.member_epoch,) * len(topic.partitions)
        if len(since) != len(topic.partitions):
            reason = f"{len(topic.partitions)} partitions have {len(since)} epochs"
            raise MalformedMessage(type(value).__name__, None, reason)
        for number, epoch in zip(topic.partitions, since, strict=True):
            epochs[TopicIdPartition(topic.topic_id, number)] = epoch
    return epochs
