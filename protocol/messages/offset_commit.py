"""OffsetCommit: stores the offsets of a consumer group outside a transaction."""

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


class OffsetCommitRequestPartition(WireStruct, frozen=True):
    """The offset to store for one partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(6), Ignorable()] = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: Annotated[str, Until(9), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(10), Ignorable()] = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(Message, frozen=True):
    """Offsets to store on behalf of a member."""

    wire = Wire(api_key=8, versions=(2, 10), flexible_since=8)

    group_id: str = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(7)] = None
    retention_time_ms: Annotated[Int64, Until(4), Ignorable()] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(WireStruct, frozen=True):
    """Whether one partition's offset was stored."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: Annotated[str, Until(9), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(10), Ignorable()] = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=8, versions=(2, 10), flexible_since=8)

    throttle_time_ms: Annotated[Int32, Since(3), Ignorable()] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
