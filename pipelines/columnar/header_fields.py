"""Where the names and values of headers lie: the first header of all records at once, then the second, and so on."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from eagleray.pipelines.columnar.extents import Extents
from eagleray.pipelines.columnar.varints import Bytes, Integers, decode_varints
from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records.varint import decode_varint

MIN_HEADER_BYTES = 2
ENOUGH_RECORDS = 24
"""From so many on, one step of numpy for all of them takes less time than one of Python for each."""


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
