"""Who coordinates what: ids and groups are spread over the partitions of internal topics by their names."""

from __future__ import annotations

from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.controller.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from eagleray.broker.hashing import partition_for_name


def _leader_for(image: MetadataImage, topic_name: str, name: str) -> int:
    topic = image.topics.get(topic_name)
    if topic is None:
        return NO_NODE
    return topic.partitions[partition_for_name(name, len(topic.partitions))].leader


def coordinator_of_transaction(image: MetadataImage, transactional_id: str) -> int:
    """The node that coordinates a transactional id; NO_NODE as long as nobody knows."""
    return _leader_for(image, TRANSACTION_STATE, transactional_id)


def coordinator_of_group(image: MetadataImage, group: str) -> int:
    """The node that coordinates a group; NO_NODE as long as nobody knows."""
    return _leader_for(image, CONSUMER_OFFSETS, group)
