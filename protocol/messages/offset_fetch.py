"""OffsetFetch: reads the committed offsets of consumer groups.

One group up to version 7, a batch of groups from 8 on. `require_stable` waits out pending transactions.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int16,
    Int32,
    Int64,
    Message,
    NullableSince,
    Since,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class OffsetFetchRequestTopic(WireStruct, frozen=True):
    """The partitions of one topic, up to version 7."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestTopics(WireStruct, frozen=True):
    """The partitions of one topic, from version 8 on."""

    name: Annotated[str, Until(9), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(10), Ignorable()] = ZERO_UUID
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequestGroup(WireStruct, frozen=True):
    """A group and the topics asked about; null means all."""

    group_id: str = ""
    member_id: Annotated[str | None, Since(9), Ignorable()] = None
    member_epoch: Annotated[Int32, Since(9), Ignorable()] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()


class OffsetFetchRequest(Message, frozen=True):
    """Whose offsets to read."""

    wire = Wire(api_key=9, versions=(1, 10), flexible_since=6)

    group_id: Annotated[str, Until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, Until(7), NullableSince(2)] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], Since(8)] = ()
    require_stable: Annotated[bool, Since(7)] = False


class OffsetFetchResponsePartition(WireStruct, frozen=True):
    """The committed offset of one partition, up to version 7."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(5), Ignorable()] = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(WireStruct, frozen=True):
    """The offsets of one topic, up to version 7."""

    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponsePartitions(WireStruct, frozen=True):
    """The committed offset of one partition, from version 8 on."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(WireStruct, frozen=True):
    """The offsets of one topic, from version 8 on."""

    name: Annotated[str, Until(9), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(10), Ignorable()] = ZERO_UUID
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


class OffsetFetchResponseGroup(WireStruct, frozen=True):
    """The offsets of one group."""

    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: Int16 = 0


class OffsetFetchResponse(Message, frozen=True):
    """The committed offsets."""

    wire = Wire(api_key=9, versions=(1, 10), flexible_since=6)

    throttle_time_ms: Annotated[Int32, Since(3), Ignorable()] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], Until(7)] = ()
    error_code: Annotated[Int16, Since(2), Until(7), Ignorable()] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], Since(8)] = ()
