"""What a marker channel manager is told besides `SendMarkers`, and what it asks for besides `MarkersWritten`."""

from __future__ import annotations

from typing import Final, TypeAlias

from eagleray.broker.identities import TopicPartition
from eagleray.broker.messages import Marker, Message
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.transactions.events import MarkersWritten, SendMarkers
from eagleray.protocol.errors import ErrorCode

NO_LEADER: Final = -1


# What happens to a marker channel manager.


class LeadersLearned(Message, frozen=True, tag=True):
    """Who leads these partitions, by number; `NO_LEADER` for one that has none at the moment."""

    leaders: dict[TopicPartition, int]


class PartitionsDeleted(Message, frozen=True, tag=True):
    """These partitions exist no more, so no transaction waits for their markers."""

    partitions: tuple[TopicPartition, ...]


class MarkerCallAnswered(Message, frozen=True, tag=True):
    """A leader has answered a call."""

    leader: int
    call_id: int
    error_codes: tuple[ErrorCode, ...] = ()
    """One for each partition of each marker, in the order of the call; none at all where every one was written."""


class MarkerCallUnanswered(Message, frozen=True, tag=True):
    """A call has failed or has taken too long: its markers may be written or not, and the leader may be gone."""

    leader: int
    call_id: int


MarkerEvent: TypeAlias = (
    SendMarkers | LeadersLearned | PartitionsDeleted | MarkerCallAnswered | MarkerCallUnanswered | Tick
)


# What it wants to happen.


class MarkerCall(Message, frozen=True, tag=True):
    """Call a leader; answered once, by `MarkerCallAnswered` or `MarkerCallUnanswered`."""

    leader: int
    call_id: int
    markers: tuple[Marker, ...]


class ResolveLeaders(Message, frozen=True, tag=True):
    """Find out who leads these partitions; answered by `LeadersLearned` or `PartitionsDeleted`."""

    partitions: tuple[TopicPartition, ...]


MarkerEffect: TypeAlias = MarkerCall | ResolveLeaders | MarkersWritten
