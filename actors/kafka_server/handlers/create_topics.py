"""CreateTopics: key 19, versions 2 to 7.

The controller decides over each topic on its own. This node itself refuses settings without a value, and assignments
that leave partitions out.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_controller, until_seen
from eagleray.broker.controller.config_entries import topic_entries
from eagleray.broker.controller.decisions import Refusal
from eagleray.broker.controller.events import CreateTopics, NewTopic, TopicResult
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

API = ServedApi(19, 2, 7)

_TIMED_OUT = Refusal(
    ErrorCode.REQUEST_TIMED_OUT, "the controller has not answered in time; the topic may have been created or not"
)


async def handle(request: CreateTopicsRequest, call: AdminCall) -> CreateTopicsResponse:
    """Create topics, or validate the request alone."""
    made = [(topic.name, _new_topic(topic)) for topic in request.topics]
    results = {name: TopicResult(name, *found) for name, found in made if isinstance(found, Refusal)}
    topics = tuple(found for name, found in made if isinstance(found, NewTopic) and name not in results)
    if topics:
        answer = await ask_controller(call, request.timeout_ms, CreateTopics, topics, request.validate_only)
        if answer is None:
            results |= {topic.name: TopicResult(topic.name, *_TIMED_OUT) for topic in topics}
        else:
            results |= {result.name: result for result in answer.results}
    if not request.validate_only:
        await _until_created([*results.values()], call)
    given = {topic.name: topic.configs for topic in topics}
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=tuple(_result(results[name], given.get(name, {}), call) for name in names))


def _new_topic(topic: CreatableTopic) -> NewTopic | Refusal:
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    if len(configs) < len(topic.configs):
        return Refusal(ErrorCode.INVALID_CONFIG, "a setting has no value, or is named twice; expected each once")
    by_number = {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments}
    if sorted(by_number) != list(range(len(topic.assignments))):
        text = f"partitions {[assignment.partition_index for assignment in topic.assignments]} are assigned"
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{text}; expected each from 0 on, once")
    assignments = tuple(by_number[number] for number in range(len(by_number)))
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, configs, assignments)


async def _until_created(results: list[TopicResult], call: AdminCall) -> None:
    created = [result for result in results if result.error_code is ErrorCode.NONE]
    await until_seen(lambda: all(call.context.image.topic_with_id(result.topic_id) for result in created))


def _result(result: TopicResult, configs: dict[str, str], call: AdminCall) -> CreatableTopicResult:
    if result.error_code is not ErrorCode.NONE:
        return CreatableTopicResult(result.name, error_code=result.error_code, error_message=result.message)
    entries = topic_entries(configs, call.context.spec.settings)
    return CreatableTopicResult(
        result.name,
        result.topic_id,
        error_message=None,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=tuple(
            CreatableTopicConfigs(entry.name, entry.values[0].text, entry.is_read_only, entry.values[0].source)
            for entry in entries
        ),
    )
