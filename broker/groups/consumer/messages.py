"""From events to Kafka's messages, by which groups decide, and back."""

from __future__ import annotations

from collections.abc import Iterable

from eagleray.broker.groups.consumer.events import (
    ConsumerGroupDescribed,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswered,
    DescribedConsumer,
    NamedPartitions,
    PartitionsOfTopic,
)
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member
from eagleray.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def request_of(event: ConsumerHeartbeat) -> ConsumerGroupHeartbeatRequest:
    """Give the request that an event stands for."""
    return ConsumerGroupHeartbeatRequest(
        group_id=event.group,
        member_id=event.member_id,
        member_epoch=event.member_epoch,
        instance_id=event.instance_id,
        rack_id=event.rack_id,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        subscribed_topic_names=event.subscribed_topic_names,
        subscribed_topic_regex=event.subscribed_topic_regex,
        server_assignor=event.server_assignor,
        topic_partitions=None if event.owned is None else tuple(map(_to_wire, event.owned)),
    )


def _to_wire(topic: PartitionsOfTopic) -> TopicPartitions:
    return TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)


def answer_of(request_id: int, response: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatAnswered:
    """Give the answer that a response comes to."""
    assignment = response.assignment
    return ConsumerHeartbeatAnswered(
        request_id,
        ErrorCode(response.error_code),
        response.error_message,
        response.member_id,
        response.member_epoch,
        response.heartbeat_interval_ms,
        None if assignment is None else from_wire(assignment.topic_partitions),
    )


def from_wire(topics: Iterable[TopicPartitions]) -> tuple[PartitionsOfTopic, ...]:
    """Read the partitions of a heartbeat."""
    return tuple(PartitionsOfTopic(topic.topic_id, topic.partitions) for topic in topics)


def description_of(request_id: int, group: DescribedGroup) -> ConsumerGroupDescribed:
    """Give the answer that the description of a group comes to."""
    return ConsumerGroupDescribed(
        request_id,
        ErrorCode(group.error_code),
        group.error_message,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        tuple(map(_described, group.members)),
    )


def _described(member: Member) -> DescribedConsumer:
    return DescribedConsumer(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.member_epoch,
        member.client_id,
        member.client_host,
        member.subscribed_topic_names,
        member.subscribed_topic_regex,
        _named(member.assignment),
        _named(member.target_assignment),
        member.member_type,
    )


def _named(assignment: Assignment) -> tuple[NamedPartitions, ...]:
    return tuple(
        NamedPartitions(topic.topic_id, topic.topic_name, topic.partitions) for topic in assignment.topic_partitions
    )
