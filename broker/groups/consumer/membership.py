"""A KIP-848 group as those see it who keep its offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import ClassVar

from eagleray.broker.groups.consumer.description import GROUP_TYPE, PROTOCOL_TYPE
from eagleray.broker.groups.consumer.events import ConsumerHeartbeat
from eagleray.broker.groups.consumer.group import ConsumerGroup
from eagleray.broker.groups.consumer.group_table import ConsumerGroupTable
from eagleray.broker.groups.consumer.state import GroupStatus
from eagleray.broker.groups.membership import LogRecord, Membership
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode


class ConsumerMembership(Membership):
    """One group, live, from when its first member is on its way to the log.

    Owns: the heartbeats that wait while the group is busy. All else is the group's own, which is not there before the
    log has something of it.
    """

    kind: ClassVar = GROUP_TYPE
    protocol_type = PROTOCOL_TYPE

    def __init__(self, name: str, groups: ConsumerGroupTable) -> None:
        self.name = name
        self.waiting: deque[ConsumerHeartbeat] = deque()
        self._groups = groups

    @property
    def group(self) -> ConsumerGroup | None:
        """The group as the log has it."""
        return self._groups.groups.get(self.name)

    @property
    def is_busy(self) -> bool:
        """Whether something that was decided is on its way to the log."""
        return self._groups.is_busy(self.name)

    @property
    def has_members(self) -> bool:
        """Whether the group has members, or may be in a moment: nothing is ever on its way without a member."""
        group = self.group
        return self.is_busy or (group is not None and bool(group.members))

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        group = self.group
        return (GroupStatus.EMPTY if group is None else group.state.status).value

    def check_commit(
        self, generation: int, member_id: str, group_instance_id: str | None, *, is_transactional: bool
    ) -> ErrorCode:
        """Take members at their current epoch, and any client without an epoch while there are no members."""
        group = self.group
        if group is None:
            return ErrorCode.NONE if generation < 0 else ErrorCode.UNKNOWN_MEMBER_ID
        return group.check_commit(generation, member_id, group_instance_id, is_transactional=is_transactional)

    def may_commit_late(self, generation: int, member_id: str, partitions: Iterable[TopicPartition]) -> bool:
        """Take what a member has read at an earlier epoch, of partitions that it has had ever since (KIP-1251)."""
        outcome = self._groups.check_commit(self.name, generation, member_id, None, partitions, is_transactional=False)
        return outcome is ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Take members at their current epoch, and clients that name no member."""
        group = self.group
        return ErrorCode.NONE if group is None else group.check_fetch(member_id, member_epoch)

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member has subscribed to a topic, by its name or by a regular expression."""
        group = self.group
        return group is not None and topic in group.state.subscribed_topics()

    def tombstones(self) -> tuple[LogRecord, ...]:
        """The records that end the group, and what regular expressions stand for."""
        group = self.group
        return () if group is None else group.delete().records
