"""The turn of a process: what has come in is dealt with, then what goes out goes out together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

Act: TypeAlias = Callable[[], None]

_MOST_ROUNDS: Final = 16
"""So often roles of one process may answer each other before the loop looks at its sockets again."""


class Turn:
    """Runs once for everything that one look at the sockets, the disks and the clock has brought.

    Owns: what is to be done in the next turn. First the acts, of which the roles are some: what one of them asks of
    another in this process is dealt with in the same turn. Then the flushes: each lane and each connection sends what
    has been said on it, with one write. An act or a flush that raises is reported to the loop, and does not keep the
    others from theirs.
    """

    __slots__ = ("_acts", "_flushes", "_is_over", "_is_scheduled", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._acts: list[Act] = []
        self._flushes: list[Act] = []
        self._is_scheduled = False
        self._is_over = False

    def stop(self) -> None:
        """Do and send nothing any more, and nothing of what was said already: the node has ended."""
        self._is_over = True

    def act(self, act: Act) -> None:
        """Have something done in the next turn, or in this one where it is under way; once for each time it is said."""
        self._acts.append(act)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._run)

    def flush(self, flush: Act) -> None:
        """Have something sent at the end of the next turn, or of this one where it is under way."""
        self._flushes.append(flush)
        if not self._is_scheduled:
            self._is_scheduled = True
            self.loop.call_soon(self._run)

    def _run(self) -> None:
        if self._is_over:
            return
        for _ in range(_MOST_ROUNDS):
            if not self._acts:
                break
            acts, self._acts = self._acts, []
            self._call_all(acts)
        flushes, self._flushes = self._flushes, []
        self._call_all(flushes)
        self._is_scheduled = bool(self._acts or self._flushes)
        if self._is_scheduled:
            self.loop.call_soon(self._run)

    def _call_all(self, acts: list[Act]) -> None:
        for act in acts:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - the loop reports it, as it does for a callback of its own
                self.loop.call_exception_handler({"message": f"{act} failed in its turn", "exception": error})
