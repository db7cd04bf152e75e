"""A host, a transport and a listener without a network."""

import asyncio
import os
import struct
from types import SimpleNamespace

from eagleray.actors.controller_finder import ControllerFinder
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.lanes.turn import Turn
from eagleray.actors.wire.config import ListenerConfig
from eagleray.actors.wire.connection import Connection
from eagleray.actors.wire.listener import Listener
from eagleray.broker.controller.image import MetadataImage
from eagleray.broker.controller.nodes import NodeRegistration
from eagleray.protocol.codec import decode_response, encode_request
from tests.support.timers import HandTimer


class FakeTransport:
    def __init__(self, address=("10.0.0.7", 4711)):
        self.address = address
        self.written = []
        self.is_reading = True
        self.is_closed = False
        self.protocol = None

    def get_extra_info(self, name):
        assert name == "peername"
        return self.address

    def write(self, data):
        assert not self.is_closed
        self.written.append(bytes(data))

    def writelines(self, buffers):
        self.write(b"".join(buffers))

    def pause_reading(self):
        assert self.is_reading, "paused twice"
        self.is_reading = False

    def resume_reading(self):
        assert not self.is_reading, "resumed twice"
        self.is_reading = True

    def close(self):
        self.is_closed = True

    def abort(self):
        self.is_closed = True

    def set_protocol(self, protocol):
        self.protocol = protocol


class RecordedSession(asyncio.Protocol):
    """In place of a session of the direct lane."""

    def __init__(self):
        self.received = b""

    def data_received(self, data):
        self.received += data


class NobodyAnswers:
    """Peers that are all gone."""

    def __init__(self, loop):
        self._loop = loop

    def ask(self, node_id, on_reply, message_type, *fields, **named):
        message_type(1, *fields, **named)
        if on_reply is not None:
            self._loop.call_soon(on_reply, None)

    async def call(self, node_id, message_type, *fields, **named):
        raise Unanswered("nobody answers")


def make_listener(*, roles=(), topics=(), **config):
    """A listener of a node that has joined a cluster of two; to be called on a running loop."""
    loop = asyncio.get_running_loop()
    nodes = {number: NodeRegistration(number, 1, "127.0.0.1", 9090 + number, ("leader",)) for number in (1, 2)}
    peers = NobodyAnswers(loop)
    host = SimpleNamespace(
        loop=loop,
        turn=Turn(loop),
        image=MetadataImage(nodes=nodes, topics={topic.name: topic for topic in topics}),
        spec=SimpleNamespace(node_id=1, roles=roles, data_dir=os.getcwd(), settings={}),
        peers=peers,
        controller=ControllerFinder(peers, (0,)),
        replicas=SimpleNamespace(size_of=lambda partition: None),
        now_ms=lambda: 0,
        steady_ms=lambda: int(loop.time() * 1000),
        timer=HandTimer(),
    )
    return Listener(host, ListenerConfig(**config), RecordedSession)


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
