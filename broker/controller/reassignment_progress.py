"""Partitions whose replicas are being moved: how far that is."""

from __future__ import annotations

import msgspec

from eagleray.broker.metadata.topics import PartitionImage


def target_of(state: PartitionImage) -> tuple[int, ...]:
    """Return the replicas that stay, in the order of preference."""
    return tuple(node_id for node_id in state.replicas if node_id not in state.removing)


def is_moving(state: PartitionImage) -> bool:
    """Whether a partition's replicas are being moved."""
    return bool(state.adding or state.removing)


def waits_for_leader(state: PartitionImage) -> bool:
    """Whether a move could be completed, but for the leader, which does not stay and has to hand over first."""
    return _can_complete(state) and state.leader in state.removing


def completed(state: PartitionImage) -> PartitionImage:
    """Complete a move whose new replicas are all in sync, unless the leader has to hand over first."""
    if not _can_complete(state) or state.leader in state.removing:
        return state
    target = target_of(state)
    isr = tuple(node_id for node_id in state.isr if node_id in target)
    return msgspec.structs.replace(state, replicas=target, isr=isr, adding=(), removing=())


def fencing_removed(before: PartitionImage, after: PartitionImage) -> PartitionImage:
    """Begin another leader epoch where a replica goes, as Kafka does, also if the leader stays.

    The replica may come back before its node has heard that it went. What that node answers until then is of the older
    epoch, and does not count: the log that it answers from goes when it hears of it.
    """
    if after.leader_epoch > before.leader_epoch or set(before.replicas) <= set(after.replicas):
        return after
    return msgspec.structs.replace(after, leader_epoch=before.leader_epoch + 1)


def _can_complete(state: PartitionImage) -> bool:
    return is_moving(state) and set(target_of(state)) <= set(state.isr)
