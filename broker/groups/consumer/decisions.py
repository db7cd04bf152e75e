"""A decision in the making: records, each of which counts at once for whatever is decided next."""

from __future__ import annotations

import msgspec

from eagleray.broker.groups.consumer.member import Member
from eagleray.broker.groups.consumer.partitions import Partitions
from eagleray.broker.groups.consumer.records import (
    Key,
    Record,
    current_of,
    encode_record,
    subscription_of,
    target_of,
)
from eagleray.broker.groups.consumer.state import GroupState
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from eagleray.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class HeartbeatRefusal(msgspec.Struct, frozen=True):
    """Why a request comes to nothing."""

    error_code: ErrorCode
    message: str


class GroupDecision(msgspec.Struct, frozen=True):
    """What is to be logged, all in one batch, and what is to be answered once it is.

    Without records there is nothing to wait for.
    """

    group_id: str
    records: tuple[Record, ...] = ()
    response: ConsumerGroupHeartbeatResponse | None = None
    """None where no client has asked, because time has passed or an admin deletes the group."""

    error_code: ErrorCode = ErrorCode.NONE


class Draft:
    """A copy of a group's state that records are applied to as they are written.

    The group itself stays as it is until the records are logged, and then changes by the same `apply`.
    """

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.records: list[Record] = []

    def write(self, key: Key, value: Message | None) -> None:
        """Add a record, or for None a tombstone."""
        if not self.records:
            self.state = self.state.copy()
        self.records.append(encode_record(key, value))
        self.state.apply(key, value)

    # Members

    def write_subscription(self, member: Member) -> None:
        """Note who a member is and what it wants."""
        self.write(ConsumerGroupMemberMetadataKey(self.state.group_id, member.member_id), subscription_of(member))

    def write_current(self, member: Member) -> None:
        """Note what a member is told."""
        self.write(ConsumerGroupCurrentMemberAssignmentKey(self.state.group_id, member.member_id), current_of(member))

    def write_target(self, member_id: str, target: Partitions) -> None:
        """Note what a member shall own."""
        self.write(ConsumerGroupTargetAssignmentMemberKey(self.state.group_id, member_id), target_of(target))

    def remove_member(self, member_id: str) -> None:
        """Forget a member and all that it holds. Kafka insists on this order when it reads the tombstones."""
        group_id = self.state.group_id
        self.write(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None)
        self.write(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None)
        self.write(ConsumerGroupMemberMetadataKey(group_id, member_id), None)

    # The group

    def write_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Note the epoch of the group."""
        value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        self.write(ConsumerGroupMetadataKey(self.state.group_id), value)

    def write_assignment_epoch(self, now_ms: int) -> None:
        """Note that the target assignment is that of the group's epoch."""
        value = ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.state.epoch, assignment_timestamp=now_ms
        )
        self.write(ConsumerGroupTargetAssignmentMetadataKey(self.state.group_id), value)

    def write_regex(self, regex: str, topics: frozenset[str], version: int, now_ms: int) -> None:
        """Note which topics a regular expression stands for."""
        value = ConsumerGroupRegularExpressionValue(topics=tuple(sorted(topics)), version=version, timestamp=now_ms)
        self.write(ConsumerGroupRegularExpressionKey(self.state.group_id, regex), value)

    def remove_regex(self, regex: str) -> None:
        """Forget a regular expression that no member is subscribed to any more."""
        self.write(ConsumerGroupRegularExpressionKey(self.state.group_id, regex), None)

    def remove_group(self) -> None:
        """Forget the group, which has no members."""
        assert not self.state.members, "a group with members is not deleted"
        for regex in list(self.state.regexes):
            self.remove_regex(regex)
        self.write(ConsumerGroupTargetAssignmentMetadataKey(self.state.group_id), None)
        self.write(ConsumerGroupMetadataKey(self.state.group_id), None)

    def decide(self, response: ConsumerGroupHeartbeatResponse | None = None) -> GroupDecision:
        """Give what is to be logged, and answered then."""
        return GroupDecision(self.state.group_id, tuple(self.records), response)
