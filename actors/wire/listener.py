"""A node's port: who is connected, and what all connections share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from eagleray.actors.shell import Host
from eagleray.actors.wire.advertised import Advertised
from eagleray.actors.wire.config import ListenerConfig
from eagleray.actors.wire.connection import Connection
from eagleray.actors.wire.fetch_sessions import FetchSessions
from eagleray.actors.wire.idle_timeouts import SOON_S
from eagleray.actors.wire.throttled_log import ThrottledLog
from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines

_GRACE_S: Final = 1.0
_BACKLOG: Final = 1024


class Listener:
    """Takes connections of Kafka's clients and of the direct lane at one port.

    Owns: the connections with Kafka's clients, and the tasks of their requests. What begins like the direct lane is
    handed over to a session of it, and counts for nothing here.
    """

    def __init__(self, host: Host, config: ListenerConfig, direct_session: Callable[[], asyncio.Protocol]) -> None:
        self.host = host
        self.config = config
        self.throttled_log = ThrottledLog(host.loop.time)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, host.loop.time)
        self._direct_session = direct_session
        self._advertised = Advertised(host.image)
        self._connections: set[Connection] = set()
        self._excess: set[Connection] = set()
        self._by_address: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._looks: Deadlines[Connection] = Deadlines(self._set_timer)
        """When to look at which connection again, by the loop's clock."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def advertised(self) -> Advertised:
        """The brokers, as of the node's metadata."""
        if self._advertised.image is not self.host.image:
            self._advertised = Advertised(self.host.image)
        return self._advertised

    async def listen(self, address: str, port: int) -> int:
        """Take connections at an address; return the port, or raise OSError where that is not free."""
        loop = self.host.loop
        self._server = await loop.create_server(lambda: Connection(self), address, port, backlog=_BACKLOG)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    def begin_direct_session(self, transport: Any, data: bytes) -> None:  # noqa: ANN401 - asyncio gives a Transport
        """Hand a connection over to the direct lane, with what has come of it."""
        session = self._direct_session()
        transport.set_protocol(session)
        session.connection_made(transport)
        session.data_received(data)

    # Who is connected

    def opened(self, connection: Connection) -> None:
        """Take note of a connection; whether it is one too many counts only when it turns out to be a client's."""
        address, config = connection.peer_host, self.config
        is_full = len(self._connections) >= config.max_connections
        if is_full or self._by_address[address] >= config.max_connections_per_ip:
            self._excess.add(connection)
        self._connections.add(connection)
        self._by_address[address] += 1
        self.look_soon(connection)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._excess.discard(connection)
        self._looks.cancel(connection)
        self._by_address[connection.peer_host] -= 1
        if not self._by_address[connection.peer_host]:
            del self._by_address[connection.peer_host]

    def reason_to_refuse(self, connection: Connection) -> tuple[str, str] | None:
        """Say why a client is not let in, if it is not: a kind and a sentence."""
        if connection in self._excess:
            return "limit", "there are as many connections as max.connections and max.connections.per.ip allow"
        if not self.host.image.nodes:
            return "start", "this node is not part of its cluster yet; the client will try again"
        return None

    # Time and tasks

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run what a request needs a task for."""
        task = self.host.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def look_soon(self, connection: Connection) -> None:
        """Look at a connection soon, for a request of it may be incomplete."""
        self._look_after(connection, SOON_S)

    def _look_after(self, connection: Connection, delay_s: float) -> None:
        if connection in self._connections:
            self._looks.set_by(connection, self._now_ms() + int(delay_s * 1000))

    def _now_ms(self) -> int:
        return int(self.host.loop.time() * 1000)

    def _set_timer(self, due_ms: int) -> None:
        steady_ms = NEVER_MS if due_ms == NEVER_MS else self.host.steady_ms() + due_ms - self._now_ms()
        self.host.timer.set(self._on_due, steady_ms)

    def _on_due(self) -> None:
        now_s = self.host.loop.time()
        for connection in self._looks.take_due(int(now_s * 1000)):
            self._look_after(connection, connection.look(now_s))
            if connection in self._excess:
                connection.abort()
        self._set_timer(self._looks.next_due_ms)

    async def close(self) -> None:
        """Let no peer in any more, answer what is in flight, as far as that is soon done, and close."""
        if self._server is not None:
            self._server.close()
        for connection in [*self._connections]:
            connection.finish()
        deadline_s = self.host.loop.time() + _GRACE_S
        while self._connections and self.host.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        self._looks.clear()
        for task in [*self._tasks]:
            task.cancel()
        for connection in [*self._connections]:
            connection.abort()
