"""The leader epochs of a log and where each begins (Kafka's leader epoch cache), by which replicas find where they
agree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

import msgspec

NO_EPOCH = -1
NO_OFFSET = -1
_VERSION = 0


class EpochStart(msgspec.Struct, frozen=True, order=True, gc=False):
    """The first offset that a leader of `epoch` appended."""

    epoch: int
    start_offset: int


class EpochEnd(msgspec.Struct, frozen=True, gc=False):
    """The largest epoch not above the one asked for, and the offset behind its last record."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one log, ascending in epoch and in start offset.

    Its file is Kafka's `leader-epoch-checkpoint`: a version, a count, and a line `epoch offset` for each.
    """

    __slots__ = ("_starts", "is_dirty", "latest_epoch")

    def __init__(self, starts: list[EpochStart] | None = None) -> None:
        self._starts = starts or []
        self._changed()
        self.is_dirty = False

    def _changed(self) -> None:
        self.is_dirty = True
        self.latest_epoch = self._starts[-1].epoch if self._starts else NO_EPOCH
        """The newest epoch that has records in the log, or -1."""

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs | None:
        """Read the file; None where it is damaged, and the epochs have to be read from the log's batches."""
        try:
            _, _, *rows = data.decode("ascii").splitlines()
            starts = [EpochStart(*map(int, row.split(" "))) for row in rows]
        except (ValueError, TypeError):
            return None
        epochs = cls(starts)
        return epochs if _ascends(starts) and epochs.encode() == data else None

    def copy(self) -> LeaderEpochs:
        """Return a copy that can be changed separately."""
        copy = LeaderEpochs([*self._starts])
        copy.is_dirty = self.is_dirty
        return copy

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        rows = [f"{start.epoch} {start.start_offset}\n" for start in self._starts]
        return "".join([f"{_VERSION}\n{len(rows)}\n", *rows]).encode("ascii")

    def __len__(self) -> int:
        return len(self._starts)

    def __contains__(self, epoch: int) -> bool:
        later = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        return later > 0 and self._starts[later - 1].epoch == epoch

    def __iter__(self) -> Iterator[EpochStart]:
        return iter(self._starts)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that records of `epoch` begin at `start_offset`; epochs that are known already change nothing."""
        if epoch <= self.latest_epoch:
            return
        self.truncate_from(start_offset)
        self._starts.append(EpochStart(epoch, start_offset))
        self._changed()

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of the record at `offset`, or -1 where it is not known."""
        if self._starts and offset >= self._starts[-1].start_offset:
            # Nearly always a caller asks for the newest.
            return self._starts[-1].epoch
        found = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        return self._starts[found - 1].epoch if found else NO_EPOCH

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return where `epoch` ends in this log, as OffsetForLeaderEpoch answers it."""
        if epoch == NO_EPOCH or not self._starts:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        later = bisect_right(self._starts, epoch, key=lambda start: start.epoch)
        if later == len(self._starts):
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        end_offset = self._starts[later].start_offset
        return EpochEnd(self._starts[later - 1].epoch if later else epoch, end_offset)

    def truncate_from(self, offset: int) -> None:
        """Forget epochs that begin at `offset` or behind it."""
        kept = bisect_left(self._starts, offset, key=lambda start: start.start_offset)
        if kept < len(self._starts):
            del self._starts[kept:]
            self._changed()

    def clear(self) -> None:
        """Forget every epoch, for a log that is to start anew."""
        self.truncate_from(0)

    def truncate_before(self, offset: int) -> None:
        """Forget epochs that end at `offset` or before it; the one that holds `offset` now begins there."""
        later = bisect_right(self._starts, offset, key=lambda start: start.start_offset)
        if later and self._starts[0].start_offset < offset:
            self._starts[:later] = [EpochStart(self._starts[later - 1].epoch, offset)]
            self._changed()


def _ascends(starts: list[EpochStart]) -> bool:
    if starts and (starts[0].epoch < 0 or starts[0].start_offset < 0):
        return False
    return all(one.epoch < other.epoch and one.start_offset < other.start_offset for one, other in pairwise(starts))
