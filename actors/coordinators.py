"""Who coordinates what: transactional ids are spread over the partitions of an internal topic by their names."""

from __future__ import annotations

from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import NO_NODE
from eagleray.broker.controller.topics import TRANSACTION_STATE
from eagleray.broker.hashing import partition_for_name


def coordinator_of_transaction(image: MetadataImage, transactional_id: str) -> int:
    """The node that coordinates a transactional id; NO_NODE as long as nobody knows."""
    topic = image.topics.get(TRANSACTION_STATE)
    if topic is None:
        return NO_NODE
    return topic.partitions[partition_for_name(transactional_id, len(topic.partitions))].leader
