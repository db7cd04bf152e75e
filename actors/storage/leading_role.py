"""What a role that leads partitions is told by the replica manager."""

from __future__ import annotations

from typing import Any, Protocol

from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import Replicated
from eagleray.broker.replication.leader import ReplicationLeader


class LeadingRole(Protocol):
    """A role that leads partitions, as the replica manager sees it."""

    def led(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Start leading a partition, at the leader's epoch."""

    def resigned(self, partition: TopicPartition, leader: ReplicationLeader) -> None:
        """Stop leading a partition; its log may be about to be closed."""

    def replicated(self, replicated: Replicated[Any]) -> None:
        """Take back what the role has let wait, and act on it."""

    def advanced(self, partition: TopicPartition) -> None:
        """Note that the high watermark has moved."""
