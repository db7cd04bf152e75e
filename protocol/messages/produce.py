"""Produce: a producer appends record batches to partitions.

Topics are named up to version 12 and go by id from 13 on. A transaction needs its partitions added first up to version
11; from 12 on the partition is added by the append itself.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    Since,
    Tagged,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class PartitionProduceData(WireStruct, frozen=True):
    """The batches for one partition."""

    index: Int32 = 0
    records: Records | None = None


class TopicProduceData(WireStruct, frozen=True):
    """The partitions of one topic to append to."""

    name: Annotated[str, Until(12), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(13), Ignorable()] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


class ProduceRequest(Message, frozen=True):
    """Batches to append, and how many replicas must have them before the answer."""

    wire = Wire(api_key=0, versions=(3, 13), flexible_since=9)

    transactional_id: str | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()


class BatchIndexAndErrorMessage(WireStruct, frozen=True):
    """A record that made its batch fail."""

    batch_index: Int32 = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(WireStruct, frozen=True):
    """The leader that the client should have asked."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(WireStruct, frozen=True):
    """Where one partition's batches went, or why they did not."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5), Ignorable()] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], Since(8), Ignorable()] = ()
    error_message: Annotated[str | None, Since(8), Ignorable()] = None
    current_leader: Annotated[LeaderIdAndEpoch, Since(10), Tagged(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: Annotated[str, Until(12), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(13), Ignorable()] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class NodeEndpoint(WireStruct, frozen=True):
    """How to reach a leader named in this response."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class ProduceResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=0, versions=(3, 13), flexible_since=9)

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Since(10), Tagged(0)] = ()
