"""The sparse time index of a segment: from a timestamp to an offset.

On disk it is Kafka's `.timeindex`: big-endian int64 timestamp and int32 relative offset. An entry says that
every record up to its offset carries a timestamp of at most its own.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator

_ENTRY = struct.Struct(">qi")
ENTRY_BYTES = _ENTRY.size


class TimeIndex:
    """The largest timestamps seen so far in a segment, ascending, with the offsets that carried them.

    What `OffsetIndex` says about entries that are only in memory holds here too.
    """

    __slots__ = ("_base_offset", "_relative_offsets", "_timestamps_ms", "_written_entries")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps_ms = array("q")
        self._relative_offsets = array("i")
        self._written_entries = 0

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> TimeIndex | None:
        """Read a whole `.timeindex` file; None where its bytes cannot be an index, which is then built anew."""
        if len(data) % ENTRY_BYTES:
            return None
        index = cls(base_offset)
        for timestamp_ms, relative_offset in _ENTRY.iter_unpack(data):
            if index._timestamps_ms and not index._ascends(timestamp_ms, relative_offset):
                return None
            index._timestamps_ms.append(timestamp_ms)
            index._relative_offsets.append(relative_offset)
        index._written_entries = len(index._timestamps_ms)
        return index

    def __len__(self) -> int:
        return len(self._timestamps_ms)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The entries: a timestamp in milliseconds, and the offset that carries it."""
        for timestamp_ms, relative_offset in zip(self._timestamps_ms, self._relative_offsets, strict=True):
            yield timestamp_ms, self._base_offset + relative_offset

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest indexed timestamp, or -1 where there is none."""
        return self._timestamps_ms[-1] if self._timestamps_ms else -1

    @property
    def offset_of_largest_timestamp(self) -> int:
        """The offset that carries the largest indexed timestamp, or the base offset where there is none."""
        return self._base_offset + (self._relative_offsets[-1] if self._relative_offsets else 0)

    def add(self, timestamp_ms: int, offset: int) -> None:
        """Note that `timestamp_ms` is the largest up to `offset`; what does not ascend is left out."""
        relative_offset = offset - self._base_offset
        if not self._timestamps_ms or self._ascends(timestamp_ms, relative_offset):
            self._timestamps_ms.append(timestamp_ms)
            self._relative_offsets.append(relative_offset)

    def truncate_from(self, offset: int) -> None:
        """Forget the entries of an offset and of those behind it; none of them is in the file."""
        kept = bisect_left(self._relative_offsets, offset - self._base_offset)
        del self._timestamps_ms[kept:], self._relative_offsets[kept:]

    def forget_written(self) -> None:
        """Count no entry as written: the file is gone."""
        self._written_entries = 0

    def offset_before(self, timestamp_ms: int) -> int:
        """Return an offset such that no record before it has a timestamp of `timestamp_ms` or more."""
        found = bisect_left(self._timestamps_ms, timestamp_ms)
        return self._base_offset + (self._relative_offsets[found - 1] if found else 0)

    def take_unwritten(self) -> bytes:
        """Return the entries to append to the file, and count them as written."""
        start = self._written_entries
        self._written_entries = len(self._timestamps_ms)
        entries = zip(self._timestamps_ms[start:], self._relative_offsets[start:], strict=True)
        return b"".join(_ENTRY.pack(*entry) for entry in entries)

    def _ascends(self, timestamp_ms: int, relative_offset: int) -> bool:
        return timestamp_ms > self._timestamps_ms[-1] and relative_offset > self._relative_offsets[-1]
