"""OffsetDelete: key 47, version 0.

Clients send it to the coordinator of the group.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.broker.groups.events import DeleteOffsets
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

API = ServedApi(47, 0, 0)


async def handle(request: OffsetDeleteRequest, call: AdminCall) -> OffsetDeleteResponse:
    """Delete a group's offsets of partitions."""
    asked = [TopicPartition(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    known = tuple(partition for partition in asked if call.context.image.find(partition) is not None)
    reply = await ask_coordinator(call, ProcessRole.GROUPS, DeleteOffsets, request.group_id, known)
    if isinstance(reply, ErrorCode):
        return OffsetDeleteResponse(reply)
    outcomes = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    outcomes |= dict(zip(known, reply.partition_errors or (ErrorCode.NONE,) * len(known), strict=True))
    topics = (
        OffsetDeleteResponseTopic(
            topic.name, tuple(_result(topic.name, each.partition_index, outcomes) for each in topic.partitions)
        )
        for topic in request.topics
    )
    return OffsetDeleteResponse(topics=tuple(topics))


def _result(topic: str, number: int, outcomes: dict[TopicPartition, ErrorCode]) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(number, outcomes[TopicPartition(topic, number)])
