"""Questions that any node answers from its own image, and how a node keeps that image up to date."""

from __future__ import annotations

import msgspec

from eagleray.broker.controller.events import (
    ConfigsDescribed,
    DescribeConfigs,
    GetMetadata,
    MetadataAnswered,
    MetadataFollowed,
)
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topic_configs import TopicConfig
from eagleray.protocol.errors import ErrorCode


def answer_metadata(
    image: MetadataImage, request: GetMetadata, error_code: ErrorCode = ErrorCode.NONE
) -> MetadataAnswered:
    """Answer with the topics that were asked for and exist; a topic that does not exist is simply absent."""
    if request.topics is not None:
        topics = {name: image.topics[name] for name in request.topics if name in image.topics}
        image = msgspec.structs.replace(image, topics=topics)
    if image.credentials:
        # Who asks may be a client, which has no use for them; nodes follow the metadata.
        image = msgspec.structs.replace(image, credentials={})
    return MetadataAnswered(request.request_id, error_code, image)


def describe_configs(image: MetadataImage, request: DescribeConfigs) -> ConfigsDescribed:
    """Answer with every setting of a topic as it counts, and which of them the topic was given."""
    topic = image.topics.get(request.topic)
    if topic is None:
        return ConfigsDescribed(request.request_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    configs = TopicConfig.parse(topic.configs).as_text()
    return ConfigsDescribed(request.request_id, ErrorCode.NONE, configs, tuple(sorted(topic.configs)))


def follow(image: MetadataImage, answer: MetadataFollowed) -> MetadataImage:
    """Return the image that a follower has after an answer to what it asked with this one's version."""
    if answer.image is not None:
        return answer.image
    return image.apply(answer.changes) if answer.changes else image
