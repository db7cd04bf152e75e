"""Snappy as Kafka's clients use it: raw blocks, in the framing of the xerial library or without any."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import cramjam

from eagleray.protocol.errors import InvalidRecord, RecordTooLarge

if TYPE_CHECKING:
    from eagleray.protocol.records.header import BytesLike

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES = 32 * 1024
_LENGTH = struct.Struct(">i")


def compress(data: BytesLike) -> bytes:
    """Compress in xerial's framing, which Java's and all other clients read."""
    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK_BYTES]))
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def decompress(data: BytesLike, max_bytes: int) -> bytes:
    """Unpack either framing; each block says how long it gets, and is refused before that is allocated."""
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC:
        return _decompress_block(view, max_bytes)
    if len(view) < len(_HEADER):
        raise InvalidRecord("the snappy frame ends inside its header")
    parts: list[bytes] = []
    position = len(_HEADER)
    left_bytes = max_bytes
    while position < len(view):
        block, position = _next_block(view, position)
        part = _decompress_block(block, left_bytes)
        left_bytes -= len(part)
        parts.append(part)
    return b"".join(parts)


def _next_block(view: memoryview, position: int) -> tuple[memoryview, int]:
    start = position + _LENGTH.size
    if start > len(view):
        raise InvalidRecord("the snappy frame ends inside the length of a block")
    (length,) = _LENGTH.unpack_from(view, position)
    if not 0 < length <= len(view) - start:
        raise InvalidRecord(f"a snappy block of {length} bytes does not fit into its frame")
    return view[start : start + length], start + length


def _decompress_block(block: memoryview, max_bytes: int) -> bytes:
    claimed_bytes = cramjam.snappy.decompress_raw_len(block)
    if claimed_bytes > max_bytes:
        raise RecordTooLarge(f"the snappy block claims to unpack to {claimed_bytes} bytes, over {max_bytes} allowed")
    output = bytearray(claimed_bytes)
    written_bytes = cramjam.snappy.decompress_raw_into(block, output)
    return bytes(memoryview(output)[:written_bytes])
