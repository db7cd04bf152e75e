"""Regular expressions that clients bring: of topics that they subscribe to, of transactions that they look for.

Kafka takes RE2's language, in which every expression is matched in linear time. Python's own matcher tries one way
after the other, may take for ever over it, and nobody can interrupt it. So expressions are read here (`pattern_syntax`)
and made into automatons (`pattern_automaton`); Python decides only whether an expression is one, and which single
characters a piece of it stands for. What RE2 has not is refused here as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from eagleray.broker.pattern_automaton import Automaton
from eagleray.broker.pattern_syntax import BadPattern, parse

__all__ = ["LONGEST_PATTERN", "BadPattern", "compile_pattern", "matching"]

LONGEST_PATTERN: Final = 1024


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Automaton:
    """Make a regular expression ready for use. Raises BadPattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it has {len(pattern)} characters, and {LONGEST_PATTERN} are the most")
    try:
        return Automaton(parse(pattern))
    except RecursionError:
        raise BadPattern("its groups are nested too deeply") from None


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return those names that a regular expression describes from the first character to the last."""
    fits = compile_pattern(pattern).describes
    return frozenset(name for name in names if fits(name))
