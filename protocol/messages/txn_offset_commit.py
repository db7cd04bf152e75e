"""TxnOffsetCommit: stores the offsets of a consumer group within a transaction.

Version 3 names the member, so that a zombie of the group is fenced; from 5 on the group is added implicitly.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int16,
    Int32,
    Int64,
    Message,
    Since,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class TxnOffsetCommitRequestPartition(WireStruct, frozen=True):
    """The offset to store for one partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(2), Ignorable()] = -1
    committed_metadata: str | None = ""


class TxnOffsetCommitRequestTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: Annotated[str, Until(5), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(6), Ignorable()] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequest(Message, frozen=True):
    """Offsets that become visible when the transaction commits."""

    wire = Wire(api_key=28, versions=(0, 6), flexible_since=3)

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, Since(3)] = -1
    member_id: Annotated[str, Since(3)] = ""
    group_instance_id: Annotated[str | None, Since(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitResponsePartition(WireStruct, frozen=True):
    """Whether one partition's offset is pending now."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: Annotated[str, Until(5), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(6), Ignorable()] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=28, versions=(0, 6), flexible_since=3)

    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
