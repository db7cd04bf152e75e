"""Where the batches of a segment lie in its file, and whether some are missing behind it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.errors import LogDamaged
from eagleray.protocol.records import HEADER_BYTES, LOG_OVERHEAD_BYTES

if TYPE_CHECKING:
    from eagleray.broker.filesystem import File

MAX_RELATIVE_OFFSET = 2**31 - 1

# The part of a batch's header that is needed to step over it: base offset, length, last offset delta.
_STEP = struct.Struct(">qi11xi")
_STEP_READ_BYTES = 8 * 1024


def is_gap(end_offset: int, next_base_offset: int) -> bool:
    """Whether something is missing between the end of a segment and the next one.

    A segment begins where the one before it ends, because compaction leaves the last batch of each. The exception is a
    follower that was sent offsets further apart than one segment can hold.
    """
    return end_offset < next_base_offset <= end_offset + MAX_RELATIVE_OFFSET


class BatchLocation(msgspec.Struct, frozen=True, gc=False):
    """Where a batch lies in its segment's file."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def batch_locations(
    file: File, position: int, end: int, damaged: Callable[[int], LogDamaged]
) -> Iterator[BatchLocation]:
    """Step over the batches of a file from `position` to its `end`; where none begins, raise what `damaged` gives."""
    chunk, chunk_position = b"", position
    while position < end:
        if position + _STEP.size > chunk_position + len(chunk):
            chunk, chunk_position = file.read(position, _STEP_READ_BYTES), position
        if position + HEADER_BYTES > end or len(chunk) - (position - chunk_position) < _STEP.size:
            raise damaged(position)
        base_offset, batch_length, last_offset_delta = _STEP.unpack_from(chunk, position - chunk_position)
        size_bytes = batch_length + LOG_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES or position + size_bytes > end:
            raise damaged(position)
        yield BatchLocation(position, size_bytes, base_offset, base_offset + last_offset_delta)
        position += size_bytes
