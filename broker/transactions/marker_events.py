"""What a marker channel manager is told besides `SendMarkers`, and what it asks for besides `MarkersWritten`."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.transactions.events import MarkersWritten, SendMarkers, Tick
from eagleray.protocol.errors import ErrorCode

NO_LEADER: Final = -1


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Small, frozen, and cheap to put on any lane."""


# What happens to a marker channel manager.


class LeadersLearned(_Message, frozen=True, tag=True):
    """Who leads these partitions, by number; `NO_LEADER` for one that has none at the moment."""

    leaders: dict[TopicPartition, int]


class PartitionsDeleted(_Message, frozen=True, tag=True):
    """These partitions exist no more, so nobody waits for their markers."""

    partitions: tuple[TopicPartition, ...]


class MarkersAnswered(_Message, frozen=True, tag=True):
    """A leader has answered a call."""

    leader: int
    call_id: int
    error_codes: tuple[ErrorCode, ...] = ()
    """One for each partition of each marker, in the order of the call; none at all where every one was written."""


class MarkersUnanswered(_Message, frozen=True, tag=True):
    """A call has failed or has taken too long: its markers may be written or not, and the leader may be gone."""

    leader: int
    call_id: int


MarkerEvent: TypeAlias = SendMarkers | LeadersLearned | PartitionsDeleted | MarkersAnswered | MarkersUnanswered | Tick


# What it wants to happen.


class Marker(_Message, frozen=True):
    """The end of one producer's transaction, for some of its partitions."""

    producer: ProducerIdentity
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


class WriteMarkers(_Message, frozen=True, tag=True):
    """Call a leader; answered once, by `MarkersAnswered` or `MarkersUnanswered`."""

    leader: int
    call_id: int
    markers: tuple[Marker, ...]


class ResolveLeaders(_Message, frozen=True, tag=True):
    """Find out who leads these partitions; answered by `LeadersLearned` or `PartitionsDeleted`."""

    partitions: tuple[TopicPartition, ...]


MarkerEffect: TypeAlias = WriteMarkers | ResolveLeaders | MarkersWritten
