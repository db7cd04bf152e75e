"""Regular expressions that clients send, for topics to subscribe to and transactions to list, or that read their names.

The language and the matcher are RE2's, as in Kafka: it reads a name once, whatever the expression, and bounds the
memory of an expression. Python's own matcher can be kept busy for ever by a client.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

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
        self._matcher = _compile(pattern, _OPTIONS)

    def describes(self, text: str) -> bool:
        """Whether the expression matches the whole of a text."""
        return self._matcher.fullmatch(text) is not None


class CapturingPattern:
    """A regular expression that says as well what its groups have matched."""

    __slots__ = ("_matcher",)

    def __init__(self, pattern: str) -> None:
        """Compile an expression. Raises BadPattern."""
        self._matcher = _compile(pattern, _CAPTURING_OPTIONS)

    def groups_of(self, text: str) -> tuple[str | None, ...] | None:
        """Return the text and what each group has matched of it; None where the expression does not match all of it."""
        found = self._matcher.fullmatch(text)
        return None if found is None else (text, *found.groups())


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


def _compile(pattern: str, options: re2.Options) -> Any:  # noqa: ANN401 - re2 has no types
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise BadPattern(error.args[0].decode(errors="replace")) from None


def _make_options(*, captures: bool) -> re2.Options:
    options = re2.Options()
    options.max_mem = _MOST_MEMORY_BYTES
    # An error goes to the client that sent the expression, not to the log of this process.
    options.log_errors = False
    options.never_capture = not captures
    return options


_OPTIONS: Final = _make_options(captures=False)
_CAPTURING_OPTIONS: Final = _make_options(captures=True)
