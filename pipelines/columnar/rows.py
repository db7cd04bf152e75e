"""Rows to be written, as Arrow columns whose types are checked once."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from eagleray.pipelines.columnar.numbers import nulls_of, to_numpy
from eagleray.pipelines.columnar.varints import Integers

_UNITS_PER_MILLISECOND = {"ms": 1, "us": 1_000, "ns": 1_000_000}


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


_OPTIONAL = ("key", "headers", "partition", "timestamp")


def as_binary(name: str, column: pa.Array) -> pa.Array:
    """Return a column of bytes or text as Arrow's binary type."""
    if pt.is_binary(column.type):
        return column
    if pt.is_string(column.type):
        return column.view(pa.binary())
    if pt.is_null(column.type):
        return pa.nulls(len(column), pa.binary())
    if any(is_type(column.type) for is_type in (pt.is_large_binary, pt.is_large_string, pt.is_binary_view)):
        return column.cast(pa.binary())
    if pt.is_string_view(column.type) or pt.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    raise TypeError(f"the column {name} has type {column.type}; it has to be binary or string. Cast it first.")


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
