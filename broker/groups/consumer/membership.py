"""A KIP-848 group as those see it who keep its offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from eagleray.broker.groups.consumer.description import GROUP_TYPE, PROTOCOL_TYPE
from eagleray.broker.groups.consumer.group import ConsumerGroup
from eagleray.broker.groups.consumer.group_table import ConsumerGroupTable
from eagleray.broker.groups.membership import LogRecord, Membership
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode


class ConsumerMembership(Membership):
    """One group, live, as long as the log has something of it."""

    kind: ClassVar = GROUP_TYPE
    protocol_type = PROTOCOL_TYPE

    def __init__(self, name: str, groups: ConsumerGroupTable) -> None:
        self.name = name
        self._groups = groups

    @property
    def group(self) -> ConsumerGroup:
        """The group itself."""
        return self._groups.groups[self.name]

    @property
    def has_members(self) -> bool:
        """Whether the group has members."""
        return bool(self.group.members)

    @property
    def size(self) -> int:
        """The members."""
        return len(self.group.members)

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        return self.group.state.status.value

    def check_commit(
        self, generation: int, member_id: str, group_instance_id: str | None, *, is_transactional: bool
    ) -> ErrorCode:
        """Take members at their current epoch, and any client without an epoch while there are no members."""
        return self.group.check_commit(generation, member_id, group_instance_id, is_transactional=is_transactional)

    def may_commit_late(self, generation: int, member_id: str, partitions: Iterable[TopicPartition]) -> bool:
        """Take what a member has read at an earlier epoch, of partitions that it has had ever since (KIP-1251)."""
        outcome = self._groups.check_commit(self.name, generation, member_id, None, partitions, is_transactional=False)
        return outcome is ErrorCode.NONE

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Take members at their current epoch, and clients that name no member."""
        return self.group.check_fetch(member_id, member_epoch)

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member has subscribed to a topic, by its name or by a regular expression."""
        return topic in self.group.state.subscribed_topics()

    def tombstones(self) -> tuple[LogRecord, ...]:
        """The records that end the group, and what regular expressions stand for."""
        return self.group.delete().records
