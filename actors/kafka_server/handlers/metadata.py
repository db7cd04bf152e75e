"""Metadata: key 3, versions 0 to 13.

Brokers, topics and leaders, from the node's metadata image. A topic that a client names and this node does not know is
created, where `auto.create.topics.enable` and the client allow it. Otherwise the controller is asked whether it exists
by now, because a client that has just created it elsewhere takes "unknown" for a lasting answer. In both cases the
response waits a moment until this node knows the topic.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from eagleray.actors.kafka_server.advertised import offline_replicas, rack_of
from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.controller.events import CreateTopics, GetMetadata, MetadataAnswered, NewTopic, TopicsAnswered
from eagleray.broker.metadata.topic_names import problem_with
from eagleray.broker.metadata.topics import INTERNAL_TOPICS, NO_TOPIC_ID, PartitionImage, TopicImage
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

API = ServedApi(3, 0, 13)

_HEARD_INTERVAL_S: Final = 0.005
_HEARD_TRIES: Final = 100


def handle(request: MetadataRequest, call: Call) -> None:
    """Answer, perhaps after creating what is missing, or hearing of it."""
    missing = _missing(request, call)
    if not missing:
        _answer(request, call, {})
    elif request.allow_auto_topic_creation and call.listener.config.auto_create_topics_enable:
        _create(request, call, missing)
    else:
        _ask_for(request, call, missing)


def _missing(request: MetadataRequest, call: Call) -> list[str]:
    """Return the topics that a client names, which could exist and are not known here."""
    topics = call.context.image.topics
    names = [topic.name for topic in request.topics or () if topic.name and topic.topic_id == NO_TOPIC_ID]
    return [
        name
        for name in dict.fromkeys(names)
        if name not in topics and name not in INTERNAL_TOPICS and problem_with(name) is None
    ]


def _create(request: MetadataRequest, call: Call, missing: list[str]) -> None:
    def created(reply: TopicsAnswered | None) -> None:
        refused = {} if reply is None else {result.name: result.error_code for result in reply.results}
        wanted = [name for name in missing if refused.get(name) is ErrorCode.NONE]
        _answer_when_heard(request, call, refused, wanted, _HEARD_TRIES)

    call.ask_controller(created, CreateTopics, tuple(NewTopic(name) for name in missing))


def _ask_for(request: MetadataRequest, call: Call, missing: list[str]) -> None:
    def told(reply: MetadataAnswered | None) -> None:
        wanted = [] if reply is None else [name for name in missing if name in reply.image.topics]
        _answer_when_heard(request, call, dict.fromkeys(wanted, ErrorCode.NONE), wanted, _HEARD_TRIES)

    call.ask_controller(told, GetMetadata, tuple(missing))


def _answer_when_heard(
    request: MetadataRequest, call: Call, refused: dict[str, ErrorCode], wanted: list[str], tries: int
) -> None:
    """Answer as soon as this node knows the new topics, so that the client need not ask again."""
    topics = call.context.image.topics
    if tries == 0 or all(name in topics for name in wanted):
        _answer(request, call, refused)
        return
    call.after(_HEARD_INTERVAL_S, _answer_when_heard, request, call, refused, wanted, tries - 1)


def _answer(request: MetadataRequest, call: Call, refused: dict[str, ErrorCode]) -> None:
    image, advertised, version = call.context.image, call.advertised, call.api_version
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if wants_all:
        topics = [_describe(call, topic) for topic in image.topics.values()]
    else:
        topics = [_look_up(call, topic, refused) for topic in request.topics or ()]
    call.answer(
        MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node.node_id, node.host, node.port, rack_of(image, node.node_id))
                for node in advertised.brokers.values()
            ),
            cluster_id=image.cluster_id,
            controller_id=advertised.controller_id,
            topics=tuple(topics),
        )
    )


def _look_up(call: Call, asked: MetadataRequestTopic, refused: dict[str, ErrorCode]) -> MetadataResponseTopic:
    image = call.context.image
    if asked.topic_id != NO_TOPIC_ID:
        topic = image.topic_with_id(asked.topic_id)
        if topic is None:
            name = None if call.api_version >= 12 else ""
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, name, asked.topic_id)
        return _describe(call, topic)
    name = asked.name or ""
    found = image.topics.get(name)
    if found is not None:
        return _describe(call, found)
    return MetadataResponseTopic(_why_missing(name, refused), name)


def _why_missing(name: str, refused: dict[str, ErrorCode]) -> ErrorCode:
    if problem_with(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    why = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # Created, or created by another client meanwhile, and this node has not heard of it yet.
    return ErrorCode.LEADER_NOT_AVAILABLE if why in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS} else why


def _describe(call: Call, topic: TopicImage) -> MetadataResponseTopic:
    brokers = call.advertised.brokers
    partitions = tuple(
        _describe_partition(number, partition, brokers) for number, partition in enumerate(topic.partitions)
    )
    return MetadataResponseTopic(ErrorCode.NONE, topic.name, topic.topic_id, topic.is_internal, partitions)


def _describe_partition(number: int, partition: PartitionImage, brokers: Container[int]) -> MetadataResponsePartition:
    is_led = partition.leader in brokers
    return MetadataResponsePartition(
        ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        number,
        partition.leader if is_led else -1,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        offline_replicas(partition, brokers),
    )
