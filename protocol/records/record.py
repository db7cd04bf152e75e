"""Single records: what an application hands in, what it gets back, and the bytes between.

A record is its length, then attributes (unused), timestamp delta, offset delta, key, value and headers, where
every number but the attributes is a zigzag varint and a length of -1 is null. This is the hottest code of
a consumer, so the decoder spells out the case that a varint has one byte instead of calling for it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records.varint import SINGLE_BYTE_VALUES, VARINTS, decode_longer, decode_varint

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""Header keys that are no UTF-8 keep their bytes as surrogate escapes, so that every record round-trips."""

NO_TIMESTAMP = -1

MIN_RECORD_BYTES = 7
_MIN_HEADER_BYTES = 2
_MIN_INT64 = -(1 << 63)
_MAX_INT64 = (1 << 63) - 1
_ATTRIBUTES = b"\x00"
_NULL = VARINTS[-1]
_NO_HEADERS = VARINTS[0]


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to be written. The timestamp is in milliseconds of the Unix epoch, -1 for none."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record that was read, with its offset in the log; its timestamp is like a new record's."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> bytes:
    """Encode one record, its length included."""
    varints = VARINTS
    if not _MIN_INT64 <= timestamp_delta <= _MAX_INT64:
        timestamp_delta = _wrap(timestamp_delta)
    if key is None:
        key_length, key = _NULL, b""
    else:
        key_length = varints[len(key)]
    if value is None:
        value_length, value = _NULL, b""
    else:
        value_length = varints[len(value)]
    rest = _encode_headers(headers) if headers else _NO_HEADERS
    when, where = varints[timestamp_delta], varints[offset_delta]
    body = b"".join((_ATTRIBUTES, when, where, key_length, key, value_length, value, rest))
    return varints[len(body)] + body


def _wrap(number: int) -> int:
    """Reduce a sum or difference of timestamps to 64 bits, which is what Kafka's arithmetic does by itself."""
    return (number - _MIN_INT64) % (1 << 64) + _MIN_INT64


def wrap_timestamp(timestamp: int) -> int:
    """Return a timestamp that was computed from a delta, in 64 bits."""
    return timestamp if _MIN_INT64 <= timestamp <= _MAX_INT64 else _wrap(timestamp)


def _encode_headers(headers: Headers) -> bytes:
    parts = [VARINTS[len(headers)]]
    for name, value in headers:
        encoded_name = name.encode("utf-8", "surrogateescape")
        parts.append(VARINTS[len(encoded_name)])
        parts.append(encoded_name)
        parts.append(_NULL if value is None else VARINTS[len(value)])
        parts.append(value or b"")
    return b"".join(parts)


def decode_records(
    block: bytes,
    count: int,
    *,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp: int,
    append_timestamp: int | None = None,
) -> list[Record]:
    """Decode exactly `count` records that fill the whole block.

    All of them get `append_timestamp` when the broker has set the time. Raises InvalidRecord for anything
    that is not such a block.
    """
    if not 0 <= count * MIN_RECORD_BYTES <= len(block):
        raise InvalidRecord(f"{count} records do not fit into {len(block)} bytes")
    records: list[Record] = []
    position = 0
    try:
        for _ in range(count):
            offset_delta, timestamp_delta, key, value, headers, position = decode_record(block, position)
            if not 0 <= offset_delta <= last_offset_delta:
                raise InvalidRecord(f"offset delta {offset_delta} lies outside of its batch")
            timestamp = append_timestamp
            if timestamp is None:
                timestamp = wrap_timestamp(base_timestamp + timestamp_delta)
            records.append(Record(base_offset + offset_delta, timestamp, key, value, headers))
    except IndexError:
        raise InvalidRecord(f"the block of records ends inside record {len(records)}") from None
    if position != len(block):
        raise InvalidRecord(f"{len(block) - position} bytes follow the last record")
    return records


def decode_record(block: bytes, position: int) -> tuple[int, int, bytes | None, bytes | None, Headers, int]:
    """Return the deltas, key, value and headers of the record at `position`, and the position after it."""
    single_byte_values = SINGLE_BYTE_VALUES
    length = single_byte_values[block[position]]
    position += 1
    if length is None:
        length, position = decode_longer(block, position, 32)
    end = position + length

    # The byte between is the attributes, which have no meaning yet.
    timestamp_delta = single_byte_values[block[position + 1]]
    position += 2
    if timestamp_delta is None:
        timestamp_delta, position = decode_longer(block, position, 64)
    offset_delta = single_byte_values[block[position]]
    position += 1
    if offset_delta is None:
        offset_delta, position = decode_longer(block, position, 32)

    key = value = None
    length = single_byte_values[block[position]]
    position += 1
    if length is None:
        length, position = decode_longer(block, position, 32)
    if length >= 0:
        key = block[position : position + length]
        position += length
    length = single_byte_values[block[position]]
    position += 1
    if length is None:
        length, position = decode_longer(block, position, 32)
    if length >= 0:
        value = block[position : position + length]
        position += length

    headers: Headers = ()
    if block[position]:
        headers, position = _decode_headers(block, position, end)
    else:
        position += 1
    # A field that reaches out of the record or the block has moved the position too far as well.
    if position != end:
        raise InvalidRecord(f"a record ends at {position}, but by its length at {end}")
    return offset_delta, timestamp_delta, key, value, headers, position


def _decode_headers(block: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = decode_varint(block, position)
    if not 0 <= count * _MIN_HEADER_BYTES <= end - position:
        raise InvalidRecord(f"{count} headers do not fit into their record at {position}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _decode_field(block, position)
        if name is None:
            raise InvalidRecord(f"a header before {position} has no name")
        value, position = _decode_field(block, position)
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def skip_headers(block: bytes, position: int, end: int) -> int:
    """Return the position behind the headers of a record that begin at `position`, where they are well formed."""
    return _decode_headers(block, position, end)[1]


def _decode_field(block: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(block, position)
    if length < 0:
        return None, position
    return block[position : position + length], position + length
