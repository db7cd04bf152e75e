"""DescribeTopicPartitions: key 75, version 0.

Pages through the partitions of topics, in the order of their names; answered from this node's metadata.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.advertised import offline_replicas
from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.operations import TOPIC_OPERATIONS
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topic_names import problem_with
from eagleray.broker.metadata.topics import PartitionImage, TopicImage
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

API = ServedApi(75, 0, 0)

_LARGEST_PAGE: Final = 2000


async def handle(request: DescribeTopicPartitionsRequest, call: AdminCall) -> DescribeTopicPartitionsResponse:
    """Show one page of partitions, and where the next begins."""
    cursor = request.cursor or Cursor()
    asked = {topic.name for topic in request.topics}
    if cursor.partition_index < 0 or (asked and request.cursor is not None and cursor.topic_name not in asked):
        return _refused(sorted(asked | {cursor.topic_name}))
    names = sorted(name for name in asked or call.context.image.topics if name >= cursor.topic_name)
    left = max(min(request.response_partition_limit, _LARGEST_PAGE), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        first = cursor.partition_index if name == cursor.topic_name else 0
        if left == 0:
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=Cursor(name, first))
        described = _describe(name, first, left, call)
        topics.append(described)
        left -= len(described.partitions)
        after = first + len(described.partitions)
        if after < _count(name, call):
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=Cursor(name, after))
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    topics = (DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, name) for name in names)
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _count(name: str, call: AdminCall) -> int:
    topic = call.context.image.topics.get(name)
    return 0 if topic is None else len(topic.partitions)


def _describe(name: str, first: int, limit: int, call: AdminCall) -> DescribeTopicPartitionsResponseTopic:
    topic = call.context.image.topics.get(name)
    if topic is None:
        is_legal = problem_with(name) is None
        error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        return DescribeTopicPartitionsResponseTopic(error_code, name)
    return DescribeTopicPartitionsResponseTopic(
        ErrorCode.NONE,
        name,
        topic.topic_id,
        topic.is_internal,
        tuple(_partition(number, topic.partitions[number], call) for number in _page(topic, first, limit)),
        TOPIC_OPERATIONS,
    )


def _page(topic: TopicImage, first: int, limit: int) -> range:
    return range(first, min(first + limit, len(topic.partitions)))


def _partition(number: int, image: PartitionImage, call: AdminCall) -> DescribeTopicPartitionsResponsePartition:
    brokers = call.advertised.brokers
    is_led = image.leader in brokers
    return DescribeTopicPartitionsResponsePartition(
        ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        number,
        image.leader if is_led else NO_NODE,
        image.leader_epoch,
        image.replicas,
        image.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=offline_replicas(image, brokers),
    )
