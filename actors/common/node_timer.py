"""The one timer of a node, which fires at the first deadline of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines

PAUSE_MS: Final = 10
"""The least time between two firings, for everything else; what is due within it is done together."""


class NodeTimer:
    """Calls what is due, at most once every `PAUSE_MS`; without a deadline it never wakes.

    Owns: one heap of deadlines, and one timer of the loop. Deadlines are in milliseconds of the steady clock; one in
    the past counts as one of now, so that it cannot keep the loop busy. Nothing is called before `start`. Exceptions of
    the calls go to `fail`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, steady_ms: Callable[[], int], fail: Callable[[BaseException], None]
    ) -> None:
        self._loop = loop
        self._steady_ms = steady_ms
        self._fail = fail
        self._deadlines: Deadlines[Callable[[], None]] = Deadlines(self._arm)
        self.set = self._deadlines.set
        """Have something called at this time, and not at the one that was set for it before; NEVER_MS for never."""
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = NEVER_MS
        self._earliest_ms = -NEVER_MS
        self._is_running = False
        self.rings = 0

    def start(self) -> None:
        """Start the timer."""
        self._is_running = True
        self._arm(self._deadlines.next_due_ms)

    def stop(self) -> None:
        """Stop the timer."""
        self._is_running = False
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self, due_ms: int) -> None:
        """Make the timer fire by then; one that is set earlier fires, and is set again."""
        due_ms = max(due_ms, self._earliest_ms)
        if due_ms >= self._armed_ms or not self._is_running:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._armed_ms = due_ms
        self._handle = self._loop.call_later(max(due_ms - self._steady_ms(), 0) / 1000, self._ring)

    def _ring(self) -> None:
        self.rings += 1
        self._handle, self._armed_ms = None, NEVER_MS
        steady_ms = self._steady_ms()
        self._earliest_ms = steady_ms + PAUSE_MS
        for act in self._deadlines.take_due(steady_ms):
            try:
                act()
            except Exception as error:  # noqa: BLE001 - the state may be anything now
                self._fail(error)
        self._arm(self._deadlines.next_due_ms)
