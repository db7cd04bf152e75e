"""A regular expression as an automaton: a text is read once, whatever the expression.

A set of states is a number with one bit for each. Where many texts are read, sets and characters come again, so what
follows on what is remembered.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from eagleray.broker.pattern_syntax import BadPattern, Character, Choice, Edge, Node, Repetition, Sequence

_MOST_STEPS: Final = 2000
"""How many pieces an expression may come to when its repetitions are written out."""

_MOST_WAYS: Final = 100_000
"""How many ways from piece to piece may be gone while an expression is made ready."""

_MOST_REMEMBERED: Final = 1000
_TOO_LARGE: Final = "it is too large when its repetitions are written out"


class _State(msgspec.Struct):
    """A character or an edge and what comes behind it, or several ways to go on."""

    node: Character | Edge | None
    ways: list[int]


class Automaton:
    """Says of texts whether they are what an expression describes, each in a time that grows with its length only."""

    def __init__(self, node: Node) -> None:
        """Write an expression out. Raises BadPattern where that is too much."""
        self._states: list[_State] = []
        self._steps = self._ways = 0
        self._accepting = self._add(None)
        first = self._build(node, self._accepting)
        self._first = self._closure([first], is_start=True)
        self._final = self._accepting_at_end()
        self._takes_nothing = bool(self._closure([first], is_start=True, is_end=True) >> self._accepting & 1)
        self._after = {
            number: self._closure(state.ways)
            for number, state in enumerate(self._states)
            if isinstance(state.node, Character)
        }
        self._by_piece = self._group_by_piece()
        self._fitting: dict[str, int] = {}
        self._next: dict[tuple[int, str], int] = {}

    def describes(self, text: str) -> bool:
        """Say whether a text is what the expression describes, from its first character to its last."""
        if not text:
            return self._takes_nothing
        states = self._first
        for character in text:
            states = self._follow(states, character)
            if not states:
                return False
        return bool(states & self._final)

    # Reading

    def _follow(self, states: int, character: str) -> int:
        known = self._next.get((states, character))
        if known is None:
            if len(self._next) >= _MOST_REMEMBERED:
                self._next.clear()
            known = self._next[states, character] = self._compute(states & self._fits(character))
        return known

    def _compute(self, states: int) -> int:
        following = 0
        while states:
            last = states & -states
            following |= self._after[last.bit_length() - 1]
            states ^= last
        return following

    def _fits(self, character: str) -> int:
        """Return the states that take a character."""
        known = self._fitting.get(character)
        if known is None:
            if len(self._fitting) >= _MOST_REMEMBERED:
                self._fitting.clear()
            fitting = (states for piece, states in self._by_piece.items() if piece.fullmatch(character))
            known = self._fitting[character] = sum(fitting)
        return known

    def _group_by_piece(self) -> dict[re.Pattern[str], int]:
        by_piece: dict[re.Pattern[str], int] = {}
        for number, state in enumerate(self._states):
            if isinstance(state.node, Character):
                piece = _compiled(state.node)
                by_piece[piece] = by_piece.get(piece, 0) | 1 << number
        return by_piece

    # Building, from the end to the beginning

    def _add(self, node: Character | Edge | None, *ways: int) -> int:
        self._states.append(_State(node, [*ways]))
        return len(self._states) - 1

    def _build(self, node: Node, after: int) -> int:
        """Return the state that a node begins with, whose end is followed by another state."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise BadPattern(_TOO_LARGE)
        match node:
            case Sequence():
                for part in reversed(node.parts):
                    after = self._build(part, after)
                return after
            case Choice():
                return self._add(None, *[self._build(part, after) for part in node.parts])
            case Repetition():
                return self._repeat(node, after)
            case _:
                return self._add(node, after)

    def _repeat(self, node: Repetition, after: int) -> int:
        if node.least > _MOST_STEPS or (node.most or 0) > _MOST_STEPS:
            raise BadPattern(_TOO_LARGE)
        first = after
        if node.most is None:
            first = self._add(None, after)
            self._states[first].ways.append(self._build(node.part, first))
        else:
            for _ in range(node.most - node.least):
                first = self._add(None, self._build(node.part, first), after)
        for _ in range(node.least):
            first = self._build(node.part, first)
        return first

    def _closure(self, states: list[int], *, is_start: bool = False, is_end: bool = False) -> int:
        """Return what can be reached without a character: characters, ends of the text, and the last state of all."""
        reached, seen, pending = 0, set(states), [*states]
        while pending:
            number = pending.pop()
            state, node = self._states[number], self._states[number].node
            is_beginning = isinstance(node, Edge) and not node.is_end
            if node is None or (isinstance(node, Edge) and (is_end if node.is_end else is_start)):
                pending += [way for way in state.ways if way not in seen]
                seen.update(state.ways)
                self._ways += len(state.ways)
            if number == self._accepting or not (node is None or is_beginning):
                reached |= 1 << number
            if self._ways > _MOST_WAYS:
                raise BadPattern(_TOO_LARGE)
        return reached

    def _accepting_at_end(self) -> int:
        """Return the states in which a text may end: the last of all, and ends that nothing but it follows."""
        final = 1 << self._accepting
        for number, state in enumerate(self._states):
            is_end = isinstance(state.node, Edge) and state.node.is_end
            if is_end and self._closure([number], is_end=True) >> self._accepting & 1:
                final |= 1 << number
        return final


def _compiled(character: Character) -> re.Pattern[str]:
    flags = (re.IGNORECASE if character.ignores_case else 0) | (re.DOTALL if character.takes_newlines else 0)
    return re.compile(character.piece, flags)
