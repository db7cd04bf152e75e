"""What the requests of all connections of a node take in memory, together."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.connection import Connection


class QueuedBytes:
    """Counts the bytes of requests in flight, and keeps who is not read because there are too many.

    Owns: the connections that wait for room. Each is read again in its turn, one in each turn of the loop as long as
    there is room, so that what the first of them sends counts before the next is read. One that has less than its share
    in flight never waits: peers whose requests take long cannot keep the others out, and the requests take at most
    twice the limit, and what a connection receives at once. Only whole requests count, because those are answered,
    whatever the others do.
    """

    __slots__ = ("_connections", "_is_scheduled", "_loop", "most_bytes", "size_bytes", "waiting")

    def __init__(self, most_bytes: int, loop: asyncio.AbstractEventLoop, connections: Sized) -> None:
        self.most_bytes = most_bytes
        self.size_bytes = 0
        self._loop = loop
        self._connections = connections
        self.waiting: OrderedDict[Connection, Callable[[], None]] = OrderedDict()
        self._is_scheduled = False

    def wait(self, connection: Connection, resume: Callable[[], None]) -> None:
        """Have `resume` called when there is room again and it is the turn of this connection."""
        self.waiting.setdefault(connection, resume)

    def holds(self, connection: Connection, in_flight_bytes: int) -> bool:
        """Whether a connection with so much in flight waits for room."""
        if connection not in self.waiting:
            return False
        share_bytes = max(self.most_bytes // max(len(self._connections), 1), 1)
        if in_flight_bytes < share_bytes:
            del self.waiting[connection]
            return False
        return True

    def resume_soon(self) -> None:
        """Have the next connection read, where there is room; called when requests were answered."""
        if self.waiting and not self._is_scheduled and self.size_bytes < self.most_bytes:
            self._is_scheduled = True
            self._loop.call_soon(self._resume_next)

    def forget(self, connection: Connection, in_flight_bytes: int) -> None:
        """Forget a connection that is gone, and its requests."""
        self.waiting.pop(connection, None)
        self.size_bytes -= in_flight_bytes
        self.resume_soon()

    def _resume_next(self) -> None:
        self._is_scheduled = False
        if self.size_bytes >= self.most_bytes or not self.waiting:
            return
        _, resume = self.waiting.popitem(last=False)
        resume()
        self.resume_soon()
