"""ConsumerGroupHeartbeat: a member of a new-style group joins, stays, reports or leaves.

Member epoch 0 joins, -1 leaves, -2 leaves for a while as a static member.
"""

from typing import Annotated

from eagleray.protocol.messages.annotations import ZERO_UUID, Int16, Int32, Message, Since, Uuid, Wire, WireStruct


class TopicPartitions(WireStruct, frozen=True):
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ConsumerGroupHeartbeatRequest(Message, frozen=True):
    """What has changed about the member since its last heartbeat; null means nothing."""

    wire = Wire(api_key=68, versions=(0, 1), flexible_since=0)

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: Annotated[str | None, Since(1)] = None
    server_assignor: str | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class Assignment(WireStruct, frozen=True):
    """The partitions that the member shall own."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponse(Message, frozen=True):
    """The member's epoch and, when it changed, its assignment."""

    wire = Wire(api_key=68, versions=(0, 1), flexible_since=0)

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
