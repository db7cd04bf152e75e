"""Undoing an append that failed: the state before it comes back without a look at the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.leader_epochs import LeaderEpochs
from eagleray.broker.log.segment import Segment, SegmentState

if TYPE_CHECKING:
    from eagleray.broker.log.partition_log import PartitionLog


class AppendUndo(msgspec.Struct):
    """What a log was before an append.

    A disk that is full refuses one append after the other, so that going back must not cost a scan of the segment. The
    producers keep what they were themselves (`ProducerState.begin_append`); indexes and unstable transactions are
    cut at the end offset.
    """

    segment: Segment
    end_offset: int
    _state: SegmentState
    has_rolled: bool = False
    """Whether another segment was begun, or its beginning has failed."""

    _has_written_indexes: bool = False
    _epochs: LeaderEpochs | None = None

    @classmethod
    def of(cls, log: PartitionLog) -> AppendUndo:
        """Return what a log is before something is done to its end."""
        log.producers.begin_append()
        segment = log.segments[-1]
        return cls(segment, log.log_end_offset, segment.state())

    def keep_epochs(self, epochs: LeaderEpochs) -> None:
        """Keep the leader epochs before they change; they rarely do."""
        if self._epochs is None:
            self._epochs = epochs.copy()

    def begin_roll(self, end_offset: int) -> None:
        """Note that the indexes of the segment are about to be written, up to an offset."""
        self.has_rolled = True
        self._has_written_indexes |= end_offset > self.end_offset

    def rolled(self, log: PartitionLog) -> None:
        """Note that another segment was begun. Where it begins at the end that the log had, it stays."""
        begun = log.segments[-1]
        if begun.base_offset == self.end_offset:
            self.segment, self._state = begun, begun.state()
            self.has_rolled = False

    def take_back(self, log: PartitionLog) -> None:
        """Go back. Raises OSError where the file cannot be cut."""
        log.log_end_offset = self.end_offset
        log.tail.clear()
        while log.segments[-1] is not self.segment:
            log.segments.pop().close()
        if self._has_written_indexes:
            self.segment.forget_written_indexes()
        self.segment.undo_append(self._state, self.end_offset)
        log.producers.undo_append(self.end_offset)
        if self._epochs is not None:
            log.epochs = self._epochs
            # The file may have those of the append by now.
            log.epochs.is_dirty = True
