"""A tiny Kafka client: it sends one Struct of the codec and gets one back."""

import asyncio
import struct

from eagleray.protocol.codec import decode_response, encode_request


class WireClient:
    """One connection; requests may be sent ahead of their answers, which come in order."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0
        self._sent = []

    @classmethod
    async def connect(cls, node):
        return cls(*await asyncio.open_connection(node.spec.host, node.port))

    def send(self, request, version):
        self._correlation_id += 1
        self._sent.append((request.wire.api_key, version, self._correlation_id))
        self.writer.write(encode_request(request, version, self._correlation_id, "tests"))

    async def receive(self):
        api_key, version, correlation_id = self._sent.pop(0)
        response = decode_response(await self.receive_frame(), api_key, version)
        assert response.header.correlation_id == correlation_id
        return response.body

    async def receive_frame(self):
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length)

    async def ask(self, request, version):
        self.send(request, version)
        async with asyncio.timeout(20):
            return await self.receive()

    async def is_closed(self):
        """Whether the broker closes the connection, without another word."""
        try:
            async with asyncio.timeout(10):
                return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def close(self):
        self.writer.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        await self.close()
