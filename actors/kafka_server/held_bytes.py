"""What slow peers make a node keep in memory: parts of requests, and answers that they do not read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Holder = TypeVar("Holder")


class HeldBytes(Generic[Holder]):
    """Counts what each connection makes the node hold, and gives up the slowest when all of it is too much.

    The slowest is the one that has made the node hold something for longest without a break. A client that goes on
    begins anew each time, so the more a stranger has the node keep, and the longer, the sooner its turn comes; a client
    that is given up all the same connects again. Making peers wait would not do here: they are waited for.
    """

    __slots__ = ("_give_up", "_held", "most_bytes", "size_bytes")

    def __init__(self, most_bytes: int, give_up: Callable[[Holder], None]) -> None:
        self.most_bytes = most_bytes
        self.size_bytes = 0
        self._give_up = give_up
        self._held: dict[Holder, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, holder: Holder, size_bytes: int) -> None:
        """Note how much a connection makes the node hold now, which may be nothing."""
        if not size_bytes:
            self.forget(holder)
            return
        self.size_bytes += size_bytes - self._held.get(holder, 0)
        self._held[holder] = size_bytes
        while self.size_bytes > self.most_bytes and self._held:
            slowest = next(iter(self._held))
            self.forget(slowest)
            self._give_up(slowest)

    def forget(self, holder: Holder) -> None:
        """Note that a connection makes the node hold nothing any more, or is gone."""
        self.size_bytes -= self._held.pop(holder, 0)
