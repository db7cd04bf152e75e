"""What a controller is told of replicas, and what it answers; `events` has all that a controller takes."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.controller.messages import CodedReply, ControllerReply, ControllerRequest
from eagleray.broker.identities import TopicPartition
from eagleray.broker.limits import Int64, Text
from eagleray.broker.messages import Message
from eagleray.broker.replication.events import BrokerHeartbeat, BrokerHeartbeatAnswered, IsrAnswered, ProposeIsr
from eagleray.protocol.errors import ErrorCode

# Requests


class NodeBeat(ControllerRequest["NodeBeatAnswered"], frozen=True, tag="NodeBeat"):
    """A node's heartbeat; answered by `NodeBeatAnswered`."""

    heartbeat: BrokerHeartbeat

    def refused(self, error_code: ErrorCode, message: str | None = None) -> NodeBeatAnswered:  # noqa: ARG002
        """Say nothing about the node: neither that it may go on, nor that it was given up."""
        beat = self.heartbeat
        answer = BrokerHeartbeatAnswered(beat.node_id, beat.incarnation, beat.sent_ms, error_code)
        return NodeBeatAnswered(self.request_id, answer)


class ChangeIsr(ControllerRequest["IsrChanged"], frozen=True, tag="ChangeIsr"):
    """A leader wants another in-sync set; answered by `IsrChanged`."""

    proposal: ProposeIsr

    def refused(self, error_code: ErrorCode, message: str | None = None) -> IsrChanged:  # noqa: ARG002
        """Say nothing about the partition: the proposal has not been judged, and its leader has to make it again.

        Were it taken for refused, the leader would count on a set that another copy of the proposal may still change.
        """
        proposal = self.proposal
        return IsrChanged(self.request_id, IsrAnswered(proposal.partition, error_code, proposal.partition_epoch))


class PartitionMove(Message, frozen=True):
    """Where the replicas of a partition are to be, the preferred leader first; None: where they were before a move."""

    partition: TopicPartition
    target: tuple[Int64, ...] | None


class ReassignPartitions(ControllerRequest["PartitionsAnswered"], frozen=True, tag="ReassignPartitions"):
    """A client wants replicas elsewhere; each move is begun or refused on its own. Answered by `PartitionsAnswered`."""

    moves: tuple[PartitionMove, ...]
    may_change_factor: bool = True
    """Whether a partition may have more or fewer replicas by its move."""

    def refused(self, error_code: ErrorCode, message: str | None = None) -> PartitionsAnswered:
        """Begin no move."""
        return _refused(self.request_id, (move.partition for move in self.moves), error_code, message)


class DrainNodes(ControllerRequest["DrainAnswered"], frozen=True, tag="DrainNodes"):
    """A client wants a machine, or one node, without replicas; answered by `DrainAnswered` once that has begun.

    Until this is undone, or they are planned no longer, the nodes are given no new replicas.
    """

    machine: Text | None = None
    node_id: Int64 | None = None
    """The one node that is meant, where no machine is named."""

    undo: bool = False
    """Whether the nodes may be given replicas again; moves that are under way go on."""

    def refused(self, error_code: ErrorCode, message: str | None = None) -> DrainAnswered:
        """Move nothing."""
        return DrainAnswered(self.request_id, error_code, message)


class ElectLeaders(ControllerRequest["PartitionsAnswered"], frozen=True, tag="ElectLeaders"):
    """A client wants the first replicas of partitions to lead, of some or of all; answered by `PartitionsAnswered`.

    The leaders of now are asked to hand over with the answers to their heartbeats. Of all, those are answered for where
    another should lead.
    """

    partitions: tuple[TopicPartition, ...] | None = None
    is_unclean: bool = False
    """Whether partitions without a leader are meant instead: the first replica that lives is to lead each, alone, and
    what it does not have is lost."""

    def refused(self, error_code: ErrorCode, message: str | None = None) -> PartitionsAnswered:
        """Elect no leader."""
        return _refused(self.request_id, self.partitions or (), error_code, message)


class ListReassignments(ControllerRequest["ReassignmentsListed"], frozen=True, tag="ListReassignments"):
    """A client asks which replicas are being moved, of some partitions or of all; answered by `ReassignmentsListed`."""

    partitions: tuple[TopicPartition, ...] | None = None

    def refused(self, error_code: ErrorCode, message: str | None = None) -> ReassignmentsListed:  # noqa: ARG002
        """List nothing."""
        return ReassignmentsListed(self.request_id, error_code)


# Answers


class NodeBeatAnswered(ControllerReply, frozen=True, tag="NodeBeatAnswered"):
    """The answer to `NodeBeat`."""

    answer: BrokerHeartbeatAnswered

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this is the code of the answer inside."""
        return self.answer.error_code is error_code


class IsrChanged(ControllerReply, frozen=True, tag="IsrChanged"):
    """The answer to `ChangeIsr`."""

    answer: IsrAnswered

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this is the code of the answer inside."""
        return self.answer.error_code is error_code


class PartitionResult(Message, frozen=True):
    """What became of a request about one partition."""

    partition: TopicPartition
    error_code: ErrorCode
    message: str | None = None


class PartitionsAnswered(ControllerReply, frozen=True, tag="PartitionsAnswered"):
    """The answer to a request about partitions: one result for each, in the order in which they first occur."""

    results: tuple[PartitionResult, ...]
    error_code: ErrorCode = ErrorCode.NONE
    """Why the controller has looked at none of them, if so."""

    def says(self, error_code: ErrorCode) -> bool:
        """Whether this is why the controller has looked at none of them."""
        return self.error_code is error_code


def _refused(
    request_id: int, partitions: Iterable[TopicPartition], error_code: ErrorCode, message: str | None
) -> PartitionsAnswered:
    results = (PartitionResult(partition, error_code, message) for partition in dict.fromkeys(partitions))
    return PartitionsAnswered(request_id, tuple(results), error_code)


class Reassignment(Message, frozen=True):
    """A partition whose replicas are being moved."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentsListed(CodedReply, frozen=True, tag="ReassignmentsListed"):
    """The answer to `ListReassignments`."""

    reassignments: tuple[Reassignment, ...] = ()


class DrainAnswered(CodedReply, frozen=True, tag="DrainAnswered"):
    """The answer to `DrainNodes`: how many partitions are being moved because of it, or why it cannot be."""

    message: str | None = None
    partitions: int = 0
