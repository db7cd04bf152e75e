"""What a lost metadata log begins with when a person has it made again: the newest image that a node has kept, lifted
above everything that the nodes and their partitions have seen since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.positions import TERMS_KEPT, MetadataPosition, TermBeginning
from eagleray.broker.metadata.topics import PartitionImage

PRODUCER_IDS_SKIPPED: Final = 1_000_000
"""Ids that were handed out after the newest image, and that no partition has seen yet, are not handed out again: a
coordinator takes a thousand at a time."""


class FoundReplica(msgspec.Struct, frozen=True):
    """What a disk has of a partition."""

    node_id: int
    """The node that keeps it."""

    last_epoch: int
    """The leader epoch of its last batch."""

    end_offset: int
    newest_epoch: int
    """The newest leader epoch that its files name."""

    @property
    def extent(self) -> tuple[int, int]:
        """Of two replicas, the one with the greater extent has everything that was acknowledged and the other has."""
        return self.last_epoch, self.end_offset


def newest_of(images: Iterable[MetadataImage]) -> MetadataImage:
    """Return the image with the newest position."""
    return max(images, key=lambda image: (image.term, image.version))


def restored(
    image: MetadataImage,
    known: Sequence[MetadataPosition],
    replicas: Mapping[TopicPartition, Sequence[FoundReplica]],
    highest_producer_id: int,
) -> MetadataImage:
    """Return the image to begin with.

    It includes every position that a node has known, so that none refuses it: what was lost between the newest image
    and these is given up. Partitions are led by the replica that has most, and only those that have as much are in
    sync, because others may have fallen out of the in-sync set after the image. Epochs and producer ids are above all
    that were found.
    """
    return msgspec.structs.replace(
        image,
        version=max(image.version, *(each.version for each in known), 0) + 1,
        topics={
            name: msgspec.structs.replace(
                topic,
                partitions=tuple(
                    _led_by_the_fullest(partition, replicas.get(TopicPartition(name, number), ()))
                    for number, partition in enumerate(topic.partitions)
                ),
            )
            for name, topic in image.topics.items()
        },
        next_producer_id=max(image.next_producer_id, highest_producer_id + 1) + PRODUCER_IDS_SKIPPED,
        terms=_terms_of(image, known),
    )


def _led_by_the_fullest(partition: PartitionImage, found: Sequence[FoundReplica]) -> PartitionImage:
    epoch = max([partition.leader_epoch, *(each.newest_epoch for each in found)]) + 1
    lifted = msgspec.structs.replace(partition, leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)
    if not found:
        return lifted
    extent = max(each.extent for each in found)
    in_sync = tuple(sorted(each.node_id for each in found if each.extent == extent))
    added = tuple(node_id for node_id in in_sync if node_id not in partition.replicas)
    return msgspec.structs.replace(
        lifted,
        leader=partition.leader if partition.leader in in_sync else in_sync[0],
        isr=tuple(node_id for node_id in (*partition.replicas, *added) if node_id in in_sync),
        replicas=(*partition.replicas, *added),
    )


def _terms_of(image: MetadataImage, known: Sequence[MetadataPosition]) -> tuple[TermBeginning, ...]:
    """Return the terms of an image, with those in which others have known more than it: each began before that."""
    begun: dict[int, int] = {}
    for position in known:
        if position.term > image.term:
            begun[position.term] = min(begun.get(position.term, position.version), position.version)
    later = tuple(TermBeginning(term, max(version - 1, image.version)) for term, version in sorted(begun.items()))
    return (*image.terms, *later)[-TERMS_KEPT:]
