"""Idle timeouts of a connection: for the rest of a request, and for any request at all."""

from __future__ import annotations

import enum
from typing import Final

from eagleray.actors.common.listener_config import ListenerConfig

_LEAST_BYTES_PER_SECOND: Final = 100_000
"""A request that arrives at this rate may take as long as it likes."""

SOON_S: Final = 0.5
"""How often a connection is checked that may hold an incomplete request."""

_LOOKS: Final = 8
"""How often a silent connection is checked before it is closed."""


class Verdict(enum.Enum):
    """What becomes of a connection."""

    GOES_ON = enum.auto()
    IDLE = enum.auto()
    SLOW = enum.auto()


class IdleTimeouts:
    """Checks a connection now and then, and says when to check again: soon only while a request is incomplete.

    Arriving bytes are not timed, so that they cost nothing. An idle connection is found at most two checks late, and
    never too early.
    """

    __slots__ = (
        "_active_at_s",
        "_complete_s",
        "_idle_s",
        "_incomplete_since_s",
        "_was_busy",
        "took_request",
        "was_active",
    )

    def __init__(self, config: ListenerConfig, now_s: float) -> None:
        self._complete_s = config.socket_request_complete_ms / 1000
        self._idle_s = config.connections_max_idle_ms / 1000
        self._active_at_s = now_s
        self._incomplete_since_s: float | None = None
        self._was_busy = False
        self.was_active = False
        """Whether something came since the last check."""
        self.took_request = False
        """Whether a request was completed since the last check: what is incomplete now is another one."""

    def look(self, now_s: float, *, incomplete_bytes: int, is_busy: bool) -> Verdict:
        """Judge a connection that has so many bytes of an unfinished request, or has requests in flight."""
        if self._is_too_slow(now_s, incomplete_bytes):
            return Verdict.SLOW
        if self.was_active or is_busy or self._was_busy:
            self.was_active = False
            self._was_busy = is_busy
            self._active_at_s = now_s
        return Verdict.IDLE if now_s - self._active_at_s > self._idle_s else Verdict.GOES_ON

    @property
    def next_look_s(self) -> float:
        """How long after this check the next is worthwhile, if nothing incomplete comes before."""
        return SOON_S if self._incomplete_since_s is not None else max(SOON_S, self._idle_s / _LOOKS)

    def _is_too_slow(self, now_s: float, incomplete_bytes: int) -> bool:
        if self.took_request or not incomplete_bytes:
            self.took_request = False
            self._incomplete_since_s = None
        if not incomplete_bytes:
            return False
        if self._incomplete_since_s is None:
            self._incomplete_since_s = now_s
        allowed_s = self._complete_s + incomplete_bytes / _LEAST_BYTES_PER_SECOND
        return now_s - self._incomplete_since_s > allowed_s
