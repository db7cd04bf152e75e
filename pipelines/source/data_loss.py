"""What a stream does when the log no longer has what it was to read: failOnDataLoss.

A gap inside a log is never a loss: markers, aborted and compacted records leave offsets without readable
records. Lost are the offsets before the start of the log or beyond its end, and partitions that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.source.offsets import Bounds, OffsetRange, Offsets


class DataLossError(RuntimeError):
    """Records that the query was to read are gone."""


class Resolved(msgspec.Struct, frozen=True):
    """An offset for each partition, and warnings about them."""

    offsets: Offsets
    warnings: tuple[str, ...] = ()


class RangePlan(msgspec.Struct, frozen=True):
    """The ranges of a batch, and warnings about them."""

    ranges: tuple[OffsetRange, ...]
    warnings: tuple[str, ...] = ()


class Losses:
    """Gathers what was lost; a strict query fails with all of it at once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Note one loss."""
        self.texts.append(text)

    def settle(self, *, fail_on_data_loss: bool) -> tuple[str, ...]:
        """Raise DataLossError if there were losses and the query is strict; else return them as warnings."""
        if self.texts and fail_on_data_loss:
            raise DataLossError(
                f"{' '.join(self.texts)} The records were deleted, by retention or with their topic, before this query "
                "read them. Set the option failOnDataLoss to false to go on with what is left, or give the query a new "
                "checkpointLocation to begin anew."
            )
        return tuple(f"{text} The query goes on without them, because failOnDataLoss is false." for text in self.texts)


def begin_offsets(
    start: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, Bounds], *, fail_on_data_loss: bool
) -> Resolved:
    """Fit the end of the last batch to the partitions that there are now, to begin the next one.

    Partitions that are new begin at the start of their logs; those that are gone, that lost records which the query
    had not read, or whose log has become shorter than what it had read raise DataLossError, or are left out and moved.
    """
    losses = Losses()
    _note_gone(start.keys() - bounds.keys(), losses)
    offsets = {partition: _begin(partition, start.get(partition), bounds[partition], losses) for partition in bounds}
    return Resolved(offsets, losses.settle(fail_on_data_loss=fail_on_data_loss))


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, Bounds],
    *,
    fail_on_data_loss: bool,
) -> RangePlan:
    """Return the ranges of the batch from `start` to `end`, both from the checkpoint, in the order of partitions.

    A driver that died long ago may have planned the batch: what it was to read is compared with what there is. Ranges
    may be empty; `split` drops these. The start of a first batch is looked up anew when it is run again, so it may have
    partitions that were created after its end was planned: they are left to the next batch.
    """
    losses = Losses()
    _note_gone((start.keys() | end.keys()) - bounds.keys(), losses)
    ranges = []
    for partition in sorted(end.keys() & bounds.keys()):
        begin = _begin(partition, start.get(partition), bounds[partition], losses)
        until = _end(partition, end[partition], bounds[partition], losses)
        ranges.append(OffsetRange(partition.topic, partition.partition, min(begin, until), until))
    return RangePlan(tuple(ranges), losses.settle(fail_on_data_loss=fail_on_data_loss))


def _note_gone(partitions: Iterable[TopicPartition], losses: Losses) -> None:
    names = ", ".join(str(partition) for partition in sorted(partitions))
    if names:
        losses.add(f"The query was reading {names}, which no longer exist or no longer match its options.")


def _begin(partition: TopicPartition, offset: int | None, bounds: Bounds, losses: Losses) -> int:
    if offset is None:
        # The checkpoint does not say where a new partition began, so only a log from offset 0 on is surely whole.
        if bounds.earliest > 0:
            losses.add(f"{partition} is new to the query, but its log starts at {bounds.earliest} rather than at 0.")
        return bounds.earliest
    if offset < bounds.earliest:
        losses.add(f"The query goes on at offset {offset} of {partition}, but its log starts at {bounds.earliest}.")
        return bounds.earliest
    return _end(partition, offset, bounds, losses)


def _end(partition: TopicPartition, offset: int, bounds: Bounds, losses: Losses) -> int:
    """Return the offset, or the end of a log that does not reach it: it was truncated, or its topic created anew."""
    if offset > bounds.latest:
        losses.add(f"The query got to offset {offset} of {partition}, but its log ends at {bounds.latest}.")
        return bounds.latest
    return offset
