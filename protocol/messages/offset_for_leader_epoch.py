"""OffsetForLeaderEpoch: finds where a leader epoch ended, so that a replica or consumer can truncate."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Int64, Message, Since, Wire, WireStruct


class OffsetForLeaderPartition(WireStruct, frozen=True):
    """The epoch to look up in one partition."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(Message, frozen=True):
    """Epochs to look up."""

    wire = Wire(api_key=23, versions=(2, 4), flexible_since=4)

    replica_id: Annotated[Int32, Since(3), Ignorable()] = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class EpochEndOffset(WireStruct, frozen=True):
    """Where the epoch ended in one partition."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(WireStruct, frozen=True):
    """The findings for one topic."""

    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(Message, frozen=True):
    """The end of every epoch asked about."""

    wire = Wire(api_key=23, versions=(2, 4), flexible_since=4)

    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
