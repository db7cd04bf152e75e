"""Arrow columns to encoded records, partition by partition and batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec
import numpy as np
import pyarrow as pa

from eagleray.broker.identities import TopicPartition
from eagleray.pipelines.columnar.arrays import (
    as_binary,
    binary_lengths,
    binary_parts,
    constant,
    from_numpy,
    join_binary,
    varint_column,
)
from eagleray.pipelines.columnar.headers import encode_headers
from eagleray.pipelines.columnar.records import MAX_JOINED_BYTES, MIN_RECORD_BYTES
from eagleray.pipelines.columnar.routing import Rows, route, timestamps_ms
from eagleray.pipelines.columnar.varints import Integers, varint_sizes, zigzag
from eagleray.protocol.records import HEADER_BYTES, CompressionType, build_from_block
from eagleray.protocol.records.varint import encode_varint

_NO_HEADERS = constant(b"\x00")


class PreparedRecords(msgspec.Struct, frozen=True, eq=False):
    """The encoded records of one batch; to a sender it is what a filled `BatchBuilder` is.

    It keeps the memory of all the batches alive that were encoded together with it.
    """

    _block: memoryview
    _count: int
    _base_timestamp: int
    _max_timestamp: int

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"PreparedRecords({self._count} records, {self.size_bytes} bytes)"

    @property
    def size_bytes(self) -> int:
        """The size of the batch without compression, exactly."""
        return HEADER_BYTES + len(self._block)

    def build(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool,
        compression: CompressionType,
    ) -> bytes:
        """Return the batch. This can be done again, as when a producer has got another epoch."""
        return build_from_block(
            self._block,
            self._count,
            self._base_timestamp,
            self._max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
            compression=compression,
        )


class SortedRows(msgspec.Struct, frozen=True):
    """Rows in the order in which they are written: by partition, and in each as they came."""

    groups: Integers
    """The index of each row's partition."""
    timestamps_ms: Integers
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None
    """How each record ends: with its headers and their number; None when no record has headers."""
    key_lengths: Integers
    value_lengths: Integers
    """Negative where null is, as with the keys."""
    known_bytes: Integers
    """How long each record is without what depends on its place in a batch: its deltas, and its length itself."""


def encode(
    rows: Rows,
    *,
    partition_counts: Mapping[str, int],
    max_batch_bytes: int,
    now_ms: int,
    first_keyless_partition: int = 0,
) -> list[tuple[TopicPartition, PreparedRecords]]:
    """Encode rows into batches of at most `max_batch_bytes` before compression, in row order within each partition.

    A row that is larger than a batch may be gets a batch of its own. Rows without a key and a partition are spread in
    runs from `first_keyless_partition` on. Raises UnknownTopic, UnknownPartition, and TypeError for columns of types
    that cannot be written.
    """
    if not len(rows):
        return []
    partitions, groups = route(rows, partition_counts, first_keyless_partition)
    ordered = _sort(rows, groups, timestamps_ms(rows, now_ms))
    first_rows = cut_batches(ordered.groups, _largest_sizes(ordered, max_batch_bytes), max_batch_bytes - HEADER_BYTES)
    return _prepare(partitions, ordered, first_rows, _encode_records(ordered, first_rows))


def _sort(rows: Rows, groups: Integers, timestamps: Integers) -> SortedRows:
    keys = pa.nulls(len(rows), pa.binary()) if rows.key is None else as_binary("key", rows.key)
    values = as_binary("value", rows.value)
    headers = None if rows.headers is None else encode_headers(rows.headers)
    if (groups != groups[0]).any():
        # Few bits make the stable sort a radix sort.
        order = np.argsort(groups.astype(np.uint16) if groups.max() < 1 << 16 else groups, kind="stable")
        indices = from_numpy(order)
        groups, timestamps, keys, values = groups[order], timestamps[order], keys.take(indices), values.take(indices)
        headers = None if headers is None else headers.take(indices)
    key_lengths, value_lengths = binary_lengths(keys), binary_lengths(values)
    known_bytes = 1 + _field_sizes(key_lengths) + _field_sizes(value_lengths)
    known_bytes += 1 if headers is None else binary_lengths(headers)
    return SortedRows(groups, timestamps, keys, values, headers, key_lengths, value_lengths, known_bytes)


def _field_sizes(lengths: Integers) -> Integers:
    return varint_sizes(zigzag(lengths)) + np.maximum(lengths, 0)


def _largest_sizes(rows: SortedRows, max_batch_bytes: int) -> Integers:
    """Return how long each record can get, wherever in a batch it comes."""
    last_delta = min(len(rows.groups), max_batch_bytes // MIN_RECORD_BYTES)
    time_span = int(rows.timestamps_ms.max()) - int(rows.timestamps_ms.min())
    # A difference of more than 63 bits wraps around, and may become any number.
    deltas_bytes = len(encode_varint(last_delta)) + len(encode_varint(min(time_span, 2**63 - 1)))
    largest = rows.known_bytes + deltas_bytes
    largest += len(encode_varint(int(largest.max())))
    if largest.sum() > MAX_JOINED_BYTES:
        raise ValueError(
            f"{len(rows.groups)} rows of {largest.sum()} bytes are too many at once: "
            f"encode at most {MAX_JOINED_BYTES} bytes, which is Arrow's limit for a binary column"
        )
    return largest


def cut_batches(groups: Integers, sizes: Integers, max_bytes: int) -> Integers:
    """Return the first row of each batch: one group only, and at most `max_bytes`, unless a single row is larger."""
    sums = np.cumsum(sizes)
    group_starts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
    first_rows: list[int] = []
    for start, end in pairwise(group_starts):
        row = start
        while row < end:
            first_rows.append(row)
            limit = max_bytes + (int(sums[row - 1]) if row else 0)
            row = max(row + 1, int(sums.searchsorted(limit, side="right")))
    return np.array(first_rows, np.int64)


def _encode_records(rows: SortedRows, first_rows: Integers) -> pa.Array:
    """Return a binary column of the encoded records, whose bytes follow each other."""
    counts = np.diff(first_rows, append=len(rows.groups))
    timestamp_deltas = zigzag(rows.timestamps_ms - np.repeat(rows.timestamps_ms[first_rows], counts))
    offset_deltas = zigzag(np.arange(len(rows.groups)) - np.repeat(first_rows, counts))
    lengths = zigzag(rows.known_bytes + varint_sizes(timestamp_deltas) + varint_sizes(offset_deltas))
    # The attributes have no meaning yet; as a varint, zero is the byte that they are.
    attributes = np.zeros(len(rows.groups), np.uint64)
    before_key = [lengths, attributes, timestamp_deltas, offset_deltas, zigzag(rows.key_lengths)]
    before_value = zigzag(rows.value_lengths)
    end = _NO_HEADERS if rows.headers is None else rows.headers
    if rows.keys.null_count == len(rows.keys):
        return join_binary(varint_column(*before_key, before_value), rows.values, end)
    return join_binary(varint_column(*before_key), rows.keys, varint_column(before_value), rows.values, end)


def _prepare(
    partitions: list[TopicPartition], rows: SortedRows, first_rows: Integers, encoded: pa.Array
) -> list[tuple[TopicPartition, PreparedRecords]]:
    data, boundaries = binary_parts(encoded)
    view = data.data
    ends = np.append(first_rows[1:], len(rows.groups))
    columns = (
        rows.groups[first_rows],
        boundaries[first_rows],
        boundaries[ends],
        ends - first_rows,
        rows.timestamps_ms[first_rows],
        np.maximum.reduceat(rows.timestamps_ms, first_rows),
    )
    return [
        (partitions[group], PreparedRecords(view[start:end], count, base_timestamp, max_timestamp))
        for group, start, end, count, base_timestamp, max_timestamp in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
