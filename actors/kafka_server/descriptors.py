"""File descriptors: how many of them connections may take, and what is said when there are none."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

_log = logging.getLogger(__name__)

RESERVED_SHARE: Final = 5
"""One in so many descriptors is kept from Kafka's clients; half of these are kept from all connections."""

MOST_RESERVED: Final = 1000
_QUIET_S: Final = 60.0
_OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)

_Context: TypeAlias = dict[str, Any]


class Descriptors:
    """Keeps connections from taking the last descriptors: logs need them, and the nodes' own connections.

    The system gives out the lowest number that is free, so the number of a new descriptor says how many are in use at
    the least; nothing has to be counted.
    """

    __slots__ = ("_most_for_all", "_most_for_clients")

    def __init__(self, most: int) -> None:
        reserved = min(most // RESERVED_SHARE, MOST_RESERVED)
        self._most_for_clients = most - reserved
        self._most_for_all = most - reserved // 2

    def are_for_nodes(self, descriptor: int) -> bool:
        """Whether a connection with this descriptor may only be one of a node or a handle."""
        return descriptor >= self._most_for_clients

    def are_for_logs(self, descriptor: int) -> bool:
        """Whether no connection may have this descriptor."""
        return descriptor >= self._most_for_all


def most_descriptors() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class AcceptErrors:
    """Says once a minute that a loop cannot accept connections for lack of descriptors.

    asyncio pauses for a second then, and tries again; but it says so for each connection that could wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._otherwise: Callable[[asyncio.AbstractEventLoop, _Context], object] | None = loop.get_exception_handler()
        self._said_at_s = -_QUIET_S

    def __call__(self, loop: asyncio.AbstractEventLoop, context: _Context) -> None:
        """Take what asyncio has to say."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _OUT_OF_DESCRIPTORS or "socket" not in context:
            if self._otherwise is None:
                loop.default_exception_handler(context)
            else:
                self._otherwise(loop, context)
        elif loop.time() - self._said_at_s >= _QUIET_S:
            self._said_at_s = loop.time()
            _log.error("no connection can be accepted, and it is tried again every second: %s", error)


def throttle_accept_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop say only once a minute that it cannot accept connections."""
    if not isinstance(loop.get_exception_handler(), AcceptErrors):
        loop.set_exception_handler(AcceptErrors(loop))
