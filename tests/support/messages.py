"""Every message that there is, and every version of it."""

from eagleray.protocol.codec import APIS
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
)
from eagleray.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from eagleray.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from eagleray.protocol.messages.headers import RequestHeader, ResponseHeader
from eagleray.protocol.messages.transaction_log import TransactionLogKey, TransactionLogValue

HEADERS = (RequestHeader, ResponseHeader)
STORED = (
    TransactionLogKey,
    TransactionLogValue,
    OffsetCommitKey,
    OffsetCommitValue,
    GroupMetadataKey,
    GroupMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
)
MESSAGES: tuple[type[Message], ...] = (
    *(message for api in APIS.values() for message in (api.request, api.response)),
    *HEADERS,
    *STORED,
)


def versions_of(message: type[Message]) -> range:
    lowest, highest = message.wire.versions
    return range(lowest, highest + 1)


MESSAGES_AND_VERSIONS = [(message, version) for message in MESSAGES for version in versions_of(message)]


def name_of(value: object) -> str:
    """Name a parameter of a test: a message by its class, a version as such."""
    return value.__name__ if isinstance(value, type) else f"v{value}"
