"""What a controller is told of replicas, and what it answers; `events` has all that a controller takes."""

from __future__ import annotations

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Message, RequestOf
from eagleray.broker.replication.events import BrokerHeartbeat, BrokerHeartbeatAnswered, IsrAnswered, ProposeIsr
from eagleray.protocol.errors import ErrorCode

# Requests


class NodeBeat(RequestOf["NodeBeatAnswered"], frozen=True, tag="NodeBeat"):
    """A node's heartbeat; answered by `NodeBeatAnswered`."""

    heartbeat: BrokerHeartbeat


class ChangeIsr(RequestOf["IsrChanged"], frozen=True, tag="ChangeIsr"):
    """A leader wants another in-sync set; answered by `IsrChanged`."""

    proposal: ProposeIsr


class PartitionMove(Message, frozen=True):
    """Where the replicas of a partition are to be, the preferred leader first; None: where they were before a move."""

    partition: TopicPartition
    target: tuple[int, ...] | None


class ReassignPartitions(RequestOf["PartitionsAnswered"], frozen=True, tag="ReassignPartitions"):
    """A client wants replicas elsewhere; each move is begun or refused on its own. Answered by `PartitionsAnswered`."""

    moves: tuple[PartitionMove, ...]
    may_change_factor: bool = True
    """Whether a partition may have more or fewer replicas by its move."""


class DrainNodes(RequestOf["DrainAnswered"], frozen=True, tag="DrainNodes"):
    """A client wants a machine, or one node, without replicas; answered by `DrainAnswered` once that has begun.

    Until this is undone, or they are planned no longer, the nodes are given no new replicas.
    """

    machine: str | None = None
    node_id: int | None = None
    """The one node that is meant, where no machine is named."""

    undo: bool = False
    """Whether the nodes may be given replicas again; moves that are under way go on."""


class ElectLeaders(RequestOf["PartitionsAnswered"], frozen=True, tag="ElectLeaders"):
    """A client wants the first replicas of partitions to lead, of some or of all; answered by `PartitionsAnswered`.

    The leaders of now are asked to hand over with the answers to their heartbeats. Of all, those are answered for where
    another should lead.
    """

    partitions: tuple[TopicPartition, ...] | None = None
    is_unclean: bool = False
    """Whether partitions without a leader are meant instead: the first replica that lives is to lead each, alone, and
    what it does not have is lost."""


class ListReassignments(RequestOf["ReassignmentsListed"], frozen=True, tag="ListReassignments"):
    """A client asks which replicas are being moved, of some partitions or of all; answered by `ReassignmentsListed`."""

    partitions: tuple[TopicPartition, ...] | None = None


# Answers


class NodeBeatAnswered(Message, frozen=True, tag="NodeBeatAnswered"):
    """The answer to `NodeBeat`."""

    request_id: int
    answer: BrokerHeartbeatAnswered


class IsrChanged(Message, frozen=True, tag="IsrChanged"):
    """The answer to `ChangeIsr`."""

    request_id: int
    answer: IsrAnswered


class PartitionResult(Message, frozen=True):
    """What became of a request about one partition."""

    partition: TopicPartition
    error_code: ErrorCode
    message: str | None = None


class PartitionsAnswered(Message, frozen=True, tag="PartitionsAnswered"):
    """The answer to a request about partitions: one result for each, in the order in which they first occur."""

    request_id: int
    results: tuple[PartitionResult, ...]
    error_code: ErrorCode = ErrorCode.NONE
    """Why the controller has looked at none of them, if so."""


class Reassignment(Message, frozen=True):
    """A partition whose replicas are being moved."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReassignmentsListed(Message, frozen=True, tag="ReassignmentsListed"):
    """The answer to `ListReassignments`."""

    request_id: int
    error_code: ErrorCode
    reassignments: tuple[Reassignment, ...] = ()


class DrainAnswered(Message, frozen=True, tag="DrainAnswered"):
    """The answer to `DrainNodes`: how many partitions are being moved because of it, or why it cannot be."""

    request_id: int
    error_code: ErrorCode
    message: str | None = None
    partitions: int = 0
