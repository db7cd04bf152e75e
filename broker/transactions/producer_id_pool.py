"""The producer ids that a coordinator has been given and has not yet handed out."""

from __future__ import annotations

from collections import deque

_SHARE_KEPT = 10
"""The next block is asked for when a tenth of this one is left, so that no producer has to wait for it."""


class ProducerIdPool:
    """Hands out the ids of blocks, each once, and says when another block is needed.

    Keeps nothing: what is left of a block when its coordinator dies is never used.
    """

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self._low_mark = 0
        self._is_asking = False

    def take(self) -> int | None:
        """Return an id that no other producer has, or None when all are given away."""
        if not self._blocks:
            return None
        block = self._blocks[0]
        self._blocks[0] = block[1:]
        if len(block) == 1:
            self._blocks.popleft()
        return block[0]

    def add(self, first_id: int, count: int) -> None:
        """Take in a block from the allocator."""
        self._is_asking = False
        if count > 0:
            self._blocks.append(range(first_id, first_id + count))
            self._low_mark = count // _SHARE_KEPT

    def begin_asking(self) -> bool:
        """Say whether to ask the allocator now; it is asked for one block at a time."""
        is_needed = not self._is_asking and sum(map(len, self._blocks)) <= self._low_mark
        self._is_asking = self._is_asking or is_needed
        return is_needed
