"""The Kafka server of a node: its ports, its connections and what they share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final

from eagleray.actors.common.listener_config import ListenerConfig
from eagleray.actors.kafka_server.advertised import Advertised
from eagleray.actors.kafka_server.arrival import Arrival
from eagleray.actors.kafka_server.arrivals import Arrivals
from eagleray.actors.kafka_server.connection import TOO_FAST, Connection
from eagleray.actors.kafka_server.connection_rates import ConnectionRates
from eagleray.actors.kafka_server.context import ListenerContext
from eagleray.actors.kafka_server.delayed_fetches import DelayedFetches
from eagleray.actors.kafka_server.descriptors import Descriptors, most_descriptors, throttle_accept_errors
from eagleray.actors.kafka_server.endpoint import SHARED_PORT, Endpoint
from eagleray.actors.kafka_server.fetch_sessions import FetchSessions
from eagleray.actors.kafka_server.held_bytes import HeldBytes
from eagleray.actors.kafka_server.identity import Identity
from eagleray.actors.kafka_server.idle_timeouts import SOON_S
from eagleray.actors.kafka_server.keep_alive import keep_alive
from eagleray.actors.kafka_server.password_checks import PasswordChecks
from eagleray.actors.kafka_server.queued_bytes import QueuedBytes
from eagleray.actors.kafka_server.sasl_arrival import SaslArrival
from eagleray.actors.kafka_server.throttled_log import ThrottledLog
from eagleray.actors.kafka_server.tls_arrival import TlsArrival
from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines

_TOO_MANY_CONNECTIONS: Final = "there are as many connections as max.connections and max.connections.per.ip allow"
_TOO_MANY_FILES: Final = (
    "this process has nearly as many files open as it may; raise the limit (ulimit -n, LimitNOFILE)"
)

_GRACE_S: Final = 1.0
_TURNS_TO_ACCEPT: Final = 4
"""Turns of the loop after which a peer that was accepted is one of the connections."""

_BACKLOG: Final = 1024


class Listener:
    """Takes connections of Kafka's clients and of the direct lane, at one port or several.

    Owns: the connections of Kafka's clients, and the tasks of their requests. A connection that begins like the direct
    lane counts as a client's until it has shown the token of the cluster; then it is handed over to a session of that
    lane, and counts no more.
    """

    def __init__(
        self, context: ListenerContext, config: ListenerConfig, direct_session: Callable[[], asyncio.Protocol]
    ) -> None:
        self.context = context
        self.config = config
        self.throttled_log = ThrottledLog(context.loop.time)
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            context.loop.time,
            most_bytes=config.max_incremental_fetch_session_cache_bytes,
        )
        self.delayed_fetches = DelayedFetches(config.max_delayed_fetches)
        self._direct_session = direct_session
        self.connection_rates = ConnectionRates(
            config.max_connection_creation_rate, config.max_connection_creation_rate_per_ip, context.loop.time()
        )
        self._advertised: dict[str, Advertised] = {}
        self._connections: set[Connection] = set()
        self.queued_bytes = QueuedBytes(config.queued_max_request_bytes, context.loop, self._connections)
        self.parts_of_requests = HeldBytes[Connection | Arrival](
            config.queued_max_request_bytes // 2, _give_up_half_received
        )
        """What has come of requests that are not whole, or not taken yet."""
        self.unread_responses = HeldBytes[Connection](config.queued_max_response_bytes, _give_up_unread)
        """What waits for peers that do not read."""
        self.numbers = count(1)
        """Numbers of connections, each for one in the life of the process."""
        self._descriptors = Descriptors(most_descriptors())
        self._excess: dict[Connection, str] = {}
        """Connections that may stay only if they are of nodes or handles, and why."""
        self._by_address: Counter[str] = Counter()
        self._servers: list[asyncio.Server] = []
        self._looks: Deadlines[Connection | Arrival] = Deadlines(self._set_timer)
        """When to check which connection again, by the loop's clock."""
        self.arrivals = Arrivals(self.look_soon, self.parts_of_requests.forget)
        self.password_checks = PasswordChecks(context.loop)
        self.failed_authentications = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._connections)

    def advertised(self, listener_name: str) -> Advertised:
        """The brokers, as of the node's metadata, where clients of a listener reach them."""
        advertised = self._advertised.get(listener_name)
        if advertised is None or advertised.image is not self.context.image:
            advertised = self._advertised[listener_name] = Advertised(self.context.image, listener_name)
        return advertised

    @property
    def has_two_phase_commit(self) -> bool:
        """Whether clients may take part in a two-phase commit, for which there are versions of their own."""
        return self.config.transaction_two_phase_commit_enable

    async def listen(self, address: str, port: int, endpoint: Endpoint = SHARED_PORT) -> int:
        """Listen at one more address; return the port, or raise OSError where it is not free."""
        loop = self.context.loop
        throttle_accept_errors(loop)
        server = await loop.create_server(lambda: self._entrance(endpoint), address, port, backlog=_BACKLOG)
        self._servers.append(server)
        chosen: int = server.sockets[0].getsockname()[1]
        return chosen

    def _entrance(self, endpoint: Endpoint) -> asyncio.Protocol:
        """Return what takes a peer that has just connected."""
        if endpoint.tls is not None:
            return TlsArrival(self, endpoint, endpoint.tls)
        if endpoint.sasl is not None:
            return SaslArrival(self, endpoint, endpoint.sasl)
        return Connection(self, endpoint)

    def after_tls(self, arrival: Arrival, identity: Identity) -> asyncio.Protocol:
        """Return what takes a peer that has shaken hands."""
        sasl = arrival.endpoint.sasl
        if sasl is not None:
            return SaslArrival(self, arrival.endpoint, sasl, arrival.deadline_s)
        return self.connection_of(arrival, identity)

    def connection_of(self, arrival: Arrival, identity: Identity) -> Connection:
        """Return the connection of a peer that has shown who it is."""
        return Connection(self, arrival.endpoint, identity)

    def wait_of_arrival(self, arrival: Arrival, descriptor: int) -> float | None:
        """Take note of an arrival; return for how long it has to wait, or None where it has been refused."""
        config, address = self.config, arrival.peer_host
        if self._is_over:
            arrival.abort()
            return None
        self.arrivals.add(arrival)
        if self._descriptors.are_for_nodes(descriptor):
            arrival.refuse("files", _TOO_MANY_FILES)
            return None
        of_address = self._by_address[address] + self.arrivals.of(address)
        if len(self) + len(self.arrivals) > config.max_connections or of_address > config.max_connections_per_ip:
            arrival.refuse("limit", _TOO_MANY_CONNECTIONS)
            return None
        wait_s = self.connection_rates.wait_s(address, self.context.loop.time())
        if wait_s is None:
            arrival.refuse("rate", TOO_FAST)
        return wait_s

    def begin_direct_session(self, transport: asyncio.Transport, data: bytes) -> None:
        """Hand a connection over to the direct lane, with what has come of it.

        A node or a handle keeps its connection for as long as it lives, so silence does not end it: the system asks
        after the machine at the other end, and closes the connection where that is gone.
        """
        keep_alive(transport.get_extra_info("socket"), self.config.connections_max_idle_ms // 1000)
        session = self._direct_session()
        transport.set_protocol(session)
        session.connection_made(transport)
        session.data_received(data)

    # Connections

    def opened(self, connection: Connection, descriptor: int) -> None:
        """Note a connection; the limits do not apply where it turns out to be one of the cluster itself."""
        address, config = connection.peer_host, self.config
        if self._is_over:
            connection.abort()
            return
        if self._descriptors.are_for_logs(descriptor):
            connection.refuse("files", _TOO_MANY_FILES)
            return
        is_full = len(self._connections) >= config.max_connections
        if is_full or self._by_address[address] >= config.max_connections_per_ip:
            self._excess[connection] = _TOO_MANY_CONNECTIONS
        elif self._descriptors.are_for_nodes(descriptor):
            self._excess[connection] = _TOO_MANY_FILES
        self._connections.add(connection)
        self._by_address[address] += 1
        self.look_soon(connection)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self.parts_of_requests.forget(connection)
        self.unread_responses.forget(connection)
        if connection.questions is not None:
            self.context.connection_closed(connection.number)
        self._excess.pop(connection, None)
        self._looks.cancel(connection)
        self._by_address[connection.peer_host] -= 1
        if not self._by_address[connection.peer_host]:
            del self._by_address[connection.peer_host]

    def reason_to_refuse(self, connection: Connection) -> tuple[str, str] | None:
        """Return why a client is not let in, if it is not: a kind and a sentence."""
        if connection in self._excess:
            return "limit", self._excess[connection]
        if not self.context.image.nodes:
            return "start", "this node is not part of its cluster yet; the client will try again"
        return connection.endpoint.reason_to_refuse_client()

    # Time and tasks

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run the task of a request."""
        task = self.context.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def look_soon(self, connection: Connection | Arrival) -> None:
        """Check a connection soon, because it may hold an incomplete request."""
        self._look_after(connection, SOON_S)

    def _look_after(self, connection: Connection | Arrival, delay_s: float) -> None:
        if connection in self._connections or connection in self.arrivals:
            self._looks.set_by(connection, self._now_ms() + int(delay_s * 1000))

    def _now_ms(self) -> int:
        return int(self.context.loop.time() * 1000)

    def _set_timer(self, due_ms: int) -> None:
        steady_ms = NEVER_MS if due_ms == NEVER_MS else self.context.steady_ms() + due_ms - self._now_ms()
        self.context.timer.set(self._on_due, steady_ms)

    def _on_due(self) -> None:
        now_s = self.context.loop.time()
        for connection in self._looks.take_due(int(now_s * 1000)):
            self._look_after(connection, connection.look(now_s))
            if connection in self._excess:
                connection.abort()
        self._set_timer(self._looks.next_due_ms)

    async def close(self) -> None:
        """Accept no more connections, answer what is in flight, as far as that is soon done, and close."""
        await self._accept_no_more()
        for connection in [*self._connections]:
            connection.finish()
        deadline_s = self.context.loop.time() + _GRACE_S
        while self._connections and self.context.loop.time() < deadline_s:
            await asyncio.sleep(0.01)
        self.abort()

    async def _accept_no_more(self) -> None:
        """Close the ports; asyncio would forget a peer that was accepted, and is not yet one of the connections."""
        for server in self._servers:
            for taken in server.sockets:
                self.context.loop.remove_reader(taken.fileno())
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()

    def abort(self) -> None:
        """Let no peer in any more, and close every connection as it is."""
        self._is_over = True
        for server in self._servers:
            server.close()
        self._looks.clear()
        self.password_checks.close()
        for task in [*self._tasks]:
            task.cancel()
        for connection in (*self.arrivals, *self._connections):
            connection.abort()


def _give_up_half_received(connection: Connection | Arrival) -> None:
    connection.refuse(
        "parts", "parts of requests take half of queued.max.request.bytes, and its request has been coming for longest"
    )


def _give_up_unread(connection: Connection) -> None:
    connection.refuse(
        "unread", "unread responses take queued.max.response.bytes, and this client has not read for longest"
    )
