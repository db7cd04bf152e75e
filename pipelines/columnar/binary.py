"""The parts of Arrow's binary arrays, for numpy, and arrays made of such parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eagleray.pipelines.columnar.numbers import constant, nulls_of
from eagleray.pipelines.columnar.varints import Bytes, Integers, varint_sizes, write_varints

_SEPARATOR = constant(b"")


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
