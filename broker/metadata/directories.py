"""What becomes of a partition's directory on a disk, by what the metadata say of its topic."""

from __future__ import annotations

import enum

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.topics import CLUSTER_METADATA, PartitionImage


class DirectoryFate(enum.Enum):
    """What becomes of a directory; a node infers nothing that the metadata do not say."""

    KEPT = enum.auto()
    DELETED = enum.auto()
    """The metadata log has the deletion of its topic."""

    MOVED_AWAY = enum.auto()
    """No node of this machine keeps the replica any more, and others are in sync."""

    STRAY = enum.auto()
    """Unknown. It is not opened and not removed, until a person has looked at it."""


def fate_of(name: str, topic_id: bytes | None, image: MetadataImage, machine: str) -> DirectoryFate:
    """Judge a directory by its name and the topic id in it, which is None where that cannot be read."""
    partition = partition_of(name)
    if partition is None or topic_id is None:
        return DirectoryFate.STRAY
    if partition.topic == CLUSTER_METADATA:
        return DirectoryFate.KEPT
    if topic_id in image.deleted_topics:
        return DirectoryFate.DELETED
    state = image.find(partition)
    if state is None or image.topic_id(partition.topic) != topic_id:
        return DirectoryFate.STRAY
    if is_on_machine(state, image, machine) or not has_others_in_sync(state, image, machine):
        return DirectoryFate.KEPT
    return DirectoryFate.MOVED_AWAY


def partition_of(name: str) -> TopicPartition | None:
    """Return the partition that a directory is named after, if it is named after one."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number)) if topic and number.isascii() and number.isdecimal() else None


def is_on_machine(state: PartitionImage, image: MetadataImage, machine: str) -> bool:
    """Whether a node of a machine keeps a replica, or one that is not planned, and so may be anywhere."""
    keepers = (image.plan.get(node_id) for node_id in state.replicas)
    return any(node is None or node.machine == machine for node in keepers)


def has_others_in_sync(state: PartitionImage, image: MetadataImage, machine: str) -> bool:
    """Whether replicas on other machines are in sync."""
    in_sync = (image.plan.get(node_id) for node_id in state.isr)
    return any(node is not None and node.machine != machine for node in in_sync)
