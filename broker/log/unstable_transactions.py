"""The transactions that hold back the last stable offset (LSO) of a partition."""

from __future__ import annotations

from collections import OrderedDict, deque


class UnstableTransactions:
    """The transactions of one partition that are open, or decided but not yet replicated.

    An offset is stable once nothing that happens later can change whether a committed reader sees it. A
    transaction is therefore unstable from its first record until its marker lies below the high watermark.

    Transactions begin in ascending order of offset, so the first key of an ordered dictionary is the oldest;
    markers are written in ascending order too, so those to be replicated next stand at the left of a queue.
    Beginning, ending and asking all cost constant time, and what has become stable takes no memory, even while
    an older transaction stays open.
    """

    __slots__ = ("_undecided", "_unreplicated", "_unstable")

    def __init__(self) -> None:
        # Plain dictionaries slow down as keys leave at their front; ordered ones do not.
        self._unstable: OrderedDict[int, None] = OrderedDict()
        self._undecided: OrderedDict[int, None] = OrderedDict()
        self._unreplicated: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._unstable)

    def begin(self, first_offset: int) -> None:
        """Note a transaction whose first record is at `first_offset`."""
        self._unstable[first_offset] = None
        self._undecided[first_offset] = None

    def decide(self, first_offset: int, marker_offset: int) -> None:
        """Note that the marker of the transaction that began at `first_offset` is in the log."""
        del self._undecided[first_offset]
        self._unreplicated.append((marker_offset, first_offset))

    def replicated_up_to(self, high_watermark: int) -> None:
        """Let go of decided transactions whose markers lie below the high watermark."""
        unreplicated, unstable = self._unreplicated, self._unstable
        while unreplicated and unreplicated[0][0] < high_watermark:
            del unstable[unreplicated.popleft()[1]]

    def truncate_from(self, end_offset: int) -> None:
        """Forget what was begun or decided by batches at an offset or behind it, none of which is replicated."""
        unreplicated, undecided, unstable = self._unreplicated, self._undecided, self._unstable
        reopened = []
        while unreplicated and unreplicated[-1][0] >= end_offset:
            reopened.append(unreplicated.pop()[1])
        for opened in (undecided, unstable):
            while opened and next(reversed(opened)) >= end_offset:
                opened.popitem()
        for first_offset in reopened:
            if first_offset < end_offset:
                undecided[first_offset] = None
        if reopened:
            self._undecided = OrderedDict.fromkeys(sorted(undecided))

    @property
    def unreplicated(self) -> list[tuple[int, int]]:
        """The marker's offset and the first offset of what is decided but not yet replicated, in the order of the
        markers.
        """
        return list(self._unreplicated)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset whose fate is open, or None where every record is stable."""
        return next(iter(self._unstable), None)

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of a transaction that has no marker yet."""
        return next(iter(self._undecided), None)
