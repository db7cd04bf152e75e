"""The records of a batch as columns, for readers of many: what has the same layout is decoded together.

Producers write runs of records that differ in their bytes alone: the same lengths, and so the same size. In such a run
every field is at the same place of each record, and one slice with a step takes it from all of them. Records of a run
cost a fraction of what they cost one by one, which is how all others are decoded, as `decode_records` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records.record import MIN_RECORD_BYTES, Headers, decode_record, wrap_timestamp
from eagleray.protocol.records.varint import decode_varint, encode_varint

_ENDS: Final = bytes(range(0x80))
"""The bytes that can end a varint; the others have more behind them."""

_GOES_ON: Final = bytes(range(0x80, 0x100))
_LONGEST_RUN: Final = 4096
_WIDEST: Final = 4
_SAFE_TIMESTAMP: Final = 1 << 62
_FEWEST: Final = 3
"""So many records of one size in a row are taken for a run."""


class RecordColumns(msgspec.Struct, frozen=True, gc=False):
    """The fields of the records of one batch; the same place in each column is the same record."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]


class _Layout(NamedTuple):
    """Where the fields of a record are, counted from its beginning."""

    size: int
    timestamp: tuple[int, int]
    offset: tuple[int, int]
    key: tuple[int, int] | None
    value: tuple[int, int] | None
    constant: tuple[int, ...]
    """The bytes that have to be the same in all records of this layout: all lengths."""


def decode_columns(
    block: bytes,
    count: int,
    *,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None = None,
) -> RecordColumns:
    """Decode exactly `count` records that fill the whole block; as `decode_records`, which says what is raised."""
    if not 0 <= count * MIN_RECORD_BYTES <= len(block):
        raise InvalidRecord(f"{count} records do not fit into {len(block)} bytes")
    columns = RecordColumns([], [], [], [], [])
    reader = _Reader(columns, block, base_offset, last_offset_delta, base_timestamp, append_timestamp)
    position = done = 0
    try:
        while done < count:
            begin, position = position, reader.read_one(position)
            done += 1
            size = position - begin
            if count - done >= _FEWEST and _repeats(block, begin, size):
                run = reader.read_run(begin, size, min(count - done, _LONGEST_RUN))
                done += run
                position += run * size
    except IndexError:
        raise InvalidRecord(f"the block of records ends inside record {done}") from None
    if position != len(block):
        raise InvalidRecord(f"{len(block) - position} bytes follow the last record")
    return columns


def _repeats(block: bytes, begin: int, size: int) -> bool:
    first = block[begin : begin + 2]
    return block[begin + size : begin + size + 2] == first == block[begin + 2 * size : begin + 2 * size + 2]


class _Reader:
    """Puts records into columns, one by one or a run at a time."""

    __slots__ = ("_append_timestamp", "_base_offset", "_base_timestamp", "_block", "_columns", "_last_offset_delta")

    def __init__(  # noqa: PLR0917 - behind `decode_columns`, which has names for them
        self,
        columns: RecordColumns,
        block: bytes,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp: int,
        append_timestamp: int | None,
    ) -> None:
        self._columns = columns
        self._block = block
        self._base_offset = base_offset
        self._last_offset_delta = last_offset_delta
        self._base_timestamp = base_timestamp
        self._append_timestamp = append_timestamp

    def read_one(self, position: int) -> int:
        """Decode the record at a position; return where the next one begins."""
        offset_delta, timestamp_delta, key, value, headers, position = decode_record(self._block, position)
        if not 0 <= offset_delta <= self._last_offset_delta:
            raise InvalidRecord(f"offset delta {offset_delta} lies outside of its batch")
        columns, timestamp = self._columns, self._append_timestamp
        if timestamp is None:
            timestamp = wrap_timestamp(self._base_timestamp + timestamp_delta)
        columns.offsets.append(self._base_offset + offset_delta)
        columns.timestamps.append(timestamp)
        columns.keys.append(key)
        columns.values.append(value)
        columns.headers.append(headers)
        return position

    def read_run(self, begin: int, size: int, most: int) -> int:
        """Decode the records behind a good one at `begin` that have its layout; return how many there are."""
        layout = _layout_of(self._block, begin, size)
        if layout is None or not 0 <= self._base_timestamp < _SAFE_TIMESTAMP:
            return 0
        begin += size
        run = _length_of_run(self._block, begin, layout, min(most, (len(self._block) - begin) // size))
        if run == 0:
            return 0
        deltas = _varints(self._block, begin, run, size, layout.offset)
        if not 0 <= min(deltas) <= max(deltas) <= self._last_offset_delta:
            return 0
        columns = self._columns
        columns.offsets.extend([self._base_offset + delta for delta in deltas])
        columns.timestamps.extend(self._timestamps(begin, run, layout))
        columns.keys.extend(self._texts(begin, run, size, layout.key))
        columns.values.extend(self._texts(begin, run, size, layout.value))
        columns.headers.extend([()] * run)
        return run

    def _timestamps(self, begin: int, run: int, layout: _Layout) -> Sequence[int]:
        if self._append_timestamp is not None:
            return [self._append_timestamp] * run
        base = self._base_timestamp
        return [base + delta for delta in _varints(self._block, begin, run, layout.size, layout.timestamp)]

    def _texts(self, begin: int, run: int, size: int, place: tuple[int, int] | None) -> Sequence[bytes | None]:
        if place is None:
            return [None] * run
        block, (start, length) = self._block, place
        first = begin + start
        return [block[at : at + length] for at in range(first, first + run * size, size)]


def _layout_of(block: bytes, begin: int, size: int) -> _Layout | None:
    """Find the fields of a record that was decoded before; None where it is not one for runs."""
    _, position = decode_varint(block, begin)
    constant = [*range(begin, position)]
    timestamp_at, offset_at = position + 1, 0
    position = offset_at = _end_of_varint(block, timestamp_at)
    position = key_length_at = _end_of_varint(block, offset_at)
    places: list[tuple[int, int] | None] = []
    for _ in ("key", "value"):
        length, after = decode_varint(block, position)
        constant += range(position, after)
        places.append((after - begin, length) if length >= 0 else None)
        position = after + max(length, 0)
    has_headers = position != begin + size - 1
    widths = offset_at - timestamp_at, key_length_at - offset_at
    if has_headers or max(widths) > _WIDEST:
        return None
    constant.append(position)
    return _Layout(
        size=size,
        timestamp=(timestamp_at - begin, widths[0]),
        offset=(offset_at - begin, widths[1]),
        key=places[0],
        value=places[1],
        constant=tuple(at - begin for at in constant),
    )


def _end_of_varint(block: bytes, position: int) -> int:
    while block[position] > 0x7F:
        position += 1
    return position + 1


def _length_of_run(block: bytes, begin: int, layout: _Layout, most: int) -> int:
    size = layout.size
    # The lengths of the record before, whose layout this is.
    expected = [(at, block[begin - size + at : begin - size + at + 1]) for at in layout.constant]
    for start, width in (layout.timestamp, layout.offset):
        expected += [(at, _GOES_ON) for at in range(start, start + width - 1)]
        expected.append((start + width - 1, _ENDS))
    for at, allowed in expected:
        column = block[begin + at : begin + most * size : size]
        most = min(most, len(column) - len(column.lstrip(allowed)))
        if most == 0:
            return 0
    return most


def _varints(block: bytes, begin: int, run: int, size: int, place: tuple[int, int]) -> Sequence[int]:
    start, width = place
    columns = [block[begin + at : begin + run * size : size] for at in range(start, start + width)]
    first, _ = decode_varint(block, begin + start)
    if all(column.count(column[0]) == run for column in columns):
        return [first] * run
    ascending = _ASCENDING.get(width)
    if ascending is not None and 0 <= first - ascending[0] <= len(ascending[1][0]) - run:
        skip = first - ascending[0]
        if all(column == known[skip : skip + run] for column, known in zip(columns, ascending[1], strict=True)):
            return range(first, first + run)
    return [decode_varint(block, at)[0] for at in range(begin + start, begin + run * size, size)]


def _ascending(first: int, last: int) -> tuple[int, tuple[bytes, ...]]:
    """Return the bytes of the varints from one number to another, the first of each, the second of each, and so on."""
    return first, tuple(map(bytes, zip(*map(encode_varint, range(first, last)), strict=True)))


_ASCENDING: Final = {1: _ascending(0, 64), 2: _ascending(64, 8192)}
"""Offset deltas that ascend by one, as producers write them, are recognised rather than decoded; by their width."""
