"""Regular expressions that clients bring: of topics that they subscribe to, of transactions that they look for.

Kafka takes RE2's language, in which every expression is matched in linear time. We match by Python's, which knows
nearly all of it and some more. What RE2 has not is refused here as well; so is repetition within repetition, which RE2
does have, because Python may take for ever over it, and one client must not stop a node.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

LONGEST_PATTERN: Final = 1024
_NOT_IN_RE2 = re.compile(r"\\[1-9]|\(\?(?:=|!|<=|<!|>|\(|#|P=|P>)|[*+?}]\+")
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[*+]|\{\d*,\}|\{[\d,]*\}|.", re.DOTALL)


class BadPattern(ValueError):
    """A regular expression that cannot be used; the message says why, for the client to read."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Make a regular expression ready for use. Raises BadPattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it has {len(pattern)} characters, and {LONGEST_PATTERN} are the most")
    outside_of_sets = _without_escapes_and_sets(pattern)
    if _NOT_IN_RE2.search(outside_of_sets):
        raise BadPattern("back references, lookaround, conditions and possessive repetition are not supported")
    if _repeats_a_repetition(pattern):
        raise BadPattern("a repeated group that repeats something itself is not supported")
    try:
        with warnings.catch_warnings():
            # What Python warns of is what it will read in another way one day: nobody should rely on it.
            warnings.simplefilter("error")
            return re.compile(pattern)
    except (re.error, Warning, OverflowError, RecursionError) as error:
        raise BadPattern(str(error)) from error


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return those names that a regular expression describes from the first character to the last."""
    fits = compile_pattern(pattern).fullmatch
    return frozenset(name for name in names if fits(name))


def _without_escapes_and_sets(pattern: str) -> str:
    """Leave out what is taken literally, but for escaped digits, which are back references."""
    kept = []
    for piece in _PIECE.findall(pattern):
        is_literal = piece[0] == "[" or (piece[0] == "\\" and not piece[1:].isdigit())
        kept.append("x" if is_literal else piece)
    return "".join(kept)


def _repeats_a_repetition(pattern: str) -> bool:
    """Say whether something without an upper bound is repeated within something without an upper bound."""
    open_groups = [False]
    closed = False
    for piece in _PIECE.findall(pattern):
        is_repetition = piece in ("*", "+") or (piece[0] == "{" and piece.endswith(",}"))
        if is_repetition and closed:
            return True
        closed = False
        if piece == "(":
            open_groups.append(False)
        elif piece == ")" and len(open_groups) > 1:
            closed = open_groups.pop()
            open_groups[-1] |= closed
        elif is_repetition:
            open_groups[-1] = True
    return False
