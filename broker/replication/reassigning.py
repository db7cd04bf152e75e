"""Moving replicas: the new ones are added first, and the old ones go when all the new ones are in sync."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from eagleray.broker.controller.changes import Change
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.electing import changed
from eagleray.broker.replication.moving import completed, is_moving
from eagleray.protocol.errors import ErrorCode


def reassign(
    partition: TopicPartition, target: Sequence[int], image: MetadataImage
) -> tuple[ErrorCode, tuple[Change, ...]]:
    """Begin to move a partition's replicas to other nodes, in place of a move that may be under way."""
    state = image.find(partition)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()
    if not target or len(set(target)) < len(target) or not set(target) <= set(image.plan):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, ()
    # What an earlier move has added, and this one does not want, goes at once unless it is in sync by now.
    kept = [node_id for node_id in state.replicas if node_id not in state.adding or node_id in state.isr]
    after = msgspec.structs.replace(
        state,
        replicas=(*target, *(node_id for node_id in kept if node_id not in target)),
        adding=tuple(node_id for node_id in target if node_id not in kept),
        removing=tuple(node_id for node_id in kept if node_id not in target),
    )
    after = completed(after)
    return ErrorCode.NONE, () if after == state else changed([(partition, after)])


def cancel(partition: TopicPartition, image: MetadataImage) -> tuple[ErrorCode, tuple[Change, ...]]:
    """Go back to the replicas from before a move; those that were added go, unless they are in sync."""
    state = image.find(partition)
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ()
    if not is_moving(state):
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ()
    return reassign(partition, [node_id for node_id in state.replicas if node_id not in state.adding], image)
