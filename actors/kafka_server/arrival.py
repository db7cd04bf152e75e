"""A peer that has connected to a listener with TLS or SASL, and has not yet shown who it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from eagleray.actors.kafka_server.endpoint import Endpoint
    from eagleray.actors.kafka_server.listener import Listener

_LEAST_LOOK_S: Final = 0.1


class Arrival(asyncio.Protocol):
    """What stands before a connection: it takes no request that does anything, and not for long.

    It counts in `max.connections`, waits its turn by the rates of new connections, and is closed when
    `connection.authentication.timeout.ms` is over. Then another protocol has the transport, or it is closed.
    """

    def __init__(self, listener: Listener, endpoint: Endpoint, deadline_s: float | None = None) -> None:
        self.listener = listener
        self.endpoint = endpoint
        self.peer_host = ""
        self.peer_port = 0
        now_s = listener.context.loop.time()
        self.is_first = deadline_s is None
        """Whether nothing stood before it."""
        self.deadline_s = now_s + endpoint.authentication_timeout_s if deadline_s is None else deadline_s
        self._transport: asyncio.Transport | None = None
        self._is_waiting = False
        self._held = b""
        """What has come while it waits: a loop may read once more after it was told not to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of who it is, and begin when it is its turn."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host, self.peer_port = peer[0], peer[1]
        if not self.is_first:
            self.listener.arrivals.add(self)
            return
        taken = transport.get_extra_info("socket")
        wait_s = self.listener.wait_of_arrival(self, -1 if taken is None else taken.fileno())
        if wait_s is not None and wait_s > 0:
            self._is_waiting = True
            self._transport.pause_reading()
            self.listener.context.loop.call_later(wait_s, self._end_wait)

    def _end_wait(self) -> None:
        self._is_waiting = False
        held, self._held = self._held, b""
        if self._transport is not None:
            self._transport.resume_reading()
            if held:
                self._received(held)

    def data_received(self, data: bytes) -> None:
        """Take what has come, when it is its turn."""
        if self._transport is None:
            return
        if self._is_waiting:
            self._held += data
            self._transport.pause_reading()
            self._hold(len(self._held))
        else:
            self._received(data)

    def _received(self, data: bytes) -> None:
        raise NotImplementedError

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's name for it
        """Forget it."""
        self._transport = None
        self.listener.arrivals.leave(self)

    def _hold(self, size_bytes: int) -> None:
        """Count what it makes the node keep with that of all peers."""
        self.listener.parts_of_requests.hold(self, size_bytes)

    def refuse(self, kind: str, sentence: str) -> None:
        """Close at once, and log what the peer looks like."""
        self.listener.throttled_log.log_closing(self.peer_host, self.peer_port, kind, sentence)
        self.abort()

    def abort(self) -> None:
        """Close at once."""
        self.listener.arrivals.leave(self)
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    def look(self, now_s: float) -> float:
        """Close it where its time is over; return after how many seconds to look again."""
        if now_s >= self.deadline_s and self._transport is not None and self._transport.is_closing():
            # It does not read why it was refused.
            self.abort()
        elif now_s >= self.deadline_s:
            allowed_s = self.endpoint.authentication_timeout_s
            self.refuse("slow arrival", f"it has not shown who it is within {allowed_s:g} seconds")
        return max(self.deadline_s - now_s, _LEAST_LOOK_S)

    def hand_over(self, successor: asyncio.Protocol, data: bytes) -> None:
        """Let another protocol have the transport, with what has come of it."""
        assert self._transport is not None, "what has come has come by a transport"
        transport, self._transport = self._transport, None
        self.listener.arrivals.leave(self)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        if data:
            successor.data_received(data)
