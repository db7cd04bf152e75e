"""ConsumerGroupDescribe: shows the members and assignments of new-style groups."""

from typing import Annotated

from eagleray.protocol.messages.annotations import (
    ZERO_UUID,
    Ignorable,
    Int8,
    Int16,
    Int32,
    Message,
    Since,
    Uuid,
    Wire,
    WireStruct,
)


class ConsumerGroupDescribeRequest(Message, frozen=True):
    """Groups to show."""

    wire = Wire(api_key=69, versions=(0, 1), flexible_since=0)

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class TopicPartitions(WireStruct, frozen=True):
    """The partitions of one topic."""

    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


class Assignment(WireStruct, frozen=True):
    """The partitions of one member."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(WireStruct, frozen=True):
    """One member, with what it owns and what it shall own."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, Since(1), Ignorable()] = -1


class DescribedGroup(WireStruct, frozen=True):
    """One group and its members."""

    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -0x80000000


class ConsumerGroupDescribeResponse(Message, frozen=True):
    """The groups."""

    wire = Wire(api_key=69, versions=(0, 1), flexible_since=0)

    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()
