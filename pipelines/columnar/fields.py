"""The fields of all records of some blocks, as columns of numbers: deltas, and where keys, values and headers lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from eagleray.pipelines.columnar.extents import Extents
from eagleray.pipelines.columnar.header_fields import HeaderFields, locate_headers
from eagleray.pipelines.columnar.record_starts import check_record_ends, find_record_starts
from eagleray.pipelines.columnar.varints import Bytes, Integers, decode_varints
from eagleray.protocol.errors import InvalidRecord

if TYPE_CHECKING:
    from eagleray.pipelines.columnar.blocks import JoinedBlocks


class RecordFields(msgspec.Struct, frozen=True):
    """The fields of records, one element a record."""

    timestamp_deltas: Integers
    offset_deltas: Integers
    keys: Extents
    values: Extents
    headers: HeaderFields | None
    """None when no record has any."""


def locate_fields(blocks: JoinedBlocks) -> RecordFields:
    """Find the fields of every record, of which there has to be at least one.

    Raises InvalidRecord, or IndexError where a field leads out of the buffer, for blocks that hold anything but the
    records that they should.
    """
    data = blocks.data
    starts = find_record_starts(blocks)
    lengths, positions = decode_varints(data, starts, 32)
    ends = positions + lengths
    check_record_ends(blocks, starts, ends)
    # The byte between is the attributes, which have no meaning yet.
    timestamp_deltas, positions = decode_varints(data, positions + 1, 64)
    offset_deltas, positions = decode_varints(data, positions, 32)
    keys, positions = _locate(data, positions, ends)
    values, positions = _locate(data, positions, ends)
    headers = _locate_headers(data, positions, ends)
    return RecordFields(timestamp_deltas, offset_deltas, keys, values, headers)


def _locate(data: Bytes, positions: Integers, ends: Integers) -> tuple[Extents, Integers]:
    """Find a field with its length before it, and the positions after it."""
    lengths, starts = decode_varints(data, positions, 32)
    after = starts + np.maximum(lengths, 0)
    if (after > ends).any():
        raise InvalidRecord("a key or a value reaches out of its record")
    return Extents(starts, lengths), after


def _locate_headers(data: Bytes, positions: Integers, ends: Integers) -> HeaderFields | None:
    has_headers = data[positions] != 0
    rows = np.flatnonzero(has_headers)
    without_headers = np.flatnonzero(~has_headers) if rows.size else slice(None)
    if (positions[without_headers] + 1 != ends[without_headers]).any():
        raise InvalidRecord("a record does not end where its length says")
    return locate_headers(data, rows, positions[rows], ends[rows]) if rows.size else None
