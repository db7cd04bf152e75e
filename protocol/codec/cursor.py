"""Where a decoder in the making stands, and the fixed-width values that it has yet to read."""

from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import Any

from eagleray.protocol.codec.source import Source


class Cursor:
    """Collects neighbours of fixed width, to read them by one call, and keeps track of the position.

    As long as the position is known beforehand, it is written into the source as a number; from the first
    value of variable length on, it is in the variable `position`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._pending: list[tuple[str, str]] = []
        self._known_position: int | None = 0

    @property
    def has_pending(self) -> bool:
        """Whether there are values that have yet to be read."""
        return bool(self._pending)

    def at(self, offset: int = 0) -> str:
        """Give an expression for the position."""
        if self._known_position is not None:
            return str(self._known_position + offset)
        return f"position + {offset}" if offset else "position"

    def skip(self, count: int) -> None:
        """Move on, past bytes that need no reading."""
        if self._known_position is not None:
            self._known_position += count
        elif count:
            self._source.line(f"position += {count}")

    def lose_track(self) -> None:
        """Say that the position is now in its variable, whatever it is."""
        assert not self._pending
        self._known_position = None

    def fixed(self, code: str, name: str) -> str:
        """Put a value on the list of what is to be read, and give the variable that it will be in."""
        variable = self._source.fresh(name)
        self._pending.append((code, variable))
        return variable

    def flush(self, hold_back: int = 0) -> None:
        """Read all that is pending, and stop that many bytes before its end."""
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        unpack = self._source.bind(f"unpack_{codes.replace('?', 'o')}", unpacker(codes))
        targets = ", ".join(variable for _, variable in self._pending)
        targets = targets if len(self._pending) > 1 else f"({targets},)"
        self._source.line(f"{targets} = {unpack}(data, {self.at()})")
        self._pending.clear()
        self.skip(calcsize(f">{codes}") - hold_back)

    def settle(self) -> None:
        """Read all that is pending, and put the position into its variable, as branches and loops need it."""
        self.flush()
        if self._known_position is not None:
            self._source.line(f"position = {self._known_position}")
            self._known_position = None

    def byte(self, name: str) -> str:
        """Read a byte, together with what is pending."""
        return self._byte(name, hold_back=0)

    def peek(self, name: str) -> str:
        """Read a byte, together with what is pending, and stay before it."""
        return self._byte(name, hold_back=1)

    def _byte(self, name: str, hold_back: int) -> str:
        if self._pending:
            variable = self.fixed("B", name)
            self.flush(hold_back)
        else:
            variable = self._source.fresh(name)
            self._source.line(f"{variable} = data[{self.at()}]")
            self.skip(1 - hold_back)
        return variable


@cache
def unpacker(codes: str) -> Callable[..., tuple[Any, ...]]:
    """Give the reader of a run, the same one for all functions that have such a run."""
    return Struct(f">{codes}").unpack_from
