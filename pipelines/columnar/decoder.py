"""Record batches to Arrow columns, with the names and types of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eagleray.pipelines.columnar.arrays import Extents, constant, from_numpy, gather_binary
from eagleray.pipelines.columnar.headers import HEADERS, HeaderFields, gather_headers
from eagleray.pipelines.columnar.records import JoinedBlocks, RecordFields, join_blocks, locate_fields
from eagleray.pipelines.columnar.varints import Integers
from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records import BatchHeader, RecordBatch
from eagleray.protocol.records.header import APPEND_TIME_BIT

TIMESTAMP = pa.timestamp("us", tz="UTC")

_FIELDS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("timestampType", pa.int32()),
    pa.field("headers", HEADERS),
)


_MICROSECONDS = 1000
_LAST_MILLISECOND = (2**63 - 1) // _MICROSECONDS


def record_schema(*, include_headers: bool = False) -> pa.Schema:
    """Return the columns in the order of Spark's Kafka source, where the headers come last, if they are wanted."""
    return pa.schema(_FIELDS if include_headers else _FIELDS[:-1])


class RecordColumns(msgspec.Struct, frozen=True):
    """Which records of a partition are wanted, and which columns of them."""

    topic: str
    partition: int
    start_offset: int
    """The first offset that is wanted."""
    end_offset: int
    """The first offset that is not wanted any more."""
    include_headers: bool = False
    names: tuple[str, ...] | None = None
    """The columns to make, in this order; all when None."""

    def schema(self) -> pa.Schema:
        """The schema of what `decode` returns."""
        whole = record_schema(include_headers=self.include_headers)
        return whole if self.names is None else pa.schema([whole.field(name) for name in self.names])


class Decoded(msgspec.Struct, frozen=True):
    """The records of the wanted offsets, as numbers; what columns are made from."""

    buffer: bytes
    offsets: Integers
    timestamps_ms: Integers
    has_append_time: npt.NDArray[np.bool_]
    keys: Extents
    values: Extents
    headers: HeaderFields | None


def decode(batches: Sequence[RecordBatch], columns: RecordColumns) -> pa.RecordBatch:
    """Decode the records with offsets from `start_offset` up to, not including, `end_offset` into one Arrow batch.

    The batches are those that a reader may see, with their CRC checked; control batches and aborted ones were left
    out before. Raises what `RecordBatch.records` raises. A timestamp beyond what 64 bits of microseconds hold is null.
    """
    schema = columns.schema()
    decoded = _decode([batch for batch in batches if _may_be_wanted(batch.header, columns)])
    if decoded is None:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    decoded = _select(decoded, columns)
    return pa.RecordBatch.from_arrays([_COLUMNS[field.name](decoded, columns) for field in schema], schema=schema)


def _may_be_wanted(header: BatchHeader, columns: RecordColumns) -> bool:
    # A batch whose last offset lies before its first is damaged, and gets its error when it is decoded.
    last_offset = max(header.base_offset, header.last_offset)
    return header.base_offset < columns.end_offset and last_offset >= columns.start_offset


def _decode(batches: Sequence[RecordBatch]) -> Decoded | None:
    try:
        blocks = join_blocks(batches)
        if blocks.rows == 0:
            return None
        return _with_absolute_numbers(blocks, locate_fields(blocks), batches)
    except (InvalidRecord, IndexError):
        _explain(batches)
        raise InvalidRecord("the records of these batches contradict their lengths") from None


def _explain(batches: Sequence[RecordBatch]) -> None:
    """Let the decoder of single records say what is wrong: it knows the record and the position."""
    for batch in batches:
        batch.records()


def _with_absolute_numbers(blocks: JoinedBlocks, fields: RecordFields, batches: Sequence[RecordBatch]) -> Decoded:
    """Add what the batches' headers say to what their records say."""

    def by_row(numbers: Integers) -> Integers:
        return np.repeat(numbers, blocks.counts)

    base_offsets, last_offset_deltas, base_times_ms, append_times_ms, attributes = _header_columns(batches)
    if ((fields.offset_deltas < 0) | (fields.offset_deltas > by_row(last_offset_deltas))).any():
        raise InvalidRecord("an offset delta lies outside of its batch")
    offsets = by_row(base_offsets) + fields.offset_deltas
    # Sums wrap around at 64 bits, in numpy as in Kafka.
    timestamps_ms = by_row(base_times_ms) + fields.timestamp_deltas
    has_append_time = by_row(attributes & APPEND_TIME_BIT) != 0
    if has_append_time.any():
        timestamps_ms = np.where(has_append_time, by_row(append_times_ms), timestamps_ms)
    return Decoded(blocks.buffer, offsets, timestamps_ms, has_append_time, fields.keys, fields.values, fields.headers)


def _header_columns(batches: Sequence[RecordBatch]) -> Integers:
    rows = [
        (header.base_offset, header.last_offset_delta, header.base_timestamp, header.max_timestamp, header.attributes)
        for header in (batch.header for batch in batches)
    ]
    return np.ascontiguousarray(np.array(rows, np.int64).T)


def _select(decoded: Decoded, columns: RecordColumns) -> Decoded:
    """Leave only the records with the wanted offsets, which are all but at the ends of a range."""
    is_wanted = (decoded.offsets >= columns.start_offset) & (decoded.offsets < columns.end_offset)
    if is_wanted.all():
        return decoded
    rows = np.flatnonzero(is_wanted)
    return Decoded(
        decoded.buffer,
        decoded.offsets[rows],
        decoded.timestamps_ms[rows],
        decoded.has_append_time[rows],
        decoded.keys.only(rows),
        decoded.values.only(rows),
        decoded.headers.only(is_wanted) if decoded.headers is not None else None,
    )


def _timestamps(decoded: Decoded) -> pa.Array:
    milliseconds = decoded.timestamps_ms
    is_beyond = (milliseconds > _LAST_MILLISECOND) | (milliseconds < -_LAST_MILLISECOND)
    return from_numpy(milliseconds * _MICROSECONDS, is_beyond if is_beyond.any() else None).view(TIMESTAMP)


_COLUMNS: dict[str, Callable[[Decoded, RecordColumns], pa.Array]] = {
    "key": lambda decoded, _: gather_binary(decoded.buffer, decoded.keys),
    "value": lambda decoded, _: gather_binary(decoded.buffer, decoded.values),
    "topic": lambda decoded, columns: pa.repeat(constant(columns.topic), len(decoded.offsets)),
    "partition": lambda decoded, columns: from_numpy(np.full(len(decoded.offsets), columns.partition, np.int32)),
    "offset": lambda decoded, _: from_numpy(decoded.offsets),
    "timestamp": lambda decoded, _: _timestamps(decoded),
    "timestampType": lambda decoded, _: from_numpy(decoded.has_append_time.astype(np.int32)),
    "headers": lambda decoded, _: gather_headers(decoded.buffer, decoded.headers, len(decoded.offsets)),
}
