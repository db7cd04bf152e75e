"""Who a client is, as its connection has shown it."""

from __future__ import annotations

from typing import Final

import msgspec

ANONYMOUS_NAME: Final = "ANONYMOUS"


class Identity(msgspec.Struct, frozen=True):
    """The principal of a connection, as Kafka writes it: a type and a name."""

    name: str = ANONYMOUS_NAME

    def __str__(self) -> str:
        return f"User:{self.name}"


ANONYMOUS: Final = Identity()
"""A client of which nothing is known but its address."""
