"""A listener of its own, and what it needs of its node, for what no whole node is needed."""

import asyncio
import os
from types import SimpleNamespace

from eagleray.actors.common.controller_channel import ControllerChannel
from eagleray.actors.common.listener_config import ListenerConfig
from eagleray.actors.kafka_server.listener import Listener
from eagleray.actors.lanes.frames import TOKEN_BYTES
from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.metadata.image import MetadataImage
from eagleray.broker.metadata.nodes import NodeRegistration
from tests.support.timers import HandTimer

TOKEN = b"the token of the cluster".ljust(TOKEN_BYTES)


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
    context = SimpleNamespace(
        loop=loop,
        turn=Turn(loop),
        image=MetadataImage(nodes=nodes, topics={topic.name: topic for topic in topics}),
        spec=SimpleNamespace(node_id=1, roles=roles, data_dir=os.getcwd(), settings={}, token=TOKEN),
        peers=peers,
        controller=ControllerChannel(peers, (0,)),
        replica_manager=SimpleNamespace(size_of=lambda partition: None),
        now_ms=lambda: 0,
        steady_ms=lambda: int(loop.time() * 1000),
        timer=HandTimer(),
        closed_connections=(closed := []),
        connection_closed=closed.append,
    )
    listener = Listener(context, ListenerConfig(**config), RecordedSession)

    def request_failed(host, request, error):
        listener.throttled_log.report_failure(host, request, error)

    context.request_failed = request_failed
    return listener
