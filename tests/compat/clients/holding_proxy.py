"""A proxy before a broker of Kafka's protocol that holds the bytes of one connection back, as a network may do.

with HoldingProxy(bootstrap_servers) as proxy:
    held = proxy.hold_next(END_TXN)
    ...                     # the client, which gets no answer, goes on with another connection
    held.release()          # what was held back arrives at the broker
"""

import asyncio
import struct
import threading
from collections import deque
from contextlib import suppress

from msgspec.structs import replace

from eagleray.protocol.codec import decode_response, encode_response

SECONDS = 60
ADD_PARTITIONS, END_TXN, TXN_OFFSET_COMMIT = 24, 26, 28
_METADATA, _FIND_COORDINATOR, _API_VERSIONS, _DESCRIBE_CLUSTER = 3, 10, 18, 60
_REWRITTEN = (_METADATA, _FIND_COORDINATOR, _API_VERSIONS, _DESCRIBE_CLUSTER)


class HeldRequest:
    """A request that a proxy holds back, with all that follows it on its connection."""

    def __init__(self, proxy, api_key):
        self._proxy = proxy
        self.api_key = api_key
        self.frames = []
        self.correlation_id = self.version = self._upstream = None
        self.is_held = threading.Event()
        self._is_answered = threading.Event()
        self.answer = None

    def hold(self, frame, upstream):
        if not self.frames:
            _, self.version, self.correlation_id = struct.unpack_from(">hhi", frame)
            self._upstream = upstream
            self.is_held.set()
        self.frames.append(frame)

    def answered(self, frame):
        self.answer = decode_response(frame, self.api_key, self.version).body
        self._is_answered.set()

    def release(self):
        """Let the broker have what was held back; return its answer, which the client has left no connection for."""
        assert self.is_held.is_set(), "no such request has come"
        self._proxy.call(self._send())
        assert self._is_answered.wait(SECONDS), "the broker does not answer what was held back"
        return self.answer

    async def _send(self):
        for frame in self.frames:
            self._upstream.write(struct.pack(">i", len(frame)) + frame)
        await self._upstream.drain()


class HoldingProxy:
    """Stands before every broker of a cluster; clients that begin with its `bootstrap_servers` see no other address.

    It has no finalized features, where a test wants clients to stay with transaction version 1. A connection to the
    broker outlives that of the client only where something of it is held back.
    """

    def __init__(self, bootstrap_servers, *, without_features=False):
        self._bootstrap = bootstrap_servers.split(",")[0].rsplit(":", 1)
        self._without_features = without_features
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._ports = {}
        self._servers = []
        self._tasks = set()
        self._wanted = deque()
        self._holding = []

    def __enter__(self):
        self._thread.start()
        port = self.call(self._port_for(self._bootstrap[0], int(self._bootstrap[1])))
        self.bootstrap_servers = f"127.0.0.1:{port}"
        return self

    def __exit__(self, *raised):
        self.call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    def hold_next(self, api_key):
        """Hold the next request of an API back, and all that follows it on the same connection."""
        held = HeldRequest(self, api_key)
        self._wanted.append(held)
        return held

    async def _close(self):
        for server in self._servers:
            server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Addresses

    async def _port_for(self, host, port):
        if (host, port) not in self._ports:
            server = await asyncio.start_server(lambda *streams: self._accept(host, port, *streams), "127.0.0.1", 0)
            self._servers.append(server)
            self._ports[host, port] = server.sockets[0].getsockname()[1]
        return self._ports[host, port]

    async def _with_ports(self, places):
        return tuple([replace(at, host="127.0.0.1", port=await self._port_for(at.host, at.port)) for at in places])

    async def _rewritten(self, frame, api_key, version):
        response = decode_response(frame, api_key, version)
        body = response.body
        if api_key == _API_VERSIONS:
            body = replace(body, finalized_features=()) if self._without_features else body
        elif api_key != _FIND_COORDINATOR:
            body = replace(body, brokers=await self._with_ports(body.brokers))
        elif version >= 4:
            body = replace(body, coordinators=await self._with_ports_found(body.coordinators))
        elif body.error_code == 0:
            (body,) = await self._with_ports((body,))
        return bytes(encode_response(body, version, response.header.correlation_id))

    async def _with_ports_found(self, coordinators):
        return tuple([each if each.error_code else (await self._with_ports((each,)))[0] for each in coordinators])

    # Connections

    async def _accept(self, host, port, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            with suppress(OSError, EOFError):
                upstream_reader, upstream = await asyncio.open_connection(host, port)
                await self._serve(reader, writer, upstream_reader, upstream)
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _serve(self, reader, writer, upstream_reader, upstream):
        asked, held = {}, []
        answers = asyncio.ensure_future(self._pass_answers(upstream_reader, writer, asked, held))
        try:
            await self._pass_requests(reader, upstream, asked, held)
            if held:
                # The end of the client's connection is behind what is held back.
                await answers
        finally:
            answers.cancel()
            upstream.close()

    async def _pass_requests(self, reader, upstream, asked, held):
        with suppress(OSError, EOFError):
            while True:
                frame = await _read_frame(reader)
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                if not held and self._wanted and self._wanted[0].api_key == api_key:
                    held.append(self._wanted.popleft())
                if held:
                    held[0].hold(frame, upstream)
                    continue
                if api_key in _REWRITTEN:
                    asked[correlation_id] = api_key, version
                upstream.write(struct.pack(">i", len(frame)) + frame)
                await upstream.drain()

    async def _pass_answers(self, upstream_reader, writer, asked, held):
        with suppress(EOFError, OSError):
            while True:
                frame = await _read_frame(upstream_reader)
                (correlation_id,) = struct.unpack_from(">i", frame)
                if correlation_id in asked:
                    answer = await self._rewritten(frame, *asked.pop(correlation_id))
                else:
                    answer = struct.pack(">i", len(frame)) + frame
                if held and correlation_id == held[0].correlation_id:
                    held[0].answered(frame)
                with suppress(OSError):
                    writer.write(answer)
                    await writer.drain()
        if not held:
            writer.close()


async def _read_frame(reader):
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)
