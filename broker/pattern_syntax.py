"""What a regular expression says: its characters, and how they follow each other."""

from __future__ import annotations

import re
import warnings
from typing import Final, TypeAlias

import msgspec


class BadPattern(ValueError):
    """A regular expression that cannot be used; the message says why, for the client to read."""


class Character(msgspec.Struct, frozen=True):
    """Any one of the characters that a piece of the expression stands for."""

    piece: str
    ignores_case: bool
    takes_newlines: bool


class Edge(msgspec.Struct, frozen=True):
    """Where a text begins or ends; no character of it."""

    is_end: bool


class Sequence(msgspec.Struct, frozen=True):
    """All parts, one behind the other."""

    parts: tuple[Node, ...]


class Choice(msgspec.Struct, frozen=True):
    """One of the parts."""

    parts: tuple[Node, ...]


class Repetition(msgspec.Struct, frozen=True):
    """A part some times over."""

    part: Node
    least: int
    most: int | None
    """None for any number."""


Node: TypeAlias = Character | Edge | Sequence | Choice | Repetition

_CODE = r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[1-3][0-7]{2}"
_PIECE: Final = re.compile(rf"\\(?:{_CODE}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_GROUP: Final = re.compile(r"\((?:\?(?:P<\w+>|(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<end>[:)])))?")
_NUMBERS: Final = re.compile(r"\{(?:(?P<exactly>\d+)|(?P<least>\d*),(?P<most>\d*))\}")
_REPETITIONS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_EDGES: Final = {"^": False, r"\A": False, "$": True, r"\Z": True, r"\z": True}
_FLAGS: Final = frozenset("is")


def parse(pattern: str) -> Node:
    """Read an expression. Raises BadPattern, and RecursionError for one that is nested too deeply."""
    _check(pattern)
    reader = _Reader(pattern)
    node = reader.choice(frozenset())
    assert reader.is_at_end, f"{pattern!r} goes on at {reader.position}"
    return node


def _check(pattern: str) -> None:
    """Let Python say whether this is a regular expression at all."""
    try:
        with warnings.catch_warnings():
            # What Python warns of is what it will read in another way one day: nobody should rely on it.
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, Warning, OverflowError) as error:
        raise BadPattern(str(error)) from error


class _Reader:
    """Reads an expression that Python takes for one, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0

    @property
    def is_at_end(self) -> bool:
        return self.position == len(self._pattern)

    def choice(self, flags: frozenset[str]) -> Node:
        """Read as far as a group goes; flags that it sets within count until then."""
        ways: list[Node] = []
        parts: list[Node] = []
        while not self.is_at_end and not self._sees(")"):
            if self._sees("|"):
                self.position += 1
                ways.append(Sequence(tuple(parts)))
                parts = []
                continue
            if self._sees("("):
                part, flags = self._group(flags)
            else:
                part = self._piece(flags)
            parts.append(self._repeated(part))
        ways.append(Sequence(tuple(parts)))
        return ways[0] if len(ways) == 1 else Choice(tuple(ways))

    def _sees(self, text: str) -> bool:
        return self._pattern.startswith(text, self.position)

    def _group(self, flags: frozenset[str]) -> tuple[Node, frozenset[str]]:
        """Read a group, or nothing but flags for what follows."""
        found = _GROUP.match(self._pattern, self.position)
        assert found is not None
        self.position = found.end()
        if self._sees("?"):
            raise BadPattern("back references, lookaround, conditions and comments are not supported")
        on, off = frozenset(found["on"] or ""), frozenset(found["off"] or "")
        if not on | off <= _FLAGS:
            raise BadPattern("of the flags only i and s are supported")
        within = (flags | on) - off
        if found["end"] == ")":
            return Sequence(()), within
        node = self.choice(within)
        self.position += 1
        return node, flags

    def _piece(self, flags: frozenset[str]) -> Node:
        found = _PIECE.match(self._pattern, self.position)
        assert found is not None
        self.position = found.end()
        piece = found[0]
        if piece in _EDGES:
            return Edge(_EDGES[piece])
        if piece in (r"\b", r"\B"):
            raise BadPattern(r"\b and \B are not supported")
        if piece[0] == "\\" and piece[1] in "123456789" and len(piece) == 2:
            raise BadPattern("back references are not supported")
        return Character(piece, "i" in flags, "s" in flags)

    def _repeated(self, part: Node) -> Node:
        """Read how often something is repeated, greedily or not: that makes no difference for a whole text."""
        least_and_most = self._count()
        if least_and_most is None:
            return part
        if self._sees("+"):
            raise BadPattern("possessive repetition is not supported")
        if self._sees("?"):
            self.position += 1
        return Repetition(part, *least_and_most)

    def _count(self) -> tuple[int, int | None] | None:
        sign = self._pattern[self.position : self.position + 1]
        if sign in _REPETITIONS:
            self.position += 1
            return _REPETITIONS[sign]
        found = _NUMBERS.match(self._pattern, self.position)
        if found is None:
            return None
        self.position = found.end()
        if found["exactly"] is not None:
            return int(found["exactly"]), int(found["exactly"])
        return int(found["least"] or 0), int(found["most"]) if found["most"] else None
