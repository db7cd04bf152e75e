"""Kafka's rules for the names of topics."""

from __future__ import annotations

import re
from typing import Final

from eagleray.broker.limits import shown

LONGEST_NAME: Final = 249
"""With the number of a partition appended, a name has to fit into the name of a directory."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def problem_with(name: str) -> str | None:
    """Return why no topic can have this name, or None where one can."""
    if not name:
        return "the name of a topic is empty; expected at least one character"
    if name in (".", ".."):
        return f"no topic can be named {shown(name)!r}; expected anything else but . and .."
    if len(name) > LONGEST_NAME:
        return f"the name of a topic has {len(name)} characters; expected at most {LONGEST_NAME}"
    if not _LEGAL.fullmatch(name):
        return f"the topic name {shown(name)!r} has other characters than ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Return the key by which two names collide in Kafka's metrics, where a dot becomes an underscore."""
    return name.replace(".", "_")
