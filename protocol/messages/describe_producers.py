"""DescribeProducers: shows the producers that a partition knows and their open transactions."""

from eagleray.protocol.messages.annotations import Int16, Int32, Int64, Message, Wire, WireStruct


class TopicRequest(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


class DescribeProducersRequest(Message, frozen=True):
    """Partitions to look into."""

    wire = Wire(api_key=61, versions=(0, 0), flexible_since=0)

    topics: tuple[TopicRequest, ...] = ()


class ProducerState(WireStruct, frozen=True):
    """What a partition knows about one producer."""

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(WireStruct, frozen=True):
    """The producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(WireStruct, frozen=True):
    """The producers of one topic."""

    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class DescribeProducersResponse(Message, frozen=True):
    """The producers of every partition."""

    wire = Wire(api_key=61, versions=(0, 0), flexible_since=0)

    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()
