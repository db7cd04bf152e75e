"""Arrow columns of the bytes that lie here and there in a buffer, copied by Arrow's own gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eagleray.pipelines.columnar.numbers import from_flags, from_numpy
from eagleray.pipelines.columnar.schema import HEADERS

if TYPE_CHECKING:
    from eagleray.pipelines.columnar.extents import Extents
    from eagleray.pipelines.columnar.header_fields import HeaderFields


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
