"""The index of a segment's aborted transactions, which a read at read_committed hands to the consumer.

On disk it is Kafka's `.txnindex`: a version (int16, 0) and four int64: producer id, first offset, last offset
(that of the abort marker) and the last stable offset when the marker was written.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator

import msgspec

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0

_FAN_OUT = 16

# So few entries are searched faster one by one than with the help of the tree.
_FEW = 128


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """One aborted transaction as it stands in one partition."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedSearch(msgspec.Struct, frozen=True):
    """The entries of one segment's index for a range of offsets; if not complete, later segments may have more."""

    transactions: list[AbortedTransaction]
    is_complete: bool


class TransactionIndex:
    """The aborted transactions whose markers are in one segment, in the order of their markers.

    Lookups stay logarithmic in the number of entries: last offsets and last stable offsets ascend, so both
    ends of the candidates are found by bisection, and a tree of minima over the first offsets skips the
    candidates between them that began too late (as thousands may have, while one long transaction held the
    last stable offset back).
    """

    __slots__ = (
        "_first_offsets",
        "_last_offsets",
        "_last_stable_offsets",
        "_minima",
        "_producer_ids",
        "_written_entries",
    )

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._last_stable_offsets = array("q")
        self._minima: list[array[int]] = []
        self._written_entries = 0

    @classmethod
    def decode(cls, data: bytes) -> TransactionIndex | None:
        """Read a whole `.txnindex` file; None where its bytes cannot be an index, which is then built anew."""
        if len(data) % ENTRY_BYTES:
            return None
        index = cls()
        for version, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
            if version != _VERSION or not index._may_follow(entry):
                return None
            index.add(entry)
        index._written_entries = len(index._producer_ids)
        return index

    def __len__(self) -> int:
        return len(self._producer_ids)

    def __getitem__(self, position: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[position],
            self._first_offsets[position],
            self._last_offsets[position],
            self._last_stable_offsets[position],
        )

    def add(self, transaction: AbortedTransaction) -> None:
        """Note a transaction whose abort marker was just appended."""
        position = len(self._producer_ids)
        self._producer_ids.append(transaction.producer_id)
        self._first_offsets.append(transaction.first_offset)
        self._last_offsets.append(transaction.last_offset)
        self._last_stable_offsets.append(transaction.last_stable_offset)
        self._note_minimum(position, transaction.first_offset)

    def truncate_from(self, offset: int) -> None:
        """Forget the transactions whose markers are at an offset or behind it; none of them is in the file."""
        kept = bisect_left(self._last_offsets, offset)
        if kept == len(self):
            return
        for column in (self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets):
            del column[kept:]
        below = self._first_offsets
        for level, minima in enumerate(self._minima):
            if len(below) <= _FAN_OUT:
                del self._minima[level:]
                break
            del minima[-(-len(below) // _FAN_OUT) :]
            minima[-1] = min(below[(len(minima) - 1) * _FAN_OUT :])
            below = minima

    def forget_written(self) -> None:
        """Count no entry as written: the file is gone."""
        self._written_entries = 0

    def search(self, start_offset: int, end_offset: int) -> AbortedSearch:
        """Return the aborted transactions with records or marker in `start_offset` up to before `end_offset`."""
        first = bisect_left(self._last_offsets, start_offset)
        # The first entry that was written with a last stable offset of `end_offset` or more is the last one
        # that can matter: every transaction that began below was decided by then.
        decided = bisect_left(self._last_stable_offsets, end_offset, lo=first)
        is_complete = decided < len(self)
        last = decided + 1 if is_complete else decided
        if last - first <= _FEW:
            return AbortedSearch(
                [one for one in self._slice(first, last) if one.first_offset < end_offset], is_complete
            )
        found = self._began_before(end_offset, first, last)
        return AbortedSearch([self[position] for position in found], is_complete)

    def _slice(self, first: int, last: int) -> Iterator[AbortedTransaction]:
        return map(
            AbortedTransaction,
            self._producer_ids[first:last],
            self._first_offsets[first:last],
            self._last_offsets[first:last],
            self._last_stable_offsets[first:last],
        )

    def take_unwritten(self) -> bytes:
        """Return the entries to append to the file, and count them as written."""
        start = self._written_entries
        self._written_entries = len(self)
        entries = zip(
            self._producer_ids[start:],
            self._first_offsets[start:],
            self._last_offsets[start:],
            self._last_stable_offsets[start:],
            strict=True,
        )
        return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)

    def _may_follow(self, entry: AbortedTransaction) -> bool:
        if entry.first_offset > entry.last_offset:
            return False
        if not self._last_offsets:
            return True
        last_offset, last_stable_offset = self._last_offsets[-1], self._last_stable_offsets[-1]
        return entry.last_offset > last_offset and entry.last_stable_offset >= last_stable_offset

    def _note_minimum(self, position: int, first_offset: int) -> None:
        """Update the tree, whose level n holds the smallest first offset of each run of 16 ** (n + 1) entries."""
        for level in self._minima:
            position //= _FAN_OUT
            if position == len(level):
                level.append(first_offset)
            elif first_offset < level[position]:
                level[position] = first_offset
        top = self._minima[-1] if self._minima else self._first_offsets
        if len(top) > _FAN_OUT:
            runs = range(0, len(top), _FAN_OUT)
            self._minima.append(array("q", (min(top[run : run + _FAN_OUT]) for run in runs)))

    def _began_before(self, end_offset: int, first: int, last: int) -> list[int]:
        found: list[int] = []
        position = first
        while position < last:
            skipped = self._run_that_began_later(position, end_offset)
            if skipped:
                position += skipped
                continue
            if self._first_offsets[position] < end_offset:
                found.append(position)
            position += 1
        return found

    def _run_that_began_later(self, position: int, end_offset: int) -> int:
        """Return the length of the longest aligned run at `position` in which nothing began before `end_offset`."""
        length = 0
        for level, minima in enumerate(self._minima):
            run = _FAN_OUT ** (level + 1)
            if position % run or minima[position // run] < end_offset:
                break
            length = run
        return length
