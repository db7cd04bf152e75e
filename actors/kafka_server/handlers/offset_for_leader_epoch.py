"""OffsetForLeaderEpoch: key 23, versions 2 to 4.

Consumers send it to the leader of each partition, to find out whether their position was truncated.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_leader
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions import events
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

API = ServedApi(23, 2, 4)


async def handle(request: OffsetForLeaderEpochRequest, call: AdminCall) -> OffsetForLeaderEpochResponse:
    """Return the end offsets of leader epochs."""
    topics = await asyncio.gather(*(_find_in_topic(topic, call) for topic in request.topics))
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


async def _find_in_topic(topic: OffsetForLeaderTopic, call: AdminCall) -> OffsetForLeaderTopicResult:
    partitions = await asyncio.gather(*(_find(topic.topic, partition, call) for partition in topic.partitions))
    return OffsetForLeaderTopicResult(topic.topic, tuple(partitions))


async def _find(topic: str, wanted: OffsetForLeaderPartition, call: AdminCall) -> EpochEndOffset:
    partition = TopicPartition(topic, wanted.partition)
    fields = (wanted.leader_epoch, wanted.current_leader_epoch)
    reply = await ask_leader(call, partition, events.EpochEndOffset, *fields)
    if isinstance(reply, ErrorCode):
        return EpochEndOffset(reply, wanted.partition)
    return EpochEndOffset(ErrorCode.NONE, wanted.partition, reply.epoch, reply.end_offset)
