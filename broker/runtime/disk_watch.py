"""Whether a node may write to its disk, by the room that there is and by what the disk does."""

from __future__ import annotations

import enum
import errno
from typing import Final

import msgspec

from eagleray.broker.runtime.deadlines import AT_ONCE_MS

LOOK_MS: Final = 1_000
"""How often the disk is looked at while it has little room."""

LOOK_WITH_ROOM_MS: Final = 10_000
_MUCH: Final = 4
"""So many times the low watermark is much room: no disk takes that within `LOOK_WITH_ROOM_MS`."""

FIRST_HOLD_MS: Final = 1_000
LONGEST_HOLD_MS: Final = 30_000
"""For so long nothing is written after a refusal: a quota, or a lack of inodes, shows in no number of free bytes."""

_LEAST_SHARES: Final = (5, 20, 100)
"""On a small disk, the watermarks and the reserve are these parts of it at the most."""


class DiskState(enum.StrEnum):
    """What a node makes of its disk."""

    OK = "ok"
    LOW = "low"
    """Everything is written, and a person had better look."""

    FULL = "full"
    """Only what the broker needs to get room again is written."""

    READ_ONLY = "read-only"
    STUCK = "stuck"
    """A flush has not returned for a long time."""


class DiskSpace(msgspec.Struct, frozen=True):
    """What a file system says about itself."""

    free_bytes: int
    total_bytes: int
    is_read_only: bool = False


class Watermarks(msgspec.Struct, frozen=True):
    """How much of a disk is to stay free."""

    low_free_bytes: int
    """With less than this, the disk is low."""

    min_free_bytes: int
    """With less than this, it is full."""

    reserve_bytes: int
    """How much a file takes that goes when the disk is full."""

    def on(self, total_bytes: int) -> Watermarks:
        """Return the watermarks of a disk of this size."""
        low, least, reserve = (total_bytes // share for share in _LEAST_SHARES)
        return Watermarks(
            min(self.low_free_bytes, low), min(self.min_free_bytes, least), min(self.reserve_bytes, reserve)
        )

    @property
    def enough_bytes(self) -> int:
        """How much has to be free until a disk that was full is so no more: there is room for the reserve, too."""
        return self.min_free_bytes + self.min_free_bytes // 4 + self.reserve_bytes


class DiskWatch:
    """Decides by what it is told of a disk whether the node may write what clients send.

    Owns: the state of the disk, and when to look again. It is full below one watermark, until there is enough room
    above it not to change back at once; and for a while after it has refused a write, twice as long each time. Then
    `refusal` says why, and no batch of a producer and no record of a coordinator is written. Markers of transactions,
    metadata and the small files of the logs still are: they have the room below the watermark, and the reserve.
    """

    def __init__(self, watermarks: Watermarks, flush_timeout_ms: int) -> None:
        self._watermarks = watermarks
        self._flush_timeout_ms = flush_timeout_ms
        self._held_until_ms = self._hold_ms = 0
        self.state = DiskState.OK
        self.refusal = ""
        """Why nothing of clients is written; empty while it is."""

        self.space: DiskSpace | None = None
        self.next_look_ms = AT_ONCE_MS

    @property
    def reserve_bytes(self) -> int:
        """How large the reserve of this disk is to be."""
        return 0 if self.space is None else self._watermarks.on(self.space.total_bytes).reserve_bytes

    def wants_reserve(self, *, has_reserve: bool) -> bool:
        """Whether the reserve is to be there, now that the disk was looked at."""
        if self.space is None or self.state in (DiskState.READ_ONLY, DiskState.STUCK):
            return has_reserve
        if self.state is DiskState.FULL or not self.reserve_bytes:
            return False
        return has_reserve or self.space.free_bytes >= self._watermarks.on(self.space.total_bytes).enough_bytes

    def looked(self, space: DiskSpace, now_ms: int, *, flushing_since_ms: int | None = None) -> bool:
        """Take what a look at the disk has found; return whether the state has changed by it."""
        was, self.space = self.state, space
        marks = self._watermarks.on(space.total_bytes)
        if space.is_read_only or space.free_bytes < marks.min_free_bytes:
            # What a look shows, the next look shows to be over: no refusal has to be remembered.
            self._held_until_ms = self._hold_ms = 0
        is_stuck = flushing_since_ms is not None and now_ms - flushing_since_ms >= self._flush_timeout_ms
        if is_stuck:
            self.state = DiskState.STUCK
        elif space.is_read_only:
            self.state = DiskState.READ_ONLY
        elif now_ms < self._held_until_ms or self._is_full(space, marks):
            self.state = DiskState.FULL
        else:
            self.state = DiskState.LOW if self._is_low(space, marks) else DiskState.OK
        self.refusal = self._refusal(space, marks)
        has_much = self.state is DiskState.OK and space.free_bytes >= _MUCH * marks.low_free_bytes
        self.next_look_ms = now_ms + (LOOK_WITH_ROOM_MS if has_much else LOOK_MS)
        return self.state is not was

    def refused(self, error: OSError, now_ms: int) -> bool:
        """Take note that the disk has refused a write; return whether it was not known that it would."""
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            return False
        if now_ms >= self._held_until_ms:
            is_soon = now_ms - self._held_until_ms < LONGEST_HOLD_MS
            self._hold_ms = min(2 * self._hold_ms, LONGEST_HOLD_MS) if self._hold_ms and is_soon else FIRST_HOLD_MS
        self._held_until_ms = now_ms + self._hold_ms
        self.next_look_ms = AT_ONCE_MS
        is_news = not self.refusal
        if is_news:
            self.state = DiskState.READ_ONLY if error.errno == errno.EROFS else DiskState.FULL
            self.refusal = f"the disk has refused a write: {error}. {_HELP[self.state]}"
        return is_news

    def _is_full(self, space: DiskSpace, marks: Watermarks) -> bool:
        was_full = self.state is DiskState.FULL
        return space.free_bytes < (marks.enough_bytes if was_full else marks.min_free_bytes)

    def _is_low(self, space: DiskSpace, marks: Watermarks) -> bool:
        was_ok = self.state is DiskState.OK
        return space.free_bytes < marks.low_free_bytes + (0 if was_ok else marks.low_free_bytes // 10)

    def _refusal(self, space: DiskSpace, marks: Watermarks) -> str:
        if self.state in (DiskState.OK, DiskState.LOW):
            return ""
        return f"{self.describe(space, marks)}. {_HELP[self.state]}"

    def describe(self, space: DiskSpace, marks: Watermarks) -> str:
        """Say what is the matter with the disk."""
        match self.state:
            case DiskState.STUCK:
                return f"a flush has not returned within storage.flush.timeout.ms ({self._flush_timeout_ms})"
            case DiskState.READ_ONLY:
                return "the file system is read-only"
            case DiskState.FULL if space.free_bytes >= marks.enough_bytes:
                return f"the disk has refused a write, although {space.free_bytes} bytes are free"
            case DiskState.FULL:
                return f"the disk has {space.free_bytes} bytes free; {marks.enough_bytes} are needed"
            case _:
                return f"the disk has {space.free_bytes} bytes free"


_HELP: Final = {
    DiskState.FULL: (
        "Delete topics or records, keep them for a shorter time (retention.ms), or make the file system larger; "
        "writing goes on by itself"
    ),
    DiskState.READ_ONLY: (
        "The system makes it so after errors of the disk: look at the system's log, and mount it for writing again"
    ),
    DiskState.STUCK: "Look at the disk, or at the network that it is reached by; writing goes on when it answers",
}
