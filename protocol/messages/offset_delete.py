"""OffsetDelete: forgets the committed offsets of a group for some partitions."""

from eagleray.protocol.messages.annotations import Int16, Int32, Message, Wire, WireStruct


class OffsetDeleteRequestPartition(WireStruct, frozen=True):
    """A partition to forget."""

    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequest(Message, frozen=True):
    """The group and what it forgets."""

    wire = Wire(api_key=47, versions=(0, 0))

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteResponsePartition(WireStruct, frozen=True):
    """The outcome for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=47, versions=(0, 0))

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
