"""Headers of rows to be written: from lists of names and values to how records end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from eagleray.pipelines.columnar.binary import (
    binary_from_parts,
    binary_lengths,
    binary_parts,
    join_binary,
    varint_column,
)
from eagleray.pipelines.columnar.numbers import nulls_of, to_numpy
from eagleray.pipelines.columnar.rows import as_binary
from eagleray.pipelines.columnar.varints import Integers, zigzag

_FIELDS = {"key", "value"}


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
    """Return a binary column of single headers, encoded."""
    children = dict(zip((field.name for field in headers.type), headers.flatten(), strict=True))
    names, values = as_binary("headers.key", children["key"]), as_binary("headers.value", children["value"])
    if names.null_count:
        first = int(nulls_of(names).argmax())
        row = int(np.searchsorted(np.cumsum(counts), first, side="right"))
        raise ValueError(f"row {row} has a header without a key; give each header one, or leave the header out")
    return join_binary(
        varint_column(zigzag(binary_lengths(names))), names, varint_column(zigzag(binary_lengths(values))), values
    )
