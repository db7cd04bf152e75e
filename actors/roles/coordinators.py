"""Who coordinates what: transactional ids are spread over the partitions of an internal topic by their names."""

from __future__ import annotations

from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.metadata.topics import TRANSACTION_STATE
from eagleray.broker.transactions.pools.names import log_partition_of


def coordinator_of_transaction(image: MetadataImage, transactional_id: str) -> int:
    """The node that coordinates a transactional id; NO_NODE while none does."""
    topic = image.topics.get(TRANSACTION_STATE)
    if topic is None:
        return NO_NODE
    return topic.partitions[log_partition_of(transactional_id, len(topic.partitions))].leader
