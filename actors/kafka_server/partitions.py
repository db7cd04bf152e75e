"""Which partitions a request to this node may name, and where a client should have gone instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from eagleray.actors.kafka_server.call import Call
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import INTERNAL_TOPICS
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.annotations import ZERO_UUID as NO_ID
from eagleray.protocol.messages.annotations import WireStruct

Hint = TypeVar("Hint", bound=WireStruct)
Part = TypeVar("Part")


def refusal_of(call: Call, partition: TopicPartition, *, if_internal: ErrorCode) -> ErrorCode:
    """Return why a request about a partition is not for this node, or NONE where it is.

    Only coordinators write to internal topics; clients may read them.
    """
    topic = call.context.image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition.topic in INTERNAL_TOPICS and if_internal is not ErrorCode.NONE:
        return if_internal
    if topic.partitions[partition.partition].leader != call.context.spec.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def topic_name(image: MetadataImage, name: str, topic_id: bytes) -> str | None:
    """Return the name of a topic that a request gives by name or, in newer versions, by id; None where it is gone."""
    if topic_id == NO_ID:
        return name
    topic = image.topic_with_id(topic_id)
    return None if topic is None else topic.name


def leader_hint(call: Call, partition: TopicPartition, hint: type[Hint]) -> Hint:
    """Name a partition's leader for a client that asked another node (KIP-951)."""
    found = call.context.image.find(partition)
    if found is None:
        return hint()
    return hint(leader_id=found.leader, leader_epoch=found.leader_epoch)


def endpoints(call: Call, leaders: set[int], endpoint: type[Hint]) -> tuple[Hint, ...]:
    """Return where the named leaders listen."""
    brokers = call.advertised.brokers
    return tuple(
        endpoint(node_id=node_id, host=brokers[node_id].host, port=brokers[node_id].port)
        for node_id in sorted(leaders)
        if node_id in brokers
    )


def by_topic(parts: Iterable[Part], topic_of: Callable[[Part], str]) -> Iterable[tuple[str, list[Part]]]:
    """Gather the parts of an answer that are about one topic, in the order in which topics first occur."""
    gathered: dict[str, list[Part]] = {}
    for part in parts:
        gathered.setdefault(topic_of(part), []).append(part)
    return gathered.items()
