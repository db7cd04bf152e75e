"""Messages that only the actors exchange: what the machines' own events need to travel between nodes."""

from __future__ import annotations

from eagleray.broker.messages import Marker, Message, RequestOf
from eagleray.broker.partitions.events import MarkersAnswered
from eagleray.broker.quorum.events import QuorumMessage
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.broker.transactions.events import SendMarkers
from eagleray.protocol.errors import ErrorCode


class Misdirected(Message, frozen=True, tag="Misdirected"):
    """The answer of a node to a question that none of its roles takes: surely nothing was done."""

    request_id: int


class Malformed(Message, frozen=True, tag="Malformed"):
    """The answer to a question that cannot be put on a lane, or not be read at its end: surely nothing was done.

    It answers any question, so it has what each of their answers may be looked at for.
    """

    request_id: int
    message: str

    @property
    def error_code(self) -> ErrorCode:
        """Asking again would change nothing."""
        return ErrorCode.INVALID_REQUEST

    @property
    def partition_errors(self) -> tuple[ErrorCode, ...]:
        """None: the whole question is wrong."""
        return ()


class MarkersRequested(RequestOf["MarkersFinished"], frozen=True, tag="MarkersRequested"):
    """A coordinator's decided transaction, for the marker channel manager; answered when all markers are written."""

    markers: SendMarkers


class MarkersFinished(Message, frozen=True, tag="MarkersFinished"):
    """The answer to `MarkersRequested`."""

    request_id: int


class WriteGroupMarkers(RequestOf[MarkersAnswered], frozen=True, tag="WriteGroupMarkers"):
    """Markers for partitions of the offsets topic, which a group coordinator writes; answered by `MarkersAnswered`."""

    markers: tuple[Marker, ...]


class ReplicasTold(RequestOf["Message"], frozen=True, tag="ReplicasTold"):
    """What the replicas of one node tell those of another in a turn: leaders push, followers answer earlier pushes.

    Nobody waits for an answer, for it is a message too; what gets lost is pushed again.
    """

    pushes: tuple[Push, ...]
    answers: tuple[PushAnswered, ...]


class QuorumTold(RequestOf["Message"], frozen=True, tag="QuorumTold"):
    """What one voter of the metadata's quorum tells another; nobody waits for an answer, for it is a message too."""

    message: QuorumMessage
