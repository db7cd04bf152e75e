"""What a group coordinator is told, and what it asks for in return."""

from __future__ import annotations

from typing import TypeAlias

from eagleray.broker.groups.classic.events import ClassicReply, ClassicRequest
from eagleray.broker.groups.consumer.events import ConsumerReply, ConsumerRequest, TopicsKnown
from eagleray.broker.groups.membership import NO_GENERATION, NO_MEMBER
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.limits import Int8, Int32, Int64, RecordText, Text
from eagleray.broker.messages import Message, RequestOf
from eagleray.broker.partitions.events import (
    AskLastDecision,
    LastDecisionAnswered,
    MarkersAnswered,
    TransactionVerified,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ClientConnection, ConnectionClosed
from eagleray.broker.runtime.coordinator_events import AppendRecords, LogEvent
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.failures import ReloadPartition, RequestFailed
from eagleray.protocol.errors import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
NO_OFFSET = -1
NO_LEADER_EPOCH = -1


# What happens to a coordinator.


class OffsetToCommit(Message, frozen=True):
    """How far a group has come in one partition."""

    partition: TopicPartition
    offset: Int64
    leader_epoch: Int32 = NO_LEADER_EPOCH
    metadata: Text = ""


class CommitOffsets(RequestOf["OffsetsCommitted"], frozen=True, tag="CommitOffsets"):
    """A consumer, or an admin, says how far a group has come."""

    group: RecordText
    offsets: tuple[OffsetToCommit, ...]
    generation: Int32 = NO_GENERATION
    member_id: RecordText = NO_MEMBER
    group_instance_id: RecordText | None = None


class CommitTransactionOffsets(RequestOf["OffsetsCommitted"], frozen=True, tag="CommitTransactionOffsets"):
    """A producer says how far a group has come once its transaction is committed."""

    group: RecordText
    transactional_id: Text
    producer: ProducerIdentity
    offsets: tuple[OffsetToCommit, ...]
    generation: Int32 = NO_GENERATION
    member_id: RecordText = NO_MEMBER
    group_instance_id: RecordText | None = None
    transaction_version: Int8 = 1
    client: ClientConnection | None = None
    """The connection of the Kafka client that asks; None for all other askers."""


class FetchOffsets(RequestOf["OffsetsFetched"], frozen=True, tag="FetchOffsets"):
    """A client wants to know how far a group has come, in some partitions or, with None, in all that it knows."""

    group: RecordText
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False
    member_id: RecordText | None = None
    member_epoch: Int32 = NO_GENERATION
    """A member of a group that is not of the classic kind says who it is; others need not."""


class DeleteOffsets(RequestOf["OffsetsCommitted"], frozen=True, tag="DeleteOffsets"):
    """An admin wants a group to forget some partitions."""

    group: RecordText
    partitions: tuple[TopicPartition, ...]


class DeleteGroup(RequestOf["OffsetsCommitted"], frozen=True, tag="DeleteGroup"):
    """An admin wants a group to be forgotten."""

    group: RecordText


class ListGroups(RequestOf["GroupsListed"], frozen=True, tag="ListGroups"):
    """A client wants to know which groups are coordinated here; of each filter, nothing at all means everything.

    States, kinds and protocol types are compared as Kafka does it, whatever their case.
    """

    states: tuple[RecordText, ...] = ()
    kinds: tuple[RecordText, ...] = ()
    protocol_types: tuple[RecordText, ...] = ()


Commit: TypeAlias = CommitOffsets | CommitTransactionOffsets
Request: TypeAlias = (
    Commit | FetchOffsets | DeleteOffsets | DeleteGroup | ListGroups | WriteMarkers | ClassicRequest | ConsumerRequest
)


class OffsetsOfTopicDeleted(Message, frozen=True, tag=True):
    """Topics are deleted; one that gets the name of one of them later begins without offsets."""

    topics: tuple[str, ...]


Event: TypeAlias = (
    Request
    | LogEvent
    | TransactionVerified
    | LastDecisionAnswered
    | OffsetsOfTopicDeleted
    | TopicsKnown
    | ConnectionClosed
    | Tick
)


# What a coordinator wants to happen.


class OffsetsCommitted(Message, frozen=True, tag="OffsetsCommitted"):
    """The answer to a commit or a deletion."""

    request_id: int
    error_code: ErrorCode
    partition_errors: tuple[ErrorCode, ...] = ()
    """One for each partition of the request, in its order; none at all where the error code says everything."""

    question: int = NO_QUESTION
    """Where the connection guard refuses a commit: the number of its question to the connection."""


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
    pending: tuple[int, ...] = ()
    """Where stable offsets are asked for: the producers whose open transactions hold offsets of the group."""


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
Effect: TypeAlias = AppendRecords | VerifyTransaction | AskLastDecision | Reply | RequestFailed | ReloadPartition
