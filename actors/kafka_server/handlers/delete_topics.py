"""DeleteTopics: key 20, versions 1 to 6.

By names, or from version 6 on also by ids. This node looks an id up; the controller refuses where another topic has got
the name since then.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller, until_seen
from eagleray.broker.controller.decisions import Refusal
from eagleray.broker.controller.events import DeleteTopics, TopicResult
from eagleray.broker.metadata.image import MetadataImage
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import ZERO_UUID
from eagleray.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

API = ServedApi(20, 1, 6)

_BOTH_OR_NEITHER = Refusal(ErrorCode.INVALID_REQUEST, "expected either the name or the id of a topic")
_UNKNOWN_ID = Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
_TIMED_OUT = Refusal(
    ErrorCode.REQUEST_TIMED_OUT, "the controller has not answered in time; the topic may have been deleted or not"
)


async def handle(request: DeleteTopicsRequest, call: AdminCall) -> DeleteTopicsResponse:
    """Delete topics."""
    wanted = request.topics or tuple(map(DeleteTopicState, request.topic_names))
    names = [_name_of(topic, call.context.image) for topic in wanted]
    known = [(name, topic.topic_id) for name, topic in zip(names, wanted, strict=True) if isinstance(name, str)]
    results = await _delete(known, request.timeout_ms, call) if known else {}
    answered = zip(wanted, names, strict=True)
    # A topic that is named twice is refused once.
    responses = dict.fromkeys(
        _refused(topic, name) if isinstance(name, Refusal) else _result(results[name]) for topic, name in answered
    )
    return DeleteTopicsResponse(responses=tuple(responses))


def _name_of(topic: DeleteTopicState, image: MetadataImage) -> str | Refusal:
    """Return the name of the topic that is meant, or why there is none."""
    if (topic.name is None) == (topic.topic_id == ZERO_UUID):
        return _BOTH_OR_NEITHER
    if topic.name is not None:
        return topic.name
    found = image.topic_with_id(topic.topic_id)
    return _UNKNOWN_ID if found is None else found.name


async def _delete(known: list[tuple[str, bytes]], timeout_ms: int, call: AdminCall) -> dict[str, TopicResult]:
    names = tuple(name for name, _ in known)
    expected_ids = {name: topic_id for name, topic_id in known if topic_id != ZERO_UUID}
    answer = await ask_controller(call, timeout_ms, DeleteTopics, names, expected_ids)
    if answer is None:
        return {name: TopicResult(name, *_TIMED_OUT) for name in names}
    deleted = [result.topic_id for result in answer.results if result.error_code is ErrorCode.NONE]
    await until_seen(lambda: not any(map(call.context.image.topic_with_id, deleted)))
    return {result.name: result for result in answer.results}


def _result(result: TopicResult) -> DeletableTopicResult:
    return DeletableTopicResult(result.name, result.topic_id, result.error_code, result.message)


def _refused(topic: DeleteTopicState, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(topic.name, topic.topic_id, *refusal)
