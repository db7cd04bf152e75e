"""ListOffsets: finds the offset of a timestamp, or the ends of a partition.

Version 2 brings isolation levels, 4 leader epochs; later versions give new special timestamps a meaning.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    Ignorable,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Since,
    Wire,
    WireStruct,
)


class ListOffsetsPartition(WireStruct, frozen=True):
    """A timestamp to look up in one partition."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(4), Ignorable()] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Message, frozen=True):
    """Timestamps to look up."""

    wire = Wire(api_key=2, versions=(1, 11), flexible_since=6)

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, Since(10), Ignorable()] = 0


class ListOffsetsPartitionResponse(WireStruct, frozen=True):
    """The first record at or after the timestamp."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, Since(4)] = -1


class ListOffsetsTopicResponse(WireStruct, frozen=True):
    """The findings for one topic."""

    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Message, frozen=True):
    """The offset found for every partition."""

    wire = Wire(api_key=2, versions=(1, 11), flexible_since=6)

    throttle_time_ms: Annotated[Int32, Since(2), Ignorable()] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
