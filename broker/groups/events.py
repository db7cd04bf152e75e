"""What a group coordinator is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.groups.classic.events import ClassicReply, ClassicRequest
from eagleray.broker.groups.consumer.events import ConsumerReply, ConsumerRequest, TopicsKnown
from eagleray.broker.groups.membership import NO_GENERATION, NO_MEMBER
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker, Message, RequestOf
from eagleray.broker.partitions.events import (
    MarkersAnswered,
    Tick,
    TransactionVerified,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.protocol.errors import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
NO_OFFSET = -1
NO_LEADER_EPOCH = -1


# What happens to a coordinator.


class OffsetToCommit(Message, frozen=True):
    """How far a group has come in one partition."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class CommitOffsets(RequestOf["OffsetsCommitted"], frozen=True, tag="CommitOffsets"):
    """A consumer, or an admin, says how far a group has come."""

    group: str
    offsets: tuple[OffsetToCommit, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None


class CommitTransactionOffsets(RequestOf["OffsetsCommitted"], frozen=True, tag="CommitTransactionOffsets"):
    """A producer says how far a group has come once its transaction is committed."""

    group: str
    transactional_id: str
    producer: ProducerIdentity
    offsets: tuple[OffsetToCommit, ...]
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None
    transaction_version: int = 1


class FetchOffsets(RequestOf["OffsetsFetched"], frozen=True, tag="FetchOffsets"):
    """Somebody wants to know how far a group has come, in some partitions or, with None, in all that it knows."""

    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_GENERATION
    """A member of a group that is not of the classic kind says who it is; others need not."""


class DeleteOffsets(RequestOf["OffsetsCommitted"], frozen=True, tag="DeleteOffsets"):
    """An admin wants a group to forget some partitions."""

    group: str
    partitions: tuple[TopicPartition, ...]


class DeleteGroup(RequestOf["OffsetsCommitted"], frozen=True, tag="DeleteGroup"):
    """An admin wants a group to be forgotten."""

    group: str


class ListGroups(RequestOf["GroupsListed"], frozen=True, tag="ListGroups"):
    """Somebody wants to know which groups are coordinated here; of each filter, nothing at all means everything.

    States, kinds and protocol types are compared as Kafka does it, whatever their case.
    """

    states: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    protocol_types: tuple[str, ...] = ()


Commit: TypeAlias = CommitOffsets | CommitTransactionOffsets
Request: TypeAlias = (
    Commit | FetchOffsets | DeleteOffsets | DeleteGroup | ListGroups | WriteMarkers | ClassicRequest | ConsumerRequest
)


class OffsetsLogged(Message, frozen=True, tag=True):
    """The log has what a `LogOffsets` wanted in it."""

    token: int


class OffsetsLost(Message, frozen=True, tag=True):
    """The log does not have what a `LogOffsets` or a `LogMarkers` wanted in it, and never will.

    Where nobody can tell whether the log will have it, this is not the event: the coordinator has to resign from the
    partition and load it again. Otherwise it would answer with other offsets than its successor.
    """

    token: int
    error_code: ErrorCode


class MarkersLogged(Message, frozen=True, tag=True):
    """The log has the markers that a `LogMarkers` wanted in it, or has refused some of them."""

    token: int
    error_codes: tuple[ErrorCode, ...] = ()
    """One for each marker, in order; none at all where every one was written."""


class OffsetsAssigned(Message, frozen=True, tag=True):
    """This coordinator is to lead a partition of `__consumer_offsets`, at an epoch that none has had before it.

    Until the partition is loaded, clients are told to try again.
    """

    offsets_partition: int
    epoch: int


class OffsetsLoaded(Message, frozen=True, tag=True):
    """A partition of `__consumer_offsets` has been read to its end; the coordinator owns the state from now on."""

    offsets_partition: int
    epoch: int
    state: OffsetsState


class OffsetsResigned(Message, frozen=True, tag=True):
    """Another coordinator leads a partition of `__consumer_offsets` from now on."""

    offsets_partition: int
    epoch: int


class OffsetsOfTopicDeleted(Message, frozen=True, tag=True):
    """Topics are deleted; one that gets the name of one of them later begins without offsets."""

    topics: tuple[str, ...]


Event: TypeAlias = (
    Request
    | TransactionVerified
    | OffsetsLogged
    | OffsetsLost
    | MarkersLogged
    | OffsetsAssigned
    | OffsetsLoaded
    | OffsetsResigned
    | OffsetsOfTopicDeleted
    | TopicsKnown
    | Tick
)


# What a coordinator wants to happen.


class LogOffsets(Message, frozen=True, tag=True):
    """Append records to a partition of `__consumer_offsets`, all or none; a value of None is a tombstone.

    With a producer they are one transactional batch of it, without a sequence. Answered exactly once, by
    `OffsetsLogged` or `OffsetsLost`, unless the coordinator resigns from the partition. What is asked for one partition
    gets into its log in the order in which it was asked for, `LogMarkers` included.
    """

    offsets_partition: int
    epoch: int
    token: int
    records: tuple[tuple[bytes, bytes | None], ...]
    producer: ProducerIdentity | None = None


class LogMarkers(Message, frozen=True, tag=True):
    """Append markers to a partition of `__consumer_offsets`, in their order among the `LogOffsets`.

    Answered exactly once, by `MarkersLogged` or, where none is written, by `OffsetsLost`, unless the coordinator
    resigns from the partition.
    """

    offsets_partition: int
    epoch: int
    token: int
    markers: tuple[Marker, ...]


class OffsetsCommitted(Message, frozen=True, tag="OffsetsCommitted"):
    """The answer to a commit or a deletion."""

    request_id: int
    error_code: ErrorCode
    partition_errors: tuple[ErrorCode, ...] = ()
    """One for each partition of the request, in its order; none at all where the error code says everything."""


class CommittedOffset(Message, frozen=True):
    """How far a group has come in one partition, or why that cannot be said."""

    partition: TopicPartition
    error_code: ErrorCode
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class OffsetsFetched(Message, frozen=True, tag="OffsetsFetched"):
    """The answer to `FetchOffsets`; a partition without an offset has -1."""

    request_id: int
    error_code: ErrorCode
    offsets: tuple[CommittedOffset, ...] = ()


class ListedGroup(Message, frozen=True):
    """A group in a list; one that has only offsets is an empty classic group without a protocol type."""

    name: str
    kind: str
    state: str
    protocol_type: str


class GroupsListed(Message, frozen=True, tag="GroupsListed"):
    """The answer to `ListGroups`."""

    request_id: int
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...] = ()


Reply: TypeAlias = OffsetsCommitted | OffsetsFetched | GroupsListed | MarkersAnswered | ClassicReply | ConsumerReply
Effect: TypeAlias = LogOffsets | LogMarkers | VerifyTransaction | Reply
