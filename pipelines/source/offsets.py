"""Offsets of many partitions, and their form in Spark's checkpoint.

An offset of a stream is where to go on, one more than that of the last record read: {"orders": {"0": 6}} has read the
first six offsets of orders-0. Offsets without a readable record, such as those of markers, aborted and compacted
records, count like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from eagleray.broker.identities import TopicPartition

Offsets = dict[TopicPartition, int]
Checkpoint = dict[str, dict[str, int]]

_Partition = Annotated[int, msgspec.Meta(ge=0)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class OffsetRange(msgspec.Struct, frozen=True, order=True):
    """What one task reads: the offsets of one partition from `start` up to, and without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that is read."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """How many offsets there are, which is at least the number of records."""
        return self.end - self.start


class Bounds(msgspec.Struct, frozen=True):
    """What can be read of a partition now: from `earliest` up to, and without, `latest`.

    `earliest` is the log start offset. `latest` is the last stable offset (LSO) for read_committed, and else the high
    watermark.
    """

    earliest: int
    latest: int


class CheckpointError(ValueError):
    """An offset in a checkpoint is not one that this source has written."""


def to_checkpoint(offsets: Mapping[TopicPartition, int]) -> Checkpoint:
    """Write offsets as Spark checkpoints them, topics and partitions in order.

    >>> to_checkpoint({TopicPartition("orders", 1): 12})
    {'orders': {'1': 12}}
    """
    checkpoint: Checkpoint = {}
    for topic_partition in sorted(offsets):
        checkpoint.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return checkpoint


def from_checkpoint(checkpoint: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read offsets back; raises CheckpointError for anything that `to_checkpoint` does not write."""
    try:
        # Through JSON, in which the keys of objects are text: that is how the checkpoint had them, too.
        topics = msgspec.json.decode(msgspec.json.encode(checkpoint), type=dict[str, dict[_Partition, _Offset]])
    except (msgspec.ValidationError, TypeError) as error:
        raise CheckpointError(
            f"The checkpoint's offset is {checkpoint!r}: {error}. Expected is "
            '{"topic": {"partition": offset}}, such as {"orders": {"0": 12}}. The checkpoint may be that of another '
            "source: give this query a checkpointLocation of its own."
        ) from None
    return {
        TopicPartition(topic, partition): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def bounds_up_to(
    bounds: Mapping[TopicPartition, Bounds], target: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Bounds]:
    """Return what can be read without going beyond `target`: what Trigger.AvailableNow found when it began.

    Partitions that were created since then are left out, and those that are gone stay gone.
    """
    return {
        partition: Bounds(each.earliest, max(each.earliest, min(each.latest, target[partition])))
        for partition, each in bounds.items()
        if partition in target
    }
