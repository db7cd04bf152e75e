"""ElectLeaders: has other replicas lead partitions.

Version 0 knows preferred replicas alone.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import Int8, Int16, Int32, Message, Since, Wire, WireStruct


class TopicPartitions(WireStruct, frozen=True):
    """The partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class ElectLeadersRequest(Message, frozen=True):
    """Where to elect, null means everywhere: type 0 the preferred replica, 1 any that lives where none is in sync."""

    wire = Wire(api_key=43, versions=(0, 2), flexible_since=2)

    election_type: Annotated[Int8, Since(1)] = 0
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: Int32 = 60000


class PartitionResult(WireStruct, frozen=True):
    """The outcome for one partition."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class ReplicaElectionResult(WireStruct, frozen=True):
    """The outcomes for one topic."""

    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class ElectLeadersResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=43, versions=(0, 2), flexible_since=2)

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Since(1)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()
