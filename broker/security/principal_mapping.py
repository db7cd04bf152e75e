"""Kafka's `ssl.principal.mapping.rules`: from the name in a client's certificate to the name of its principal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from eagleray.broker.patterns import BadPattern, CapturingPattern
from eagleray.broker.settings import InvalidConfig

_RULE: Final = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)")
_DEFAULT: Final = re.compile(r"DEFAULT")
_BETWEEN: Final = re.compile(r"\s*(?:,\s*|$)")
_REFERENCE: Final = re.compile(r"\$(\d+)")
_CASES: Final[dict[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class _Rule(msgspec.Struct, frozen=True):
    pattern: CapturingPattern | None
    """None for DEFAULT, which takes the name as it is."""

    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        groups = self.pattern.groups_of(name)
        if groups is None:
            return None
        return _CASES[self.case](_REFERENCE.sub(lambda found: _referred(found, groups), self.replacement))


class PrincipalMapping:
    """The rules in their order: the first whose expression matches the whole of a name says what it becomes."""

    def __init__(self, rules: str) -> None:
        """Read the rules; raises InvalidConfig."""
        self._rules = _parse(rules.strip() or "DEFAULT")

    def name_of(self, distinguished_name: str) -> str | None:
        """Return the name of a principal; None where no rule matches, so that the client may not come in."""
        return next((name for rule in self._rules if (name := rule.apply(distinguished_name)) is not None), None)


def _parse(text: str) -> tuple[_Rule, ...]:
    rules = []
    position = 0
    while position < len(text):
        found = _DEFAULT.match(text, position) or _RULE.match(text, position)
        after = found and _BETWEEN.match(text, found.end())
        if found is None or not after:
            raise InvalidConfig(
                f"ssl.principal.mapping.rules has {text[position:]!r}; "
                "expected DEFAULT or RULE:PATTERN/REPLACEMENT/[L|U], with commas between"
            )
        rules.append(_rule_of(found))
        position = after.end()
    return tuple(rules)


def _rule_of(found: re.Match[str]) -> _Rule:
    if found.re is _DEFAULT:
        return _Rule(None)
    pattern = found["pattern"].replace("\\/", "/")
    try:
        return _Rule(CapturingPattern(pattern), found["replacement"].replace("\\/", "/"), found["case"])
    except BadPattern as error:
        raise InvalidConfig(f"ssl.principal.mapping.rules has the expression {pattern!r}: {error}") from None


def _referred(found: re.Match[str], groups: tuple[str | None, ...]) -> str:
    """Return the group that `$12` means: the twelfth where there are so many, else the first and a 2, as in Java."""
    digits = found[1]
    for length in range(len(digits), 0, -1):
        number = int(digits[:length])
        if number < len(groups):
            return (groups[number] or "") + digits[length:]
    return found[0]
