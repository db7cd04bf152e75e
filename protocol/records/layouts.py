"""Proving that a block of records is well formed by its columns, where its records have the same layout.

Most producers send records whose keys and values are as long as each other's. Each field is then at the same place of
each record, and one slice with a step takes it from all of them, in the time that a loop takes for one. A plan says
what has to be in these slices. It follows from the first bytes of the block, the size of the block and the number of
records alone, so one plan serves many batches. What no plan covers is for a loop to judge: a block that is not proved
here may be good.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records.varint import decode_varint, encode_varint

_MOST_PLANS: Final = 128
_MOST_RECORDS: Final = 4096
"""A plan has some ten bytes for each record."""

_FIRST_OF_TWO_BYTES: Final = 64
"""Deltas from here on take two bytes; a timestamp's may be negative, and takes one byte from -64 on."""

_FIRST_OF_THREE_BYTES: Final = 1 << 13
_OFFSET_DELTAS: Final = tuple(encode_varint(delta) for delta in range(_MOST_RECORDS))
_MORE: Final = 0x80
"""The bit of a varint's byte that has another one behind it."""

_WITH_MORE: Final = bytes(range(_MORE, 0x100))

_NOT_ABOVE: Final = tuple(
    bytes(byte for byte in range(_MORE) if byte & 1 or byte <= 2 * delta) for delta in range(_FIRST_OF_TWO_BYTES)
)
"""For each delta of one byte the bytes of those that are not above it. Negative ones are odd."""


class _Plan(NamedTuple):
    """What has to be where in a block."""

    has_keys: bool
    take: itemgetter[tuple[slice, ...]]
    """Takes the columns that are known beforehand out of a block."""

    expected: tuple[bytes, ...]
    short_timestamps: tuple[slice, ...]
    """Where timestamp deltas of one byte are, a slice for each run of records of one size."""

    long_timestamps: tuple[tuple[slice, slice], ...]
    """Where those of two bytes are, a slice for each of the two."""


class _Layout(NamedTuple):
    """What the records of a block have in common: all but the number of bytes of their deltas."""

    key_length: bytes
    key_bytes: int
    value_length: bytes
    value_bytes: int

    def length_of(self, delta_bytes: int) -> int:
        """What a record says of its length, where its two deltas take so many bytes together."""
        # The attributes, and the number of headers, which is zero.
        return 2 + delta_bytes + len(self.key_length) + self.key_bytes + len(self.value_length) + self.value_bytes


class _Run(NamedTuple):
    """Neighbouring records of one size."""

    first: int
    last: int
    """The one behind the last."""

    timestamp_bytes: int
    offset_bytes: int


def is_proved(block: bytes, start: int, count: int, max_delta: int, *, needs_keys: bool) -> bool:
    """Whether `count` records at consecutive offsets fill the block from `start` on, and `max_delta` is the largest of
    their timestamp deltas. Where it is, no delta is below `LEAST_PROVED_DELTA`. The block has at least one record.
    """
    # The length of the record in one or two bytes, its attributes, both deltas, and how long its key is. What is behind
    # says nothing about the layout.
    prefix = block[start : start + 6] if block[start] & _MORE else block[start : start + 5]
    if prefix[-1] & _MORE:
        prefix = block[start : start + len(prefix) + 1]
    plan = _plan_of(prefix, start, len(block), count)
    if plan is None or not 0 <= max_delta < _FIRST_OF_THREE_BYTES:
        return False
    has_keys, take, expected, short_timestamps, long_timestamps = plan
    if take(block) != expected or (needs_keys and not has_keys):
        return False
    is_there = False
    for place in short_timestamps:
        column = block[place]
        if max_delta < _FIRST_OF_TWO_BYTES:
            if column.translate(None, _NOT_ABOVE[max_delta]):
                return False
            is_there = is_there or 2 * max_delta in column
        elif not column.isascii():
            return False
    for low_place, high_place in long_timestamps:
        largest = _largest_of_two_bytes(block[low_place], block[high_place])
        if not 0 <= largest <= max_delta:
            return False
        is_there = is_there or largest == max_delta
    return is_there


LEAST_PROVED_DELTA: Final = -_FIRST_OF_THREE_BYTES


def _largest_of_two_bytes(low: bytes, high: bytes) -> int:
    """Return the largest timestamp delta of some that have two bytes each, -1 where it is negative or one has not."""
    if low.translate(None, _WITH_MORE) or not high.isascii():
        return -1
    largest = max(one & 0x7F | two << 7 for one, two in zip(low, high, strict=True))
    # Half of the largest number, unless that stands for a negative one: then for a loop to judge.
    return -1 if largest & 1 else largest >> 1


@lru_cache(_MOST_PLANS)
def _plan_of(prefix: bytes, start: int, end: int, count: int) -> _Plan | None:
    """Return what has to be in a block that begins with the prefix, None where not all records can have its layout."""
    layout = _layout_of(prefix) if count <= _MOST_RECORDS else None
    if layout is None:
        return None
    # Time goes on from record to record, so the last ones are those with the longer deltas.
    long_count = end - start - _size_of(layout, _runs(count, 0))
    if not 0 <= long_count <= count or _size_of(layout, _runs(count, long_count)) != end - start:
        return None
    places: list[slice] = []
    expected: list[bytes] = []
    timestamps: dict[int, list[tuple[slice, ...]]] = {1: [], 2: []}
    for run in _runs(count, long_count):
        fields, timestamp_at = _fields_of(layout, run)
        if run.last - run.first == 1:
            fields = _joined(fields)
        size = _record_bytes(layout, run)
        end_of_run = start + (run.last - run.first) * size
        places += [_place(start + at, end_of_run, size, column) for at, column in fields]
        expected += [column for _, column in fields]
        first = start + timestamp_at
        in_bytes = tuple(slice(first + at, end_of_run, size) for at in range(run.timestamp_bytes))
        timestamps[run.timestamp_bytes].append(in_bytes)
        start = end_of_run
    return _Plan(
        bool(layout.key_bytes) or layout.key_length == encode_varint(0),
        itemgetter(*places),
        tuple(expected),
        tuple(place for (place,) in timestamps[1]),
        tuple((low, high) for low, high in timestamps[2]),
    )


def _layout_of(prefix: bytes) -> _Layout | None:
    """Return the layout of a record that begins with these bytes and has no headers, and whose deltas are zero."""
    try:
        length, position = decode_varint(prefix, 0)
        if prefix[position + 1] or prefix[position + 2]:
            return None
        key_at = position + 3
        key_bytes, value_at = decode_varint(prefix, key_at)
    except (IndexError, InvalidRecord):
        return None
    key_length = prefix[key_at:value_at]
    left_bytes = length - (value_at - position) - max(key_bytes, 0) - 1
    if left_bytes == 1:
        # A value of no bytes and one that is null are as long; a record that deletes is the likelier one.
        return _Layout(key_length, max(key_bytes, 0), encode_varint(-1), 0)
    for value_bytes in range(left_bytes - 1, max(left_bytes - 6, 0), -1):
        value_length = encode_varint(value_bytes)
        if len(value_length) + value_bytes == left_bytes:
            return _Layout(key_length, max(key_bytes, 0), value_length, value_bytes)
    return None


def _runs(count: int, long_count: int) -> Iterator[_Run]:
    """Part records into runs of one size, where the last ones have timestamp deltas of two bytes."""
    first_long = count - long_count
    borders = sorted({0, min(_FIRST_OF_TWO_BYTES, count), first_long, count})
    for first, last in pairwise(borders):
        yield _Run(first, last, 1 if first < first_long else 2, 1 if first < _FIRST_OF_TWO_BYTES else 2)


def _record_bytes(layout: _Layout, run: _Run) -> int:
    length = layout.length_of(run.timestamp_bytes + run.offset_bytes)
    return len(encode_varint(length)) + length


def _size_of(layout: _Layout, runs: Iterator[_Run]) -> int:
    return sum((run.last - run.first) * _record_bytes(layout, run) for run in runs)


def _fields_of(layout: _Layout, run: _Run) -> tuple[list[tuple[int, bytes]], int]:
    """Return the columns that are known beforehand, each with its place in a record; and that of the timestamp."""
    count = run.last - run.first
    length = encode_varint(layout.length_of(run.timestamp_bytes + run.offset_bytes))
    timestamp_at = len(length) + 1
    offset_at = timestamp_at + run.timestamp_bytes
    key_at = offset_at + run.offset_bytes
    value_at = key_at + len(layout.key_length) + layout.key_bytes
    headers_at = value_at + len(layout.value_length) + layout.value_bytes
    offsets = zip(*_OFFSET_DELTAS[run.first : run.last], strict=True)
    columns = [(offset_at + at, bytes(column)) for at, column in enumerate(offsets)]
    for place, same in ((0, length), (key_at, layout.key_length), (value_at, layout.value_length), (headers_at, b"\0")):
        columns += [(place + at, bytes([byte]) * count) for at, byte in enumerate(same)]
    return columns, timestamp_at


def _place(begin: int, end_of_run: int, size: int, column: bytes) -> slice:
    """Return where a column is in a block; what a single record has there is in one piece."""
    return slice(begin, end_of_run, size) if begin + size < end_of_run else slice(begin, begin + len(column))


def _joined(fields: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Join the bytes of one record that lie side by side."""
    joined: list[tuple[int, bytes]] = []
    for at, byte in sorted(fields):
        if joined and joined[-1][0] + len(joined[-1][1]) == at:
            joined[-1] = joined[-1][0], joined[-1][1] + byte
        else:
            joined.append((at, byte))
    return joined
