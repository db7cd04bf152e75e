"""The part of a log that puts on stable storage what was appended, and what is known of it."""

from __future__ import annotations

from eagleray.broker.filesystem import FlushFailed
from eagleray.broker.log.config import LogConfig
from eagleray.broker.log.flushing import BackgroundFlush
from eagleray.broker.log.readable_log import ReadableLog
from eagleray.broker.log.segment import Segment


class DurableLog(ReadableLog):
    """Flushes, checkpoints and bookmarks of a partition's log.

    Owns: how far the log is flushed, and whether files have names that are not. `PartitionLog` adds what changes it.
    """

    config: LogConfig
    cleaned_up_to: int
    _new_names: int
    """How many segments were begun whose names are not known to be on stable storage."""
    _rewinds: int
    """How often the log has taken its state from the files again, which may have been cut."""
    is_flush_due: bool
    """Whether something was appended since the last flush in the background began."""

    @property
    def recovery_point(self) -> int:
        """Everything below is on stable storage."""
        return self._metadata.checkpoint.recovery_point

    def flush(self) -> None:
        """Return once everything appended is on stable storage.

        A flush that fails leaves it unknown what the disk holds, and a second one could succeed without writing
        anything, so the log goes offline.
        """
        self._availability.require()
        with self._availability.or_offline("flushing"):
            for segment in self._behind_recovery_point():
                segment.flush()
            if self._new_names:
                self._file_system.flush_directory(self._directory)
                self._new_names = 0
        self._metadata.note_flushed(self.log_end_offset)

    def begin_flush(self) -> BackgroundFlush:
        """Begin to flush what there is by now, off the loop; `finish_flush` has to follow. Raises OSError."""
        self._availability.require()
        self.is_flush_due = False
        behind = [] if self.recovery_point >= self.log_end_offset else self._behind_recovery_point()
        return BackgroundFlush(
            self._file_system,
            self._directory,
            [segment.handle() for segment in behind],
            self._metadata.checkpoint,
            end_offset=self.log_end_offset,
            new_names=self._new_names,
            rewinds=self._rewinds,
        )

    def finish_flush(self, flush: BackgroundFlush, error: FlushFailed | None) -> None:
        """Take note of what a flush has come to; where it failed, the log goes offline."""
        if not self._availability.is_online:
            return
        with self._availability.or_offline("flushing"):
            if error is not None:
                raise error
        self._new_names = max(self._new_names - flush.new_names, 0)
        if flush.rewinds == self._rewinds:
            self._metadata.note_flushed(max(flush.end_offset, self.recovery_point))

    def _behind_recovery_point(self) -> list[Segment]:
        return self.segments[self._segment_number(self.recovery_point) :]

    def write_checkpoint(self) -> None:
        """Persist the offsets that the segments do not tell; called now and then, and after each flush that matters."""
        with self._availability.writing("the checkpoint was not written"):
            self._metadata.write_checkpoint(self)

    def write_bookmark(self) -> None:
        """Note up to where everything is known, for the process that opens the log after the death of this one.

        Called now and then: the next opening in this boot reads only what was appended since.
        """
        with self._availability.writing("the bookmark was not written"):
            # Where it cannot be written, it is not tried again before enough has been appended to make it worth trying.
            self.active_segment.unmarked_batches = 0
            self._metadata.write_epochs(self.epochs)
            self._metadata.write_bookmark(self)
