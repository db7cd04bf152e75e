"""Who a client is, as its connection has shown it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.authenticator import Authenticator

ANONYMOUS_NAME: Final = "ANONYMOUS"


class Identity(msgspec.Struct, frozen=True):
    """The principal of a connection, as Kafka writes it: a type and a name."""

    name: str = ANONYMOUS_NAME
    authenticator: Authenticator | None = None
    """What it has authenticated with, and may authenticate with again; None without SASL."""

    session_ends_s: float = math.inf
    """When it has to have authenticated again, by the loop's clock."""

    def __str__(self) -> str:
        return f"User:{self.name}"

    @property
    def shown(self) -> str:
        """The principal, or nothing for a client that has shown nothing."""
        return "" if self.name == ANONYMOUS_NAME else str(self)


ANONYMOUS: Final = Identity()
"""A client of which nothing is known but its address."""
