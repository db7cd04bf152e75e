"""Looking for whole batches behind the place where a scan stopped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crc32c import crc32c

from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import HEADER_BYTES, RecordBatch, decode_header
from eagleray.protocol.records.header import ATTRIBUTES_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eagleray.broker.log.segment import Segment
    from eagleray.protocol.records import BatchHeader

_READ_BYTES = 1024 * 1024
_OFFSET_DIGITS = 4
"""How many of the first bytes of an offset are the same in a whole segment, but for one that crosses 2^32."""


def has_valid_batch(segment: Segment, position: int, from_offset: int) -> bool:
    """Whether a segment has a whole batch, from a position on, with records at an offset or behind it.

    A batch that is torn at the end of the file has no batches behind it, though its records may look like some: a
    producer may send the bytes of a log. Where its length is wrong, its checksum tells where it really ends.
    """
    torn = _header_at(segment, position)
    if torn is None or torn.base_offset < 0:
        return any(True for _ in _valid_batches(segment, position, from_offset))
    end = position + torn.size_bytes
    if end > segment.size_bytes:
        found = _valid_batches(segment, position + HEADER_BYTES, from_offset)
        return any(_ends_at(segment, position, torn, other) for other in found)
    if _is_whole(segment, position, torn):
        # It is not torn; what is wrong with it is outside of its checksum, as its offset is.
        return True
    return any(True for _ in _valid_batches(segment, end, from_offset))


def _valid_batches(segment: Segment, position: int, from_offset: int) -> Iterator[int]:
    """Yield the positions of all that looks like a batch with the right checksum."""
    pattern = _beginnings(segment.base_offset)
    while position + HEADER_BYTES <= segment.size_bytes:
        chunk = segment.read(position, _READ_BYTES)
        for found in pattern.finditer(chunk):
            at = position + found.start()
            header = _header_at(segment, at)
            if header is not None and header.last_offset >= from_offset and _is_whole(segment, at, header):
                yield at
        # The last ones of a chunk may be cut off by its end.
        position += max(len(chunk) - HEADER_BYTES, 1)


def _beginnings(base_offset: int) -> re.Pattern[bytes]:
    """What a batch of a segment begins with, as far as it is known: its first digits, and the magic number."""
    high = base_offset >> 32
    digits = b"|".join(re.escape(each.to_bytes(_OFFSET_DIGITS, "big")) for each in (high, high + 1))
    return re.compile(b"(?=(?:" + digits + rb").{12}\x02)", re.DOTALL)


def _header_at(segment: Segment, position: int) -> BatchHeader | None:
    try:
        return decode_header(segment.read(position, HEADER_BYTES))
    except ProtocolError:
        return None


def _is_whole(segment: Segment, position: int, header: BatchHeader) -> bool:
    if position + header.size_bytes > segment.size_bytes:
        return False
    batch = RecordBatch(memoryview(segment.read(position, header.size_bytes)), header)
    try:
        batch.verify_crc()
    except ProtocolError:
        return False
    return True


def _ends_at(segment: Segment, position: int, header: BatchHeader, end: int) -> bool:
    """Whether the batch at a position is whole if it ends where another begins, so that its length is what is wrong."""
    start = position + ATTRIBUTES_POSITION
    return crc32c(segment.read(start, end - start)) == header.crc
