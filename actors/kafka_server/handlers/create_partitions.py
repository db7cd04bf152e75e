"""CreatePartitions: key 37, versions 0 to 3.

The controller decides over each topic on its own.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller, until_seen
from eagleray.broker.controller.decisions import repeated
from eagleray.broker.controller.events import GrowTopic, TopicResult
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

API = ServedApi(37, 0, 3)


async def handle(request: CreatePartitionsRequest, call: AdminCall) -> CreatePartitionsResponse:
    """Give topics more partitions, or see whether they could have them."""
    wrong = repeated(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if topic.name not in wrong]
    results = [_refused(name) for name in sorted(wrong)]
    results += await asyncio.gather(*(_grow(topic, request, call) for topic in topics))
    return CreatePartitionsResponse(results=tuple(results))


async def _grow(
    topic: CreatePartitionsTopic, request: CreatePartitionsRequest, call: AdminCall
) -> CreatePartitionsTopicResult:
    assignments = tuple(assignment.broker_ids for assignment in topic.assignments or ())
    fields = (topic.name, topic.count, request.validate_only, assignments)
    answer = await ask_controller(call, request.timeout_ms, GrowTopic, *fields)
    if answer is None:
        text = "the controller has not answered in time; the partitions may have been added or not"
        return CreatePartitionsTopicResult(topic.name, ErrorCode.REQUEST_TIMED_OUT, text)
    result: TopicResult = answer.results[0]
    if result.error_code is ErrorCode.NONE and not request.validate_only:
        await until_seen(lambda: _count(topic.name, call) >= topic.count)
    return CreatePartitionsTopicResult(topic.name, result.error_code, result.message)


def _count(name: str, call: AdminCall) -> int:
    topic = call.context.image.topics.get(name)
    return 0 if topic is None else len(topic.partitions)


def _refused(name: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
