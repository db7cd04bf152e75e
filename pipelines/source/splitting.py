"""From the ranges of a batch to what its tasks read."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator

from eagleray.pipelines.source.offsets import OffsetRange


def split(
    ranges: Iterable[OffsetRange],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """Cut ranges into those of tasks, in the order of the ranges; empty ranges are dropped.

    No task gets more than `max_records_per_partition` offsets. There are at least `min_partitions` tasks, as long as
    there are as many offsets: where there would be fewer, the largest pieces are cut again. Without both options each
    range stays whole.
    """
    filled = [each for each in ranges if each.size > 0]
    most = max_records_per_partition
    pieces = [1 if most is None else -(-each.size // most) for each in filled]
    _cut_largest([each.size for each in filled], pieces, min_partitions or 0)
    return [piece for each, count in zip(filled, pieces, strict=True) for piece in _cut(each, count)]


def gather(ranges: Iterable[OffsetRange], enough: int) -> list[tuple[OffsetRange, ...]]:
    """Put small ranges that follow each other together, until there are `enough` offsets for a task.

    A task costs as much as reading some thousand records.
    """
    groups: list[list[OffsetRange]] = []
    size = enough
    for each in ranges:
        if size >= enough:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.size
    return [tuple(group) for group in groups]


def _cut_largest(sizes: list[int], pieces: list[int], wanted: int) -> None:
    """Add pieces where they are largest, until there are as many as wanted or each is a single offset."""
    missing = min(wanted, sum(sizes)) - sum(pieces)
    # The heap has the range with the largest pieces first, and the earlier range where they are equal.
    heap = [(-size / count, index) for index, (size, count) in enumerate(zip(sizes, pieces, strict=True))]
    heapq.heapify(heap)
    for _ in range(missing):
        _, index = heap[0]
        pieces[index] += 1
        heapq.heapreplace(heap, (-sizes[index] / pieces[index], index))


def _cut(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """Cut a range into pieces whose sizes differ by one at the most."""
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    for start, end in itertools.pairwise(edges):
        yield OffsetRange(whole.topic, whole.partition, start, end)
