"""The clock of a node: what it makes of the machine's two clocks, and what it notes of that on its disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from eagleray.actors.common.clock_config import ClockConfig
from eagleray.actors.storage.disk import Disk
from eagleray.broker.checked_file import FileDamaged, decode_checked, encode_checked
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.runtime.clock_watch import ClockLimits, ClockNote, ClockWatch

_log = logging.getLogger(__name__)

CLOCK_SUFFIX: Final = ".clock"

LOOK_MS: Final = 10_000
"""How often the wall clock is looked at. Between two looks the time of day goes by the steady clock."""

NOTE_MS: Final = 600_000
"""How often the time is noted, by which the next boot of the machine tells that its wall clock is behind."""


class NodeClock:
    """Knows the time of day, and says so in the log where the wall clock of the machine cannot be trusted with it.

    Owns: the watch over the two clocks. Persists: what the process that comes after this one needs, by which a restart
    neither forgets a jump nor passes for one. A note that is lost or damaged is one that was never written.
    `on_set` is called with what the time of day was set by, and `on_doubt` with what it may be wrong by, when that has
    changed.
    On failure: where the disk takes no note, the one before counts, and is true of an earlier time.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        node_id: int,
        config: ClockConfig,
        *,
        wall_ms: Callable[[], int],
        steady_ms: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._path = path
        self._node_id = node_id
        self.wall_ms, self._steady_ms = wall_ms, steady_ms
        limits = ClockLimits(config.clock_max_jump_ms, config.clock_accept_after_ms)
        note = self._read()
        self.watch = ClockWatch(limits, wall_ms(), steady_ms(), boot_id=disk.boot_id(), note=note)
        self._next_note_ms = steady_ms()
        self.next_due_ms = steady_ms()
        """When to look at the wall clock, by the steady clock."""
        self.on_set: Callable[[int], None] = lambda _: None
        self.on_doubt: Callable[[int], None] = lambda _: None

    # What the time is

    def now_ms(self) -> int:
        """Return the time of day: for what is written down, and for what is old by what was written down."""
        return self.watch.time_ms(self._steady_ms())

    def running_ms(self) -> int:
        """Return the time by which coordinators count: of the day when the process began, and steady since."""
        return self.watch.running_ms(self._steady_ms())

    @property
    def may_expire(self) -> bool:
        """Whether anything may expire by the time of day."""
        return self.watch.may_expire

    # Looking

    def begin(self) -> None:
        """Say how the clock is, now that this process has the node to itself."""
        if self.watch.doubt is not None:
            self._say_doubt()
        self._tell_doubt()
        self.look()

    def look(self) -> None:
        """Look at the wall clock, and follow it where it may be followed."""
        steady_ms = self._steady_ms()
        self.next_due_ms = steady_ms + LOOK_MS
        was = self.watch.doubt
        self._take(self.watch.looked(self.wall_ms(), steady_ms))
        if self.watch.doubt != was:
            self._tell_doubt()
        if self.watch.doubt != was or steady_ms >= self._next_note_ms:
            self._write(steady_ms)
        if self.watch.doubt not in (None, was):
            self._say_doubt()
        elif was is not None and self.watch.doubt is None:
            _log.warning("node %s goes by its wall clock again, and what is old expires again", self._node_id)

    def accept(self) -> int:
        """Take the wall clock for right, as a person has said; return by how much the time of day was set."""
        steady_ms = self._steady_ms()
        was = self.watch.doubt
        by_ms = self.watch.accept(self.wall_ms(), steady_ms)
        if was is not None:
            _log.warning(
                "a person has accepted the wall clock of node %s; it is set by %s", self._node_id, _span(by_ms)
            )
        self._take(by_ms)
        self._tell_doubt()
        self._write(steady_ms)
        return by_ms

    def _take(self, by_ms: int) -> None:
        if by_ms:
            _log.warning("the time of day of node %s was set by %s", self._node_id, _span(by_ms))
            self.on_set(by_ms)

    def _tell_doubt(self) -> None:
        doubt = self.watch.doubt
        self.on_doubt(0 if doubt is None else abs(doubt.ahead_ms))

    def _say_doubt(self) -> None:
        doubt = self.watch.doubt
        assert doubt is not None, "it is said because there is one"
        _log.critical(
            "the wall clock of node %s says %s, and should say %s: it has moved by %s against the steady clock. The "
            "node keeps its own time, and nothing expires by the time of day. If the wall clock is right, say "
            "`eagleray node accept-clock %s`; else set it right. If it stays where it is, it is accepted in %s",
            self._node_id,
            _text(self.wall_ms()),
            _text(self.now_ms()),
            _span(doubt.ahead_ms),
            self._node_id,
            _span(self.watch.accepted_in_ms(self._steady_ms())),
        )

    # The note

    def _read(self) -> ClockNote | None:
        try:
            if self._disk.exists(self._path):
                return decode_checked(self._disk.read_bytes(self._path), ClockNote)
        except (FileDamaged, OSError) as error:
            _log.warning(
                "%s cannot be read, and a jump of the wall clock before now is not known: %s", self._path, error
            )
        return None

    def _write(self, steady_ms: int) -> None:
        self._next_note_ms = steady_ms + NOTE_MS
        try:
            write_atomically(self._disk, self._path, encode_checked(self.watch.note(steady_ms)))
        except OSError as error:
            _log.warning("node %s cannot note its clock: %s", self._node_id, error)

    def describe(self) -> dict[str, Any]:
        """What a status shows of the clock."""
        doubt, steady_ms = self.watch.doubt, self._steady_ms()
        return {
            "time_ms": self.now_ms(),
            "wall_ms": self.wall_ms(),
            "may_expire": self.may_expire,
            "ahead_ms": 0 if doubt is None else doubt.ahead_ms,
            "doubted_for_ms": None if doubt is None else steady_ms - doubt.since_ms,
            "accepted_in_ms": None if doubt is None else self.watch.accepted_in_ms(steady_ms),
        }


def _span(milliseconds: int) -> str:
    """Say how much a clock moves, in hours where it is much."""
    sign = "-" if milliseconds < 0 else ""
    return f"{sign}{timedelta(milliseconds=abs(milliseconds))}".removesuffix("000")


def _text(time_ms: int) -> str:
    """Say a time; a clock may be anywhere."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms since 1970"
