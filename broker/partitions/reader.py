"""Reads of a partition where it is led, without the right to write to it."""

from __future__ import annotations

from eagleray.broker.log import LogError
from eagleray.broker.partitions.events import NO_LEADER_EPOCH
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode


class PartitionReader:
    """Answers from the log of a partition at one leader epoch, and writes nothing.

    Owns: nothing. It serves the partitions of internal topics, to which only their coordinators write.
    """

    def __init__(self, replication: ReplicationLeader) -> None:
        self.partition = replication.partition
        self.log = replication.log
        self.leader_epoch = replication.leader_epoch
        self.replication = replication

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """Tell whether a client that names a leader epoch speaks of this leader."""
        return check_leader_epoch(epoch, self.leader_epoch)

    def note_failure(self, error: LogError) -> None:
        """Take note of a log that could not be read; a reader does nothing, because the coordinator that writes finds
        out by itself.
        """


def check_leader_epoch(epoch: int, leader_epoch: int) -> ErrorCode:
    """Tell whether a client that names a leader epoch speaks of the leader at this one."""
    if epoch in (NO_LEADER_EPOCH, leader_epoch):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
