"""What is to be done about a loop that does not run: a call of the disk keeps the whole node waiting."""

from __future__ import annotations

import enum
from typing import Final

LOOK_MS: Final = 1000
"""How often the loop is looked at."""

SAY_AFTER_MS: Final = 3000
"""A stall of this length is said; other nodes take over what this one leads about then."""


class StallVerdict(enum.Enum):
    """What comes of a look at the loop."""

    NOTHING = enum.auto()
    SAY = enum.auto()
    """Say that the loop does not run, and what it does; once for each stall."""

    SAY_OVER = enum.auto()
    """Say that it runs again."""

    END = enum.auto()
    """End the process: the same call of the disk has not returned for too long."""


class LoopStall:
    """Adds up for how long a loop has not run, and for how much of that it was in one and the same call of the disk.

    A look counts for no more than the time between two looks. So a process that was stopped, or whose machine slept,
    has not stalled. Only a call of the disk that does not return ends the process: whatever else takes long comes to
    its end, and so do many calls of a slow disk.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._looked_ms: int | None = None
        self._is_said = False
        self.stalled_ms = 0
        self.in_call_ms = 0

    def look(self, now_ms: int, *, has_run: bool, is_in_same_call: bool) -> StallVerdict:
        """Take whether the loop has run since the last look, and whether it is in the same call of the disk as then."""
        passed_ms = 0 if self._looked_ms is None else min(now_ms - self._looked_ms, 2 * LOOK_MS)
        self._looked_ms = now_ms
        if has_run:
            was_said, self._is_said = self._is_said, False
            self.stalled_ms = self.in_call_ms = 0
            return StallVerdict.SAY_OVER if was_said else StallVerdict.NOTHING
        self.stalled_ms += passed_ms
        self.in_call_ms = self.in_call_ms + passed_ms if is_in_same_call else 0
        if self.in_call_ms >= self._timeout_ms:
            return StallVerdict.END
        if self.stalled_ms >= SAY_AFTER_MS and not self._is_said:
            self._is_said = True
            return StallVerdict.SAY
        return StallVerdict.NOTHING
