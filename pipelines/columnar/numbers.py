"""Arrow's columns of numbers as numpy's arrays and back, by way of their buffers.

Arrow has conversions of its own, and loads pandas at the first one, in each of the many processes that Spark starts:
more than a second, for nothing that is used here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

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


def constant(content: bytes | str) -> pa.Scalar:
    """Return a scalar of binary or string."""
    data, column_type = (content.encode(), pa.string()) if isinstance(content, str) else (content, pa.binary())
    boundaries = np.array([0, len(data)], np.int32)
    return pa.Array.from_buffers(column_type, 1, [None, pa.py_buffer(boundaries), pa.py_buffer(data)])[0]


def _bits(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _flags(bits: pa.Buffer, column: pa.Array) -> npt.NDArray[np.bool_]:
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little", count=column.offset + len(column))
    return unpacked[column.offset :].view(np.bool_)
