"""The newest writes of a log, kept in memory for followers that are about to ask for them."""

from __future__ import annotations

from collections import deque
from typing import Final

TAIL_BYTES: Final = 64 * 1024
"""How much of a log is kept at the most. More than this is read from the file with little loss."""


class Tail:
    """The newest writes of a log, from which followers that are level are served without a read.

    Owns: the bytes of whole writes, without gaps and up to the end of the log, at most `TAIL_BYTES` of them. It keeps
    nothing until it is asked to, and nothing that it was told to forget.
    """

    __slots__ = ("_size_bytes", "_writes", "is_wanted")

    def __init__(self) -> None:
        self.is_wanted = False
        self._writes: deque[tuple[int, bytes]] = deque()
        self._size_bytes = 0

    def add(self, base_offset: int, data: bytes) -> None:
        """Take what was written at the end of the log, whose first batch is at an offset."""
        self._writes.append((base_offset, data))
        self._size_bytes += len(data)
        while self._size_bytes > TAIL_BYTES:
            self._size_bytes -= len(self._writes.popleft()[1])

    def since(self, offset: int) -> bytes | None:
        """Return everything from an offset to the end of the log; None where no write that is kept begins there."""
        found: list[bytes] = []
        for base_offset, data in reversed(self._writes):
            found.append(data)
            if base_offset == offset:
                return data if len(found) == 1 else b"".join(reversed(found))
            if base_offset < offset:
                break
        return None

    def forget_before(self, offset: int) -> None:
        """Drop what no follower needs any more."""
        while self._writes and self._writes[0][0] < offset:
            self._size_bytes -= len(self._writes.popleft()[1])

    def clear(self) -> None:
        """Drop everything: the log's end has changed, or no follower needs it any more."""
        self._writes.clear()
        self._size_bytes = 0
