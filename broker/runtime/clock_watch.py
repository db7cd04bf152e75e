"""The time of day of a node, which does not follow the wall clock when that jumps."""

from __future__ import annotations

import msgspec

SLACK_MS = 1_000
"""What the two clocks may differ by without a word: a process may be held up between reading one and the other."""


class ClockLimits(msgspec.Struct, frozen=True):
    """How far a wall clock is followed."""

    max_jump_ms: int
    """By so much the wall clock may move against the steady clock within `accept_after_ms`."""

    accept_after_ms: int
    """When a wall clock has been so long where it jumped to, it is taken for right."""


class ClockDoubt(msgspec.Struct, frozen=True):
    """A jump of the wall clock that is not followed yet."""

    since_ms: int
    """By the steady clock."""

    ahead_ms: int
    """How far the wall clock is ahead of the time of day; below zero where it is behind."""


class ClockNote(msgspec.Struct, frozen=True):
    """What a node writes down of its clock, for the process that comes after it."""

    boot_id: str
    """In which boot of the machine the steady clock has counted."""

    steady_ms: int
    time_ms: int
    """The time of day when the steady clock had counted so much."""

    anchor_ms: int
    anchored_ms: int
    doubt: ClockDoubt | None = None
    version: int = 1


class ClockWatch:
    """Tells the time of day by the steady clock, and follows the wall clock where that is no more than corrected.

    Owns: by how much the time of day is ahead of the steady clock. It changes in `looked` and `accept` alone, which
    return by how much; between them it is as steady as the steady clock. The wall clock is followed as long as it has
    moved by no more than a limit since the anchor, which is moved up once in `accept_after_ms`. A larger jump is put in
    doubt: the time of day goes on as before, and nothing expires by it, until the wall clock is back, has been where it
    is for `accept_after_ms`, or a person accepts it.
    After a restart: within the same boot of the machine all of this goes on, because the steady clock does. In another
    boot the time of day is never before what was noted; a clock that is ahead of it cannot be told from a machine that
    was off so long, and is taken, unless it was in doubt before.
    """

    def __init__(
        self, limits: ClockLimits, wall_ms: int, steady_ms: int, *, boot_id: str = "", note: ClockNote | None = None
    ) -> None:
        """Begin with what both clocks say, and with what the process before has noted."""
        self._limits = limits
        self._boot_id = boot_id
        self.doubt: ClockDoubt | None = None
        self._offset_ms = wall_ms - steady_ms
        if note is not None and boot_id and note.boot_id == boot_id and note.steady_ms <= steady_ms:
            self._offset_ms = note.time_ms - note.steady_ms
            self._anchor_ms, self._anchored_ms, self.doubt = note.anchor_ms, note.anchored_ms, note.doubt
        else:
            if note is not None and self._is_doubtful(note, wall_ms):
                self._offset_ms = note.time_ms - steady_ms
                self.doubt = ClockDoubt(steady_ms, wall_ms - note.time_ms)
            self._anchor_ms, self._anchored_ms = self._offset_ms, steady_ms
        self.looked(wall_ms, steady_ms)
        self._first_offset_ms = self._offset_ms

    def _is_doubtful(self, note: ClockNote, wall_ms: int) -> bool:
        """Whether a clock that was not watched is behind what is known, or still where it had jumped to."""
        ahead_ms = wall_ms - note.time_ms
        was_ahead = note.doubt is not None and note.doubt.ahead_ms > 0
        return ahead_ms < -self._limits.max_jump_ms or (was_ahead and ahead_ms > self._limits.max_jump_ms)

    def time_ms(self, steady_ms: int) -> int:
        """Return the time of day."""
        return steady_ms + self._offset_ms

    def running_ms(self, steady_ms: int) -> int:
        """Return the time of day as it would be if it had not been set since the process began.

        It is the steady clock with another beginning, by which whatever a process has seen itself is as old as it is.
        """
        return steady_ms + self._first_offset_ms

    def steady_ms(self, running_ms: int) -> int:
        """Return what the steady clock says at a running time."""
        return running_ms - self._first_offset_ms

    @property
    def set_by_ms(self) -> int:
        """By how much the time of day was set since the process began."""
        return self._offset_ms - self._first_offset_ms

    @property
    def may_expire(self) -> bool:
        """Whether the time of day is sure enough to let go of what is old by it."""
        return self.doubt is None

    def accepted_in_ms(self, steady_ms: int) -> int:
        """In how long a jump that is in doubt is taken for right."""
        return 0 if self.doubt is None else max(self.doubt.since_ms + self._limits.accept_after_ms - steady_ms, 0)

    def looked(self, wall_ms: int, steady_ms: int) -> int:
        """Take what both clocks say; return by how much the time of day was set."""
        ahead_ms = wall_ms - self.time_ms(steady_ms)
        if abs(ahead_ms) <= SLACK_MS:
            self.doubt = None
            self._move_anchor(steady_ms)
            return 0
        limit_ms = self._limits.max_jump_ms
        if abs(wall_ms - steady_ms - self._anchor_ms) <= limit_ms:
            self.doubt = None
            return self._set(ahead_ms)
        if self.doubt is None or abs(ahead_ms - self.doubt.ahead_ms) > limit_ms:
            self.doubt = ClockDoubt(steady_ms, ahead_ms)
        elif self.accepted_in_ms(steady_ms) == 0:
            return self.accept(wall_ms, steady_ms)
        return 0

    def accept(self, wall_ms: int, steady_ms: int) -> int:
        """Take the wall clock for right, wherever it is; return by how much the time of day was set."""
        self.doubt = None
        ahead_ms = wall_ms - self.time_ms(steady_ms)
        by_ms = self._set(ahead_ms) if abs(ahead_ms) > SLACK_MS else 0
        self._anchor_ms, self._anchored_ms = self._offset_ms, steady_ms
        return by_ms

    def _set(self, by_ms: int) -> int:
        self._offset_ms += by_ms
        return by_ms

    def _move_anchor(self, steady_ms: int) -> None:
        if steady_ms - self._anchored_ms >= self._limits.accept_after_ms:
            self._anchor_ms, self._anchored_ms = self._offset_ms, steady_ms

    def note(self, steady_ms: int) -> ClockNote:
        """Say what the next process has to know."""
        return ClockNote(
            self._boot_id, steady_ms, self.time_ms(steady_ms), self._anchor_ms, self._anchored_ms, self.doubt
        )
