"""The headers of records: found in encoded records by the column, and encoded from lists of names and values."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from eagleray.pipelines.columnar.arrays import (
    Extents,
    as_binary,
    binary_from_parts,
    binary_lengths,
    binary_parts,
    from_flags,
    from_numpy,
    gather_binary,
    join_binary,
    nulls_of,
    to_numpy,
    varint_column,
)
from eagleray.pipelines.columnar.varints import Bytes, Integers, decode_varints, zigzag
from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records.varint import decode_varint

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


MIN_HEADER_BYTES = 2
ENOUGH_RECORDS = 24
"""From so many on, one step of numpy for all of them takes less time than one of Python for each."""

_FIELDS = {"key", "value"}


class HeaderFields(msgspec.Struct, frozen=True):
    """The headers of records, one element a header, ordered by record."""

    rows: Integers
    """The record to which each header belongs."""
    names: Extents
    values: Extents

    def only(self, is_wanted: npt.NDArray[np.bool_]) -> HeaderFields:
        """Return those of some records, which are counted anew."""
        new_rows = np.cumsum(is_wanted) - 1
        kept = np.flatnonzero(is_wanted[self.rows])
        return HeaderFields(new_rows[self.rows[kept]], self.names.only(kept), self.values.only(kept))


def locate_headers(data: Bytes, rows: Integers, positions: Integers, ends: Integers) -> HeaderFields:
    """Find the headers of those records that have some, beginning with their number at `positions`.

    Raises InvalidRecord unless they end where their record does.
    """
    counts, positions = decode_varints(data, positions, 32)
    if ((counts < 0) | (counts * MIN_HEADER_BYTES > ends - positions)).any():
        raise InvalidRecord("a record is too short for its headers")
    first_headers = np.cumsum(counts) - counts
    # A header is a name and a value, each with its length before it.
    located = np.empty((4, int(counts.sum())), np.int64)
    step, active = 0, np.arange(len(counts))
    while True:
        is_done = counts[active] == step
        _check_ends(positions, ends, active[is_done])
        active = active[~is_done]
        if active.size < ENOUGH_RECORDS:
            break
        positions[active] = _locate_next(data, positions[active], ends[active], located, first_headers[active] + step)
        step += 1
    for record in active.tolist():
        first, last = int(first_headers[record]) + step, int(first_headers[record] + counts[record])
        located[:, first:last] = _locate_alone(data, int(positions[record]), int(ends[record]), last - first)
    return HeaderFields(np.repeat(rows, counts), Extents(*located[:2]), Extents(*located[2:]))


def _check_ends(positions: Integers, ends: Integers, done: Integers) -> None:
    if (positions[done] != ends[done]).any():
        raise InvalidRecord("a record does not end behind its last header")


def _locate_next(data: Bytes, positions: Integers, ends: Integers, located: Integers, columns: Integers) -> Integers:
    """Find the next header of each of some records; return the positions behind them."""
    name_lengths, name_starts = decode_varints(data, positions, 32)
    positions = name_starts + name_lengths
    if (name_lengths < 0).any() or (positions > ends).any():
        raise InvalidRecord("a header has no name, or one that reaches out of its record")
    value_lengths, value_starts = decode_varints(data, positions, 32)
    positions = value_starts + np.maximum(value_lengths, 0)
    if (positions > ends).any():
        raise InvalidRecord("the value of a header reaches out of its record")
    located[:, columns] = name_starts, name_lengths, value_starts, value_lengths
    return positions


def _locate_alone(data: Bytes, start: int, end: int, count: int) -> Integers:
    """Find the headers that are left of one record, which fill it from `start` to `end`."""
    record = data[start:end].tobytes()
    located: list[tuple[int, int, int, int]] = []
    position = 0
    for _ in range(count):
        name_length, name_start = decode_varint(record, position)
        if name_length < 0:
            raise InvalidRecord("a header has no name")
        value_length, value_start = decode_varint(record, name_start + name_length)
        located.append((start + name_start, name_length, start + value_start, value_length))
        position = value_start + max(value_length, 0)
    if position != len(record):
        raise InvalidRecord("a record does not end behind its last header")
    return np.array(located, np.int64).T


def gather_headers(buffer: bytes, headers: HeaderFields | None, rows: int) -> pa.Array:
    """Return a column of lists of headers; as in Spark's source, a record without headers has null."""
    if headers is None or not len(headers.rows):
        return pa.nulls(rows, HEADERS)
    names = _as_text(gather_binary(buffer, headers.names))
    values = gather_binary(buffer, headers.values)
    counts = np.bincount(headers.rows, minlength=rows)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    structs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(from_numpy(offsets), structs, type=HEADERS, mask=from_flags(counts == 0))


def _as_text(names: pa.Array) -> pa.Array:
    """Return names as strings; bytes that are no UTF-8 are replaced as Java does it, where a name is always text."""
    try:
        return pc.cast(names, pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


def encode_headers(column: pa.Array) -> pa.Array | None:
    """Return a binary column of the number of each row's headers and the headers; None when no row has any.

    Raises ValueError for a header without a name, and TypeError for a column of another type.
    """
    if column.null_count == len(column):
        return None
    _check_type(column.type)
    counts = to_numpy(column.value_lengths()).astype(np.int64)
    headers = column.flatten()
    if not len(headers):
        return None
    encoded = _encode_each(headers, counts)
    data, boundaries = binary_parts(encoded)
    rows = np.append(0, np.cumsum(counts))
    return join_binary(varint_column(zigzag(counts)), binary_from_parts(data, boundaries[rows]))


def _check_type(column_type: pa.DataType) -> None:
    is_list = pt.is_list(column_type) or pt.is_large_list(column_type)
    if not is_list or not pt.is_struct(column_type.value_type) or {f.name for f in column_type.value_type} != _FIELDS:
        raise TypeError(
            f"the column headers has type {column_type}; "
            "it has to be a list of structs of key (string) and value (binary)"
        )


def _encode_each(headers: pa.Array, counts: Integers) -> pa.Array:
    children = dict(zip((field.name for field in headers.type), headers.flatten(), strict=True))
    names, values = as_binary("headers.key", children["key"]), as_binary("headers.value", children["value"])
    if names.null_count:
        first = int(nulls_of(names).argmax())
        row = int(np.searchsorted(np.cumsum(counts), first, side="right"))
        raise ValueError(f"row {row} has a header without a key; give each header one, or leave the header out")
    return join_binary(
        varint_column(zigzag(binary_lengths(names))), names, varint_column(zigzag(binary_lengths(values))), values
    )
