"""DeleteRecords: key 21, versions 0 to 2.

Clients send it to the leader of each partition.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.wire.asking import AdminCall, ask_leader
from eagleray.broker.controller.topics import INTERNAL_TOPICS
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import NO_OFFSET, DeleteRecords
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)


async def handle(request: DeleteRecordsRequest, call: AdminCall) -> DeleteRecordsResponse:
    """Have partitions begin later."""
    topics = await asyncio.gather(*(_delete_in_topic(topic, call) for topic in request.topics))
    return DeleteRecordsResponse(topics=tuple(topics))


async def _delete_in_topic(topic: DeleteRecordsTopic, call: AdminCall) -> DeleteRecordsTopicResult:
    partitions = await asyncio.gather(*(_delete(topic.name, partition, call) for partition in topic.partitions))
    return DeleteRecordsTopicResult(topic.name, tuple(partitions))


async def _delete(topic: str, wanted: DeleteRecordsPartition, call: AdminCall) -> DeleteRecordsPartitionResult:
    number = wanted.partition_index
    if topic in INTERNAL_TOPICS:
        # What coordinators keep there is their state, and not a client's to delete.
        return DeleteRecordsPartitionResult(number, NO_OFFSET, ErrorCode.INVALID_TOPIC_EXCEPTION)
    reply = await ask_leader(call, TopicPartition(topic, number), DeleteRecords, wanted.offset)
    if isinstance(reply, ErrorCode):
        return DeleteRecordsPartitionResult(number, NO_OFFSET, reply)
    return DeleteRecordsPartitionResult(number, reply.log_start_offset)
