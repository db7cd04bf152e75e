"""ConsumerGroupDescribe: key 69, versions 0 to 1.

Clients send it to the coordinator of each group. A group of another protocol, or one that has only offsets, is not
found: admin clients then ask for it with DescribeGroups.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.actors.kafka_server.operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from eagleray.broker.groups.consumer.events import DescribeConsumerGroup, DescribedConsumer, NamedPartitions
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

API = ServedApi(69, 0, 1)


async def handle(request: ConsumerGroupDescribeRequest, call: AdminCall) -> ConsumerGroupDescribeResponse:
    """Describe groups."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    groups = await asyncio.gather(*(_describe(group, operations, call) for group in request.group_ids))
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _describe(group: str, operations: int, call: AdminCall) -> DescribedGroup:
    reply = await ask_coordinator(call, ProcessRole.GROUPS, DescribeConsumerGroup, group)
    if isinstance(reply, ErrorCode):
        return DescribedGroup(reply, reply.message, group)
    return DescribedGroup(
        group_id=group,
        group_state=reply.state,
        group_epoch=reply.epoch,
        assignment_epoch=reply.assignment_epoch,
        assignor_name=reply.assignor,
        members=tuple(map(_member, reply.members)),
        authorized_operations=operations,
    )


def _member(found: DescribedConsumer) -> Member:
    return Member(
        found.member_id,
        found.instance_id,
        found.rack_id,
        found.member_epoch,
        found.client_id,
        found.client_host,
        found.subscribed_topic_names,
        found.subscribed_topic_regex,
        _assignment(found.assignment),
        _assignment(found.target_assignment),
        found.member_type,
    )


def _assignment(topics: tuple[NamedPartitions, ...]) -> Assignment:
    return Assignment(tuple(TopicPartitions(topic.topic_id, topic.topic, topic.partitions) for topic in topics))
