"""Which partition each row goes to: the one that it names, the one of its key, or one of a run of keyless rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.columnar.binary import binary_parts
from eagleray.pipelines.columnar.murmur2 import partitions_for_keys
from eagleray.pipelines.columnar.numbers import nulls_of, to_numpy
from eagleray.pipelines.columnar.rows import Rows, as_binary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eagleray.pipelines.columnar.varints import Integers

MIN_RUN_ROWS = 64
"""So many keyless rows stay together: each partition more is one more that a transaction has to mark."""


class UnknownTopic(ValueError):
    """A row names a topic that does not exist, or none."""


class UnknownPartition(ValueError):
    """A row names a partition that its topic does not have."""


def route(rows: Rows, partition_counts: Mapping[str, int], first_keyless: int) -> tuple[list[TopicPartition], Integers]:
    """Return the partitions that may occur, and for each row the index of its own among them.

    Raises UnknownTopic or UnknownPartition, which name the row.
    """
    topics, topic_of_row = _topics(rows.topic, partition_counts)
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(partition_counts[topic])]
    chosen = _explicit(rows, topics, topic_of_row, partition_counts)
    first_index = 0
    for index, topic in enumerate(topics):
        count = partition_counts[topic]
        members = None if len(topics) == 1 else np.flatnonzero(topic_of_row == index)
        _choose(rows, members, chosen, count, first_keyless)
        if members is not None:
            chosen[members] += first_index
        first_index += count
    return partitions, chosen


def _topics(topic: str | pa.Array, partition_counts: Mapping[str, int]) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Return the topics that occur, and for each row the index of its own."""
    if isinstance(topic, str):
        topics, topic_of_row = [topic], np.zeros(1, np.int32)
    else:
        if not pt.is_string(topic.type):
            topic = topic.cast(pa.string())
        if topic.null_count:
            raise UnknownTopic(
                f"row {int(nulls_of(topic).argmax())} has no topic; give each row one, or the option topic"
            )
        encoded = topic.dictionary_encode()
        topics, topic_of_row = encoded.dictionary.to_pylist(), to_numpy(encoded.indices)
    for index, name in enumerate(topics):
        if name not in partition_counts:
            row = int((topic_of_row == index).argmax())
            raise UnknownTopic(f"row {row} is for the topic {name!r}, which does not exist; create it first")
    return topics, topic_of_row


def _explicit(
    rows: Rows, topics: list[str], topic_of_row: npt.NDArray[np.int32], partition_counts: Mapping[str, int]
) -> Integers:
    """Return the partitions that rows name, -1 for those that name none."""
    if rows.partition is None:
        return np.full(len(rows), -1, np.int64)
    if not (pt.is_integer(rows.partition.type) or pt.is_null(rows.partition.type)):
        raise TypeError(f"the column partition has type {rows.partition.type}; it has to be an integer. Cast it first.")
    is_named = ~nulls_of(rows.partition)
    numbers: Integers = to_numpy(rows.partition.cast(pa.int64())).astype(np.int64)
    limits = np.array([partition_counts[topic] for topic in topics], np.int64)[topic_of_row]
    is_wrong = is_named & ((numbers < 0) | (numbers >= limits))
    if is_wrong.any():
        row = int(is_wrong.argmax())
        topic = topics[topic_of_row[row if len(topic_of_row) > 1 else 0]]
        raise UnknownPartition(
            f"row {row} is for partition {numbers[row]} of the topic {topic!r}, "
            f"which has partitions 0 to {partition_counts[topic] - 1}"
        )
    return np.where(is_named, numbers, -1)


def _choose(rows: Rows, members: Integers | None, chosen: Integers, partitions: int, first_keyless: int) -> None:
    """Choose for those of one topic's rows that name no partition, in place."""
    open_rows = np.flatnonzero(chosen < 0) if members is None else members[chosen[members] < 0]
    if rows.key is not None and rows.key.null_count < len(rows):
        key = as_binary("key", rows.key)
        has_key = ~nulls_of(key)[open_rows] if key.null_count else np.ones(len(open_rows), np.bool_)
        keyed, open_rows = open_rows[has_key], open_rows[~has_key]
        data, offsets = binary_parts(key)
        chosen[keyed] = partitions_for_keys(data, offsets[keyed], offsets[keyed + 1] - offsets[keyed], partitions)
    chosen[open_rows] = _in_runs(len(open_rows), partitions, first_keyless)


def _in_runs(rows: int, partitions: int, first: int) -> Integers:
    """Spread rows without a key in runs of the same length, from partition `first` on."""
    runs = min(partitions, -(-rows // MIN_RUN_ROWS))
    return (np.arange(rows, dtype=np.int64) * runs // max(rows, 1) + first) % partitions
