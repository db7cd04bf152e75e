"""Rows to be written, and the partition of each: the one that it names, the one of its key, or one of a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from eagleray.broker.identities import TopicPartition
from eagleray.client.producer import partitioner
from eagleray.pipelines.columnar.arrays import as_binary, binary_parts, nulls_of, to_numpy
from eagleray.pipelines.columnar.varints import Bytes, Integers

MIN_RUN_ROWS = 64
"""So many keyless rows stay together: each partition more is one more that a transaction has to mark."""


_UNITS_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}


_OPTIONAL = ("key", "headers", "partition", "timestamp")

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)
_FEW = 16
"""So few keys are hashed one by one: a step of numpy would take longer."""


class UnknownTopic(ValueError):
    """A row names a topic that does not exist, or none."""


class UnknownPartition(ValueError):
    """A row names a partition that its topic does not have."""


class Rows(msgspec.Struct, frozen=True):
    """The columns of some rows; each is an Arrow array of the same length.

    A key or value is binary or string and may be null. Headers are lists of structs of a name and a value, null for
    none. A partition is an integer, null to let it be chosen. A timestamp is null for the time of writing.
    """

    value: pa.Array
    topic: str | pa.Array
    """One topic for all of them, or each row's own."""
    key: pa.Array | None = None
    headers: pa.Array | None = None
    partition: pa.Array | None = None
    timestamp: pa.Array | None = None

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch, topic: str | None = None) -> Rows:
        """Take the columns by the names that Spark's Kafka sink has for them; `topic` goes before a topic column."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if "value" not in columns:
            raise ValueError(f"rows need a column named value; they have {', '.join(columns) or 'none'}")
        if topic is None and "topic" not in columns:
            raise ValueError("rows without a column named topic need the option topic")
        chosen = columns["topic"] if topic is None else topic
        return cls(columns["value"], chosen, **{name: columns.get(name) for name in _OPTIONAL})

    def __len__(self) -> int:
        return len(self.value)


def timestamps_ms(rows: Rows, now_ms: int) -> Integers:
    """Return the timestamp of each row in milliseconds, `now_ms` where it has none."""
    column = rows.timestamp
    if column is None:
        return np.full(len(rows), now_ms, np.int64)
    if not pt.is_timestamp(column.type):
        raise TypeError(f"the column timestamp has type {column.type}; it has to be a timestamp. Cast it first.")
    units = column.view(pa.int64())
    per_millisecond = _UNITS_PER_MILLISECOND.get(column.type.unit)
    milliseconds = to_numpy(units) * 1000 if per_millisecond is None else to_numpy(units) // per_millisecond
    return np.where(nulls_of(column), now_ms, milliseconds) if column.null_count else milliseconds


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
    """Choose in place the partitions of those of one topic's rows that name none."""
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


def partitions_for_keys(data: Bytes, starts: Integers, lengths: Integers, partitions: int) -> Integers:
    """Return the partition that Kafka's clients choose for each of the keys, which lie here and there in `data`."""
    return ((murmur2(data, starts, lengths) & _POSITIVE) % np.uint32(partitions)).astype(np.int64)


def murmur2(data: Bytes, starts: Integers, lengths: Integers) -> npt.NDArray[np.uint32]:
    """Hash the keys word by word, in each step all that are still longer."""
    hashed = _SEED ^ lengths.astype(np.uint32)
    word_counts = lengths >> 2
    active = np.flatnonzero(word_counts)
    step = 0
    while active.size > _FEW:
        words = _mix_word(_words(data, starts[active] + 4 * step))
        hashed[active] = (hashed[active] * _MULTIPLIER) ^ words
        step += 1
        active = active[word_counts[active] > step]
    finished = _finish(data, hashed, starts + 4 * word_counts, lengths & 3)
    for row in active.tolist():
        finished[row] = partitioner.murmur2(data[starts[row] : starts[row] + lengths[row]].tobytes())
    return finished


def _words(data: Bytes, positions: Integers) -> npt.NDArray[np.uint32]:
    words = data[positions].astype(np.uint32)
    for index in range(1, 4):
        words |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return words


def _mix_word(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words = words * _MULTIPLIER
    return (words ^ words >> np.uint32(24)) * _MULTIPLIER


def _finish(data: Bytes, hashed: npt.NDArray[np.uint32], positions: Integers, left: Integers) -> npt.NDArray[np.uint32]:
    """Mix in the last one to three bytes of each key, then all the bits once more."""
    for index in range(3):
        rows = np.flatnonzero(left > index)
        hashed[rows] ^= data[positions[rows] + index].astype(np.uint32) << np.uint32(8 * index)
    hashed = np.where(left > 0, hashed * _MULTIPLIER, hashed)
    hashed = (hashed ^ hashed >> np.uint32(13)) * _MULTIPLIER
    return hashed ^ hashed >> np.uint32(15)
