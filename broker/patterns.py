"""Regular expressions that clients send: for topics to subscribe to, and for transactions to list.

The language and the matcher are RE2's, as in Kafka: it reads a name once, whatever the expression, and bounds the
memory of an expression. Python's own matcher can be kept busy for ever by a client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import re2

LONGEST_PATTERN: Final = 1024
_MOST_MEMORY_BYTES: Final = 1 << 20
"""For one expression; re2 keeps the last 128."""


class BadPattern(ValueError):
    """A regular expression that cannot be used; the message says why, for the client to read."""


class Pattern:
    """A regular expression that is ready for use."""

    __slots__ = ("_matcher",)

    def __init__(self, pattern: str) -> None:
        """Compile an expression. Raises BadPattern."""
        try:
            self._matcher = re2.compile(pattern, _OPTIONS)
        except re2.error as error:
            raise BadPattern(error.args[0].decode(errors="replace")) from None

    def describes(self, text: str) -> bool:
        """Whether the expression matches the whole of a text."""
        return self._matcher.fullmatch(text) is not None


def compile_pattern(pattern: str) -> Pattern:
    """Make a regular expression ready for use. Raises BadPattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadPattern(f"it has {len(pattern)} characters, and {LONGEST_PATTERN} are the most")
    return Pattern(pattern)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a regular expression matches; one that cannot be used matches none, as in Kafka.

    A coordinator refuses such an expression when a member sends it, but may find it in a log that another one wrote.
    """
    try:
        compiled = compile_pattern(pattern)
    except BadPattern:
        return frozenset()
    return frozenset(filter(compiled.describes, names))


def _make_options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MOST_MEMORY_BYTES
    # An error goes to the client that sent the expression, not to the log of this process.
    options.log_errors = False
    options.never_capture = True
    return options


_OPTIONS: Final = _make_options()
