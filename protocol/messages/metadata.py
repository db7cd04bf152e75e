"""Metadata: asks for brokers, topics and the leaders of partitions.

Null topics mean all topics, an empty list none; version 0 knows only the empty list, and there it means all.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int16,
    Int32,
    Message,
    NullableSince,
    Since,
    Until,
    Uuid,
    Wire,
    WireStruct,
)


class MetadataRequestTopic(WireStruct, frozen=True):
    """A topic to look up, by name or by id."""

    topic_id: Annotated[Uuid, Since(10), Ignorable()] = ZERO_UUID
    name: Annotated[str | None, NullableSince(10)] = ""


class MetadataRequest(Message, frozen=True):
    """Which topics the client wants to know about."""

    wire = Wire(api_key=3, versions=(0, 13), flexible_since=9)

    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, NullableSince(1)] = ()
    allow_auto_topic_creation: Annotated[bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[bool, Since(8)] = False


class MetadataResponseBroker(WireStruct, frozen=True):
    """A broker and how to reach it."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, Since(1), Ignorable()] = None


class MetadataResponsePartition(WireStruct, frozen=True):
    """A partition with its leader and replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Since(7), Ignorable()] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], Since(5), Ignorable()] = ()


class MetadataResponseTopic(WireStruct, frozen=True):
    """A topic and its partitions."""

    error_code: Int16 = 0
    name: Annotated[str | None, NullableSince(12)] = ""
    topic_id: Annotated[Uuid, Since(10), Ignorable()] = ZERO_UUID
    is_internal: Annotated[bool, Since(1), Ignorable()] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, Since(8)] = -0x80000000


class MetadataResponse(Message, frozen=True):
    """The cluster as the broker sees it."""

    wire = Wire(api_key=3, versions=(0, 13), flexible_since=9)

    throttle_time_ms: Annotated[Int32, Since(3), Ignorable()] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, Since(2), Ignorable()] = None
    controller_id: Annotated[Int32, Since(1), Ignorable()] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = -0x80000000
    error_code: Annotated[Int16, Since(13), Ignorable()] = 0
