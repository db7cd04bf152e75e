"""Fetch: a consumer or a follower reads record batches from partitions.

Version 4 brings isolation levels, 7 incremental sessions, 9 leader epochs, 12 divergence detection, 13 topic ids.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int8,
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


class ReplicaState(WireStruct, frozen=True):
    """Which replica is fetching, when a follower is."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(WireStruct, frozen=True):
    """Where to read one partition, and how much."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Since(9), Ignorable()] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, Since(12)] = -1
    log_start_offset: Annotated[Int64, Since(5), Ignorable()] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(17), Tagged(0), Ignorable()] = ZERO_UUID
    high_watermark: Annotated[Int64, Since(18), Tagged(1), Ignorable()] = 0x7FFFFFFFFFFFFFFF


class FetchTopic(WireStruct, frozen=True):
    """The partitions of one topic to read."""

    topic: Annotated[str, Until(12), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(13), Ignorable()] = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


class ForgottenTopic(WireStruct, frozen=True):
    """Partitions that leave the fetch session."""

    topic: Annotated[str, Until(12), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(13), Ignorable()] = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class FetchRequest(Message, frozen=True):
    """What to read and how long to wait for it."""

    wire = Wire(api_key=1, versions=(4, 18), flexible_since=12)

    cluster_id: Annotated[str | None, Since(12), Tagged(0), Ignorable()] = None
    replica_id: Annotated[Int32, Until(14)] = -1
    replica_state: Annotated[ReplicaState, Since(15), Tagged(1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, Since(7), Ignorable()] = 0
    session_epoch: Annotated[Int32, Since(7), Ignorable()] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], Since(7)] = ()
    rack_id: Annotated[str, Since(11), Ignorable()] = ""


class EpochEndOffset(WireStruct, frozen=True):
    """Where the reader's history parted from the leader's."""

    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(WireStruct, frozen=True):
    """The leader that the reader should have asked."""

    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(WireStruct, frozen=True):
    """A snapshot to fetch instead of the log."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(WireStruct, frozen=True):
    """A producer whose records from an offset on were aborted."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(WireStruct, frozen=True):
    """What one partition gave."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, Since(5), Ignorable()] = -1
    diverging_epoch: Annotated[EpochEndOffset, Since(12), Tagged(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, Since(12), Tagged(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, Since(12), Tagged(2)] = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: Annotated[Int32, Since(11)] = -1
    records: Records | None = None


class FetchableTopicResponse(WireStruct, frozen=True):
    """What the partitions of one topic gave."""

    topic: Annotated[str, Until(12), Ignorable()] = ""
    topic_id: Annotated[Uuid, Since(13), Ignorable()] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


class NodeEndpoint(WireStruct, frozen=True):
    """How to reach a leader named in this response."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


class FetchResponse(Message, frozen=True):
    """Record data, with what a reader needs to leave out aborted records."""

    wire = Wire(api_key=1, versions=(4, 18), flexible_since=12)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(7), Ignorable()] = 0
    session_id: Annotated[Int32, Since(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], Since(16), Tagged(0)] = ()
