"""Arrow's columns of numbers and bytes as numpy's arrays and back, by way of their buffers.

Arrow has conversions of its own, and loads pandas at the first one, in each of the many processes that Spark starts:
more than a second, for nothing that is used here.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from eagleray.pipelines.columnar.varints import Bytes, Integers, varint_sizes, write_varints

_TYPES: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
}
_ARROW_TYPES = {np.dtype(number): column_type for column_type, number in _TYPES.items()}


def from_numpy(numbers: npt.NDArray[Any], is_null: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Return a column over an array of integers, without a copy; null stands where `is_null` says so."""
    validity = None if is_null is None else _bits(~is_null)
    numbers = np.ascontiguousarray(numbers)
    buffers = [validity, pa.py_buffer(numbers)]
    return pa.Array.from_buffers(_ARROW_TYPES[numbers.dtype], len(numbers), buffers)


def from_flags(flags: npt.NDArray[np.bool_]) -> pa.Array:
    """Return a column of booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def to_numpy(column: pa.Array) -> npt.NDArray[Any]:
    """Return the elements of a column of integers or booleans; 0 stands where null is."""
    validity, data = column.buffers()
    if pt.is_boolean(column.type):
        elements = _flags(data, column)
    elif data is None:
        elements = np.zeros(len(column), _TYPES[column.type])
    else:
        elements = np.frombuffer(data, _TYPES[column.type], len(column) + column.offset)[column.offset :]
    if validity is None or not column.null_count:
        return elements
    return np.where(_flags(validity, column), elements, elements.dtype.type(0))


def nulls_of(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which elements of a column of any type are null."""
    validity = column.buffers()[0]
    if validity is None or not column.null_count:
        return np.full(len(column), pt.is_null(column.type))
    return ~_flags(validity, column)


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _flags(bits: pa.Buffer, column: pa.Array) -> npt.NDArray[np.bool_]:
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little", count=column.offset + len(column))
    return unpacked[column.offset :].view(np.bool_)


def constant(content: bytes | str) -> pa.Scalar:
    """Return a scalar of binary or string."""
    data, column_type = (content.encode(), pa.string()) if isinstance(content, str) else (content, pa.binary())
    boundaries = np.array([0, len(data)], np.int32)
    return pa.Array.from_buffers(column_type, 1, [None, pa.py_buffer(boundaries), pa.py_buffer(data)])[0]


_SEPARATOR = constant(b"")


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


def binary_parts(column: pa.Array) -> tuple[Bytes, Integers]:
    """Return the bytes under a binary column, and the boundaries of its elements in them."""
    _, offsets, data = column.buffers()
    boundaries = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4) if offsets else np.zeros(1)
    return np.frombuffer(data if data is not None else b"", np.uint8), boundaries.astype(np.int64)


def binary_lengths(column: pa.Array) -> Integers:
    """Return the lengths of the elements, -1 for null."""
    _, boundaries = binary_parts(column)
    lengths = np.diff(boundaries)
    if column.null_count:
        lengths[nulls_of(column)] = -1
    return lengths


def binary_from_parts(data: Bytes | pa.Buffer, boundaries: Integers) -> pa.Array:
    """Return a binary column over bytes and the boundaries of its elements, without a copy."""
    buffers = [None, pa.py_buffer(boundaries.astype(np.int32)), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(boundaries) - 1, buffers)


def varint_column(*numbers: npt.NDArray[np.uint64]) -> pa.Array:
    """Return a binary column whose elements are some varints each, one of each column of numbers."""
    sizes = [varint_sizes(column) for column in numbers]
    boundaries = np.zeros(len(numbers[0]) + 1, np.int64)
    np.cumsum(sum(sizes), out=boundaries[1:])
    data = np.empty(int(boundaries[-1]), np.uint8)
    positions = boundaries[:-1]
    for column, column_sizes in zip(numbers, sizes, strict=True):
        write_varints(data, positions, column)
        positions = positions + column_sizes
    return binary_from_parts(data, boundaries)


def join_binary(*columns: pa.Array | pa.Scalar) -> pa.Array:
    """Join the elements of each row, of which null is nothing."""
    return pc.binary_join_element_wise(*columns, _SEPARATOR, null_handling="replace", null_replacement="")


class Extents(msgspec.Struct, frozen=True):
    """Where a field of each record begins, and how long it is; a negative length is null."""

    starts: Integers
    lengths: Integers

    def only(self, rows: Integers) -> Extents:
        """Return those of some rows."""
        return Extents(self.starts[rows], self.lengths[rows])


def gather_binary(buffer: bytes, extents: Extents) -> pa.Array:
    """Return a binary column of the extents, which do not overlap and come in the order of the buffer.

    The buffer is looked at as a binary array whose even elements are the fields and whose odd elements are what lies
    between them; taking the even ones copies the fields together.
    """
    starts, lengths = extents.starts, extents.lengths
    count = len(starts)
    is_null = lengths < 0
    has_nulls = bool(is_null.any())
    if has_nulls and is_null.all():
        return pa.nulls(count, pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = starts + (np.maximum(lengths, 0) if has_nulls else lengths)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    interleaved = pa.BinaryArray.from_buffers(pa.binary(), max(2 * count - 1, 0), buffers)
    evens = np.arange(0, 2 * count, 2, dtype=np.int32)
    return interleaved.take(from_numpy(evens, is_null if has_nulls else None))
