"""DeleteRecords: key 21, versions 0 to 2.

Clients send it to the leader of each partition.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_leader
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
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

API = ServedApi(21, 0, 2)


async def handle(request: DeleteRecordsRequest, call: AdminCall) -> DeleteRecordsResponse:
    """Raise the log start offsets of partitions."""
    topics = await asyncio.gather(*(_delete_in_topic(topic, request.timeout_ms, call) for topic in request.topics))
    return DeleteRecordsResponse(topics=tuple(topics))


async def _delete_in_topic(topic: DeleteRecordsTopic, timeout_ms: int, call: AdminCall) -> DeleteRecordsTopicResult:
    questions = (_delete(topic.name, partition, timeout_ms, call) for partition in topic.partitions)
    partitions = await asyncio.gather(*questions)
    return DeleteRecordsTopicResult(topic.name, tuple(partitions))


async def _delete(
    topic: str, wanted: DeleteRecordsPartition, timeout_ms: int, call: AdminCall
) -> DeleteRecordsPartitionResult:
    number = wanted.partition_index
    if topic in INTERNAL_TOPICS:
        # Wherever it is led.
        return DeleteRecordsPartitionResult(number, NO_OFFSET, ErrorCode.INVALID_TOPIC_EXCEPTION)
    reply = await ask_leader(call, TopicPartition(topic, number), DeleteRecords, wanted.offset, max(timeout_ms, 0))
    if isinstance(reply, ErrorCode):
        return DeleteRecordsPartitionResult(number, NO_OFFSET, reply)
    return DeleteRecordsPartitionResult(number, reply.log_start_offset)
