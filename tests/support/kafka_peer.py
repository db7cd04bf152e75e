"""A client of Kafka without a socket: its end of a connection with a listener."""

import asyncio
import struct

from eagleray.actors.kafka_server.connection import Connection
from eagleray.protocol.codec import decode_response, encode_request


class FakeTransport:
    def __init__(self, address=("10.0.0.7", 4711)):
        self.address = address
        self.written = []
        self.is_reading = True
        self.is_closed = False
        self.unread_bytes = 0
        """What a peer has left unread, as the test says."""
        self.protocol = None
        self.happened = asyncio.Event()

    def get_extra_info(self, name):
        assert name in ("peername", "socket")
        return self.address if name == "peername" else None

    def write(self, data):
        assert not self.is_closed
        self.written.append(bytes(data))
        self.happened.set()

    def writelines(self, buffers):
        self.write(b"".join(buffers))

    def get_write_buffer_size(self):
        return self.unread_bytes

    def pause_reading(self):
        assert self.is_reading, "paused twice"
        self.is_reading = False

    def resume_reading(self):
        assert not self.is_reading, "resumed twice"
        self.is_reading = True

    def close(self):
        self.is_closed = True
        self.happened.set()

    def abort(self):
        self.close()

    def set_protocol(self, protocol):
        self.protocol = protocol


class Peer:
    """One connection, from the side of its peer."""

    def __init__(self, listener, address=("10.0.0.7", 4711)):
        self.transport = FakeTransport(address)
        self.connection = Connection(listener)
        self.connection.connection_made(self.transport)
        self._sent = []

    def send(self, request, version, correlation_id=None):
        self.send_bytes(self.encode(request, version, correlation_id))

    def encode(self, request, version, correlation_id=None):
        number = len(self._sent) if correlation_id is None else correlation_id
        self._sent.append((request.wire.api_key, version))
        return encode_request(request, version, number, "tests")

    def send_bytes(self, data):
        self.connection.data_received(data)

    async def responses(self):
        """What was written until now, decoded."""
        for _ in range(5):
            await asyncio.sleep(0)
        data, found = b"".join(self.transport.written), []
        while data:
            (length,) = struct.unpack_from(">i", data)
            frame, data = data[4 : 4 + length], data[4 + length :]
            (number,) = struct.unpack_from(">i", frame)
            found.append(decode_response(frame, *self._sent[number]))
        return found

    async def response(self):
        """Wait for the response to the only request."""
        await self.transport.happened.wait()
        (response,) = await self.responses()
        return response
