"""DeleteRecords: moves the start of partitions forward, so that older records are gone."""

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Wire, WireStruct


class DeleteRecordsPartition(WireStruct, frozen=True):
    """The offset below which one partition's records go; -1 means all."""

    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsRequest(Message, frozen=True):
    """Where partitions shall start."""

    wire = Wire(api_key=21, versions=(0, 2), flexible_since=2)

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(WireStruct, frozen=True):
    """Where one partition starts now."""

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=21, versions=(0, 2), flexible_since=2)

    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
