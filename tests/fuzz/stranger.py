"""A stranger's end of a connection with a listener, without a socket: what it says, and whether it is answered."""

import asyncio
import struct
from typing import Any

from eagleray.actors.kafka_server.connection import Connection
from eagleray.actors.kafka_server.listener import Listener
from eagleray.protocol.codec import decode_response
from tests.fuzz.violation import Violation

_ADDRESS = ("10.0.0.7", 4711)


class Transport:
    """What a listener writes to; bytes for a peer that has gone are lost, as with a socket."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_closed = False
        self.protocol: asyncio.Protocol | None = None

    def get_extra_info(self, name: str) -> Any:
        return _ADDRESS if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.received += data

    def writelines(self, buffers: list[bytes]) -> None:
        self.received += b"".join(buffers)

    def pause_reading(self) -> None:
        """The bytes that come all the same lie in the buffers of the kernel; here they are delivered."""

    def resume_reading(self) -> None:
        """Nothing was held back."""

    def abort(self) -> None:
        """End the connection; asyncio tells the protocol soon."""
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._lost)

    close = abort

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self.protocol = protocol

    def _lost(self) -> None:
        assert self.protocol is not None
        self.protocol.connection_lost(None)


class Stranger:
    """One connection, from the side of its peer."""

    def __init__(self, listener: Listener) -> None:
        self.transport = Transport()
        self.connection = Connection(listener)
        self.transport.protocol = self.connection
        self.connection.connection_made(self.transport)
        self.is_clean = True
        """Whether only whole requests were sent, so that each response is known."""

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closed

    def send(self, data: bytes) -> None:
        if not self.is_closed:
            protocol = self.transport.protocol
            assert protocol is not None
            protocol.data_received(data)

    def close(self) -> None:
        """Go away."""
        self.transport.abort()

    def frames(self) -> list[bytes]:
        """Take the whole frames that have come."""
        received, found, position = self.transport.received, [], 0
        while len(received) - position >= 4:
            (length,) = struct.unpack_from(">i", received, position)
            if length < 0:
                raise Violation(f"a node has written a frame of {length} bytes")
            if len(received) - position - 4 < length:
                break
            found.append(bytes(received[position + 4 : position + 4 + length]))
            position += 4 + length
        del received[:position]
        return found


class KafkaStranger(Stranger):
    """A stranger that speaks Kafka's protocol, and knows which response belongs to which request."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.asked: list[tuple[int, int, int, Any]] = []
        """Requests without a response yet: correlation id, key and version, and the request itself."""

    def answers(self) -> list[tuple[Any, Any]]:
        """Take the responses that have come, decoded; each has to be the next one, and such as its request asks."""
        found = []
        for frame in self.frames():
            if not self.is_clean:
                continue
            if not self.asked or self.asked[0][0] != int.from_bytes(frame[:4]):
                raise Violation(
                    f"a response to request {int.from_bytes(frame[:4])} has come, expected {self.asked[:1]}"
                )
            _, key, version, request = self.asked.pop(0)
            found.append((request, decode_response(frame, key, version).body))
        return found
