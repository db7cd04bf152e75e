"""DescribeProducers: key 61, version 0.

Clients send it to the leader of each partition. Internal topics have the producers of offsets in transactions, or none.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_leader
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import DescribeProducers, ProducerDescription
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

API = ServedApi(61, 0, 0)


async def handle(request: DescribeProducersRequest, call: AdminCall) -> DescribeProducersResponse:
    """Return which producers write to partitions, and since when they have transactions open."""
    topics = await asyncio.gather(*(_describe_topic(topic, call) for topic in request.topics))
    return DescribeProducersResponse(topics=tuple(topics))


async def _describe_topic(topic: TopicRequest, call: AdminCall) -> TopicResponse:
    partitions = await asyncio.gather(*(_describe(topic.name, number, call) for number in topic.partition_indexes))
    return TopicResponse(topic.name, tuple(partitions))


async def _describe(topic: str, number: int, call: AdminCall) -> PartitionResponse:
    reply = await ask_leader(call, TopicPartition(topic, number), DescribeProducers)
    if isinstance(reply, ErrorCode):
        return PartitionResponse(number, reply, reply.message)
    return PartitionResponse(number, active_producers=tuple(map(_state_of, reply.producers)))


def _state_of(found: ProducerDescription) -> ProducerState:
    return ProducerState(
        found.producer.producer_id,
        found.producer.epoch,
        found.last_sequence,
        found.last_timestamp_ms,
        found.coordinator_epoch,
        found.open_since_offset,
    )
