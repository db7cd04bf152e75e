"""Bytes as a line of choices: so a fuzzer that changes bytes changes what is done, and what is done stays in shape."""

from collections.abc import Sequence
from typing import TypeVar

Chosen = TypeVar("Chosen")

_FEW = 1 << 8


class Choices:
    """Takes choices from bytes, one after the other; when none are left, every choice is the first there is."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def are_left(self) -> bool:
        return self._position < len(self._data)

    def byte(self) -> int:
        position = self._position
        if position >= len(self._data):
            return 0
        self._position = position + 1
        return self._data[position]

    def below(self, count: int) -> int:
        """A number from 0 to below `count`."""
        return self.byte() % count if count <= _FEW else self.number(4) % count

    def one_in(self, count: int) -> bool:
        """True for one choice of so many; not where none are left."""
        return self.below(count) == count - 1

    def number(self, width: int) -> int:
        """A number of so many bytes, without a sign."""
        return int.from_bytes(self.bytes(width))

    def bytes(self, length: int) -> bytes:
        """So many bytes, or as many as are left."""
        position = self._position
        self._position = min(position + length, len(self._data))
        return self._data[position : self._position]

    def of(self, values: Sequence[Chosen]) -> Chosen:
        return values[self.below(len(values))]
