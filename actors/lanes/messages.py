"""Messages that only the actors exchange: what the state machines' own events need to travel between nodes."""

from __future__ import annotations

from typing import final

from eagleray.broker.limits import Text
from eagleray.broker.messages import Marker, Message, RequestOf
from eagleray.broker.partitions.events import MarkersAnswered
from eagleray.broker.quorum.events import QuorumMessage
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.broker.transactions.events import SendMarkers
from eagleray.protocol.errors import ErrorCode


class Misdirected(Message, frozen=True, tag="Misdirected"):
    """The reply to a request that no role of the node takes: it is certain that nothing was done."""

    request_id: int


class Malformed(Message, frozen=True, tag="Malformed"):
    """The reply to a request that cannot be encoded for a lane, or not be decoded at its end: nothing was done.

    It may answer any request, so it has the fields at which callers look in their replies.
    """

    request_id: int
    message: str

    @property
    def error_code(self) -> ErrorCode:
        """Repeating the request would change nothing."""
        return ErrorCode.INVALID_REQUEST

    @property
    def partition_errors(self) -> tuple[ErrorCode, ...]:
        """None: the whole question is wrong."""
        return ()


@final
class MarkersRequested(RequestOf["MarkersFinished"], frozen=True, tag="MarkersRequested"):
    """A coordinator's decided transaction, for the marker channel manager; answered when all markers are written."""

    markers: SendMarkers


class MarkersFinished(Message, frozen=True, tag="MarkersFinished"):
    """The answer to `MarkersRequested`."""

    request_id: int


class WriteGroupMarkers(RequestOf[MarkersAnswered], frozen=True, tag="WriteGroupMarkers"):
    """Markers for partitions of the offsets topic, which a group coordinator writes; answered by `MarkersAnswered`."""

    markers: tuple[Marker, ...]


class ReplicationBatch(RequestOf["Message"], frozen=True, tag="ReplicasTold"):
    """What the replicas of one node send to those of another in a turn: pushes, and answers to earlier pushes.

    The sender waits for no reply, because an answer is a message of its own; what gets lost is pushed again.
    """

    pushes: tuple[Push, ...]
    answers: tuple[PushAnswered, ...]


class RaftMessage(RequestOf["Message"], frozen=True, tag="QuorumTold"):
    """A message of one voter of the metadata quorum to another; there is no reply, because an answer is a message of
    its own.
    """

    message: QuorumMessage
    cluster_id: Text = ""
    """The cluster that the sender's data directory belongs to, once it knows: voters of others are not listened to."""


class AcceptClock(RequestOf["ClockAccepted"], frozen=True, tag="AcceptClock"):
    """A person says that the wall clock of a node is right, although it has jumped; any node takes it."""


class ClockAccepted(Message, frozen=True, tag="ClockAccepted"):
    """The answer to `AcceptClock`."""

    request_id: int
    set_by_ms: int
    """By how much the node's time of day was set."""

    error_code: ErrorCode = ErrorCode.NONE
