"""What the records about one group come to. Live groups and recoveries change it by the same `apply`."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from eagleray.broker.groups.consumer.member import LEAVING, Member, MemberState
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, Partitions, TopicIdPartition, from_topics
from eagleray.broker.groups.consumer.records import Key, epochs_of
from eagleray.protocol.messages.annotations import Message
from eagleray.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

NEVER_ASSIGNED: Final = 0


class GroupStatus(StrEnum):
    """The states of a group, as Kafka spells them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"
    """There is no such group, or no longer."""


class GroupState(msgspec.Struct, kw_only=True):
    """One group: nothing here that its records do not say.

    The epoch goes up with every change of what members want or what there is to assign. The target assignment follows
    it, and every member follows its target, each at its own speed; a partition has one holder at a time.
    """

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = NEVER_ASSIGNED
    members: dict[str, Member] = {}
    static_members: dict[str, str] = {}
    """Which member holds each group.instance.id."""

    targets: dict[str, Partitions] = {}
    holders: dict[TopicIdPartition, str] = {}
    """The member that owns a partition, or has not yet given it up."""

    regexes: dict[str, frozenset[str]] = {}
    """The topics that regular expressions stand for."""

    def copy(self) -> GroupState:
        """Return another that can be changed without changing this one."""
        return replace(
            self,
            members=self.members.copy(),
            static_members=self.static_members.copy(),
            targets=self.targets.copy(),
            holders=self.holders.copy(),
            regexes=self.regexes.copy(),
        )

    # Questions

    @property
    def status(self) -> GroupStatus:
        """How far the group as a whole has come."""
        if not self.members:
            return GroupStatus.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupStatus.ASSIGNING
        if all(member.is_reconciled(self.assignment_epoch) for member in self.members.values()):
            return GroupStatus.STABLE
        return GroupStatus.RECONCILING

    def topics_of(self, member: Member) -> frozenset[str]:
        """Return the names of all that a member is subscribed to, whether it exists or not."""
        if member.topic_regex is None:
            return member.topic_names
        return member.topic_names | self.regexes.get(member.topic_regex, frozenset())

    def subscribed_topics(self) -> set[str]:
        """Return the names of all topics that a member is subscribed to."""
        return set().union(*map(self.topics_of, self.members.values()))

    def preferred_assignor(self, assignors: tuple[str, ...]) -> str:
        """Return the assignor that most members ask for, or the first; in a draw the one that stands first wins."""
        votes = Counter(member.server_assignor for member in self.members.values())
        return max(assignors, key=lambda name: votes[name])

    # Changes

    def apply(self, key: Key, value: Message | None) -> None:
        """Take a record that is in the log, or for None a tombstone. The group's own tombstone leaves it as new."""
        match key, value:
            case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
                self.assignment_epoch = value.assignment_epoch
            case ConsumerGroupTargetAssignmentMetadataKey(), None:
                self.assignment_epoch = NEVER_ASSIGNED
            case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
                self.targets[key.member_id] = from_topics(value.topic_partitions)
            case ConsumerGroupTargetAssignmentMemberKey(), None:
                self.targets.pop(key.member_id, None)
            case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
                self._subscribe(key.member_id, value)
            case ConsumerGroupMemberMetadataKey(), None:
                self._remove_member(key.member_id)
            case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
                self._tell(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey(), None:
                self._forget_assignment(key.member_id)
            case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
                self.regexes[key.regular_expression] = frozenset(value.topics)
            case ConsumerGroupRegularExpressionKey(), None:
                self.regexes.pop(key.regular_expression, None)
            case _:
                # The topics of the group as older versions of Kafka kept them: the hash tells as much.
                pass

    def _subscribe(self, member_id: str, value: ConsumerGroupMemberMetadataValue) -> None:
        known = self.members.get(member_id) or Member(member_id=member_id)
        if known.instance_id is not None:
            self._release_instance(known)
        if value.instance_id is not None:
            self.static_members[value.instance_id] = member_id
        self.members[member_id] = replace(
            known,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def _remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release_instance(member)
            self._release(member)

    def _release_instance(self, member: Member) -> None:
        """Let go of a member's group.instance.id, unless another member has it by now."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _tell(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue) -> None:
        known = self.members.get(member_id) or Member(member_id=member_id)
        self._release(known)
        told = self.members[member_id] = replace(
            known,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=from_topics(value.assigned_partitions),
            to_revoke=from_topics(value.partitions_pending_revocation),
            held_since=epochs_of(value),
        )
        self.holders.update(dict.fromkeys(told.held, member_id))

    def _forget_assignment(self, member_id: str) -> None:
        known = self.members.get(member_id)
        if known is not None:
            self._release(known)
            self.members[member_id] = replace(
                known,
                epoch=LEAVING,
                previous_epoch=LEAVING,
                assigned=NO_PARTITIONS,
                to_revoke=NO_PARTITIONS,
                held_since={},
            )

    def _release(self, member: Member) -> None:
        """Let go of what a member holds, unless another has it by now: compaction may have left records apart."""
        for partition in member.held:
            if self.holders.get(partition) == member.member_id:
                del self.holders[partition]
