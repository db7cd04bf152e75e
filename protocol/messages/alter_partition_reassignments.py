"""AlterPartitionReassignments: moves the replicas of partitions to other brokers, or ends such moves."""

from typing import Annotated

from eagleray.protocol.messages.annotations import Ignorable, Int16, Int32, Message, Since, Wire, WireStruct


class ReassignablePartition(WireStruct, frozen=True):
    """A partition and where its replicas are to be; null ends a move that is under way."""

    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


class ReassignableTopic(WireStruct, frozen=True):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class AlterPartitionReassignmentsRequest(Message, frozen=True):
    """The moves, and whether a partition may have more or fewer replicas by them."""

    wire = Wire(api_key=45, versions=(0, 1), flexible_since=0)

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[bool, Since(1)] = True
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignablePartitionResponse(WireStruct, frozen=True):
    """The outcome for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class ReassignableTopicResponse(WireStruct, frozen=True):
    """The outcomes for one topic."""

    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class AlterPartitionReassignmentsResponse(Message, frozen=True):
    """The outcome for every partition."""

    wire = Wire(api_key=45, versions=(0, 1), flexible_since=0)

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, Since(1), Ignorable()] = True
    error_code: Int16 = 0
    error_message: str | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()
