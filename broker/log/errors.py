"""What can go wrong below a partition log, as typed and picklable exceptions.

An expected outcome, such as a fenced producer, is an `ErrorCode` in a result and never one of these.
"""

from __future__ import annotations


class LogError(Exception):
    """The disk under a log did not do what was asked."""


class LogWriteFailed(LogError):
    """An append did not reach the file; the log is as it was before, and the append may be tried again."""


class LogReadFailed(LogError):
    """A read did not get its bytes from the disk, or cannot make sense of them; nothing has changed by it."""


class LogOffline(LogError):
    """The log cannot tell what is on its disk any more; it has to be opened anew, which recovers it."""


class LogDamaged(LogError):
    """A file holds what the log never wrote there; the disk changed it, and the partition needs another replica."""


class LossNotAccepted(LogDamaged):
    """A log is damaged, no other replica has what it had, and a person has to say whether it goes on without that."""

    def __init__(self, told: str, offset: int | None) -> None:
        super().__init__(told, offset)
        self.told = told
        self.offset = offset
        """Everything from here on would be lost; None where it is the checkpoint that cannot be read."""

    def __str__(self) -> str:
        return self.told


class CompactionFailed(LogError):
    """A compaction was given up; the log serves on, and a later compaction begins where the last whole one ended."""


class OffsetOutOfRange(LogError):
    """A read or a deletion names an offset that the log does not hold."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(offset, log_start_offset, log_end_offset)
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset

    def __str__(self) -> str:
        return (
            f"offset {self.offset} is outside of the log; "
            f"expected one from {self.log_start_offset} to {self.log_end_offset}"
        )
