"""The sparse offset index of a segment: from an offset to a position in the log file.

On disk it is Kafka's `.index`: pairs of big-endian int32, the offset relative to the segment's base and the
position. In memory it is two arrays, so that a lookup is one bisection in C.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

ENTRY_BYTES = 8


class OffsetIndex:
    """Positions of some of a segment's batches, in ascending order of offset.

    Entries that were added since `take_unwritten` are only in memory. Losing them costs nothing: recovery
    builds the index of the last segment again, and the older ones were written when they were closed.
    """

    __slots__ = ("_base_offset", "_positions", "_relative_offsets", "_written_entries")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._relative_offsets = array("i")
        self._positions = array("i")
        self._written_entries = 0

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> OffsetIndex | None:
        """Read a whole `.index` file; None where its bytes cannot be an index, which is then built anew."""
        index = cls(base_offset)
        if len(data) % ENTRY_BYTES:
            return None
        pairs = array("i", data)
        if sys.byteorder == "little":
            pairs.byteswap()
        index._relative_offsets = pairs[::2]
        index._positions = pairs[1::2]
        index._written_entries = len(index._positions)
        return index if index._is_ascending() else None

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The entries: the last offset of a batch, and its position."""
        for relative_offset, position in zip(self._relative_offsets, self._positions, strict=True):
            yield self._base_offset + relative_offset, position

    @property
    def last_offset(self) -> int:
        """The highest offset that has an entry, or the base offset where there is none."""
        return self._base_offset + (self._relative_offsets[-1] if self._relative_offsets else 0)

    @property
    def last_position(self) -> int:
        """The highest position that has an entry, or -1 where there is none."""
        return self._positions[-1] if self._positions else -1

    def add(self, offset: int, position: int) -> None:
        """Note that the batch whose last offset is `offset` starts at `position`."""
        self._relative_offsets.append(offset - self._base_offset)
        self._positions.append(position)

    def truncate_from(self, offset: int) -> None:
        """Forget the entries of batches that end at an offset or behind it; none of them is in the file."""
        kept = bisect_left(self._relative_offsets, offset - self._base_offset)
        del self._relative_offsets[kept:], self._positions[kept:]

    def forget_written(self) -> None:
        """Count no entry as written: the file is gone."""
        self._written_entries = 0

    def entry_at_or_before(self, offset: int) -> tuple[int, int] | None:
        """Return the last entry that does not lie behind `offset`: the last offset of a batch, and its position."""
        found = bisect_right(self._relative_offsets, offset - self._base_offset)
        return (self._base_offset + self._relative_offsets[found - 1], self._positions[found - 1]) if found else None

    def offset_past_position(self, position: int) -> int | None:
        """Return the offset of the first entry at or past `position`, an upper bound for a read that ends there."""
        found = bisect_right(self._positions, position - 1)
        return self._base_offset + self._relative_offsets[found] if found < len(self._positions) else None

    def take_unwritten(self) -> bytes:
        """Return the entries to append to the file, and count them as written."""
        start = self._written_entries
        self._written_entries = len(self._positions)
        pairs = array("i", bytes(ENTRY_BYTES * (self._written_entries - start)))
        pairs[::2] = self._relative_offsets[start:]
        pairs[1::2] = self._positions[start:]
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs.tobytes()

    def _is_ascending(self) -> bool:
        offsets, positions = self._relative_offsets, self._positions
        in_order = all(map(int.__lt__, offsets, offsets[1:])) and all(map(int.__lt__, positions, positions[1:]))
        return in_order and (not offsets or (offsets[0] >= 0 and positions[0] >= 0))
