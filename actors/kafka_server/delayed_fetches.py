"""How many fetch requests of clients wait for records at a node."""

from __future__ import annotations


class DelayedFetches:
    """Counts the fetches that wait: one of a connection that is closed counts until its time is up."""

    __slots__ = ("_most", "count")

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    def begin(self) -> bool:
        """Let one more wait, and return True, or return False where as many wait as may."""
        if self.count >= self._most:
            return False
        self.count += 1
        return True

    def end(self) -> None:
        """Note that one waits no longer."""
        self.count -= 1
