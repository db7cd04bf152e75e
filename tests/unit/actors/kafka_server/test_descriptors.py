"""File descriptors that run out: who gets the last ones, and what is said."""

import asyncio
import errno
import logging

import pytest

from eagleray.actors.kafka_server.connection import Connection
from eagleray.actors.kafka_server.descriptors import AcceptErrors, Descriptors, throttle_accept_errors
from eagleray.actors.lanes.frames import encode_preface
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.kafka_peer import FakeTransport, Peer
from tests.unit.actors.kafka_server.fakes import TOKEN, RecordedSession, make_listener


@pytest.mark.parametrize(("most", "for_clients", "for_all"), [(100, 80, 90), (1_000_000, 999_000, 999_500)])
def test_last_descriptors_are_for_nodes_and_the_very_last_for_logs(most, for_clients, for_all):
    descriptors = Descriptors(most)
    assert not descriptors.are_for_nodes(for_clients - 1)
    assert descriptors.are_for_nodes(for_clients)
    assert not descriptors.are_for_logs(for_all - 1)
    assert descriptors.are_for_logs(for_all)


class NumberedSocket:
    def __init__(self, number):
        self._number = number

    def fileno(self):
        return self._number

    def setsockopt(self, *option):
        """Options do not matter here."""


class TransportWithDescriptor(FakeTransport):
    def __init__(self, number):
        super().__init__()
        self._socket = NumberedSocket(number)

    def get_extra_info(self, name):
        return self._socket if name == "socket" else super().get_extra_info(name)


class PeerWithDescriptor(Peer):
    def __init__(self, listener, number):
        self.transport = TransportWithDescriptor(number)
        self.connection = Connection(listener)
        self._sent = []
        self.connection.connection_made(self.transport)


async def test_client_with_one_of_the_last_descriptors_is_closed_and_a_node_is_not(monkeypatch, caplog):
    monkeypatch.setattr("eagleray.actors.kafka_server.listener.most_descriptors", lambda: 100)
    caplog.set_level(logging.WARNING)
    listener = make_listener()
    early, late, node, last = (PeerWithDescriptor(listener, number) for number in (79, 80, 81, 90))
    assert last.transport.is_closed
    for client in (early, late):
        client.send(ApiVersionsRequest("tests", "1"), 3)
    node.send_bytes(encode_preface(TOKEN))
    assert late.transport.is_closed
    assert not early.transport.is_closed
    assert isinstance(node.transport.protocol, RecordedSession)
    assert "LimitNOFILE" in caplog.text


async def test_loop_that_cannot_accept_says_so_once_a_minute_and_all_else_as_ever(caplog):
    loop = asyncio.get_running_loop()
    throttle_accept_errors(loop)
    handler = loop.get_exception_handler()
    throttle_accept_errors(loop)
    assert loop.get_exception_handler() is handler
    assert isinstance(handler, AcceptErrors)
    lack = {"message": "socket.accept() out of system resource", "exception": OSError(errno.EMFILE, "no"), "socket": 1}
    for _ in range(1024):
        loop.call_exception_handler(lack)
    assert caplog.text.count("no connection can be accepted") == 1
    loop.call_exception_handler({"message": "something else"})
    assert "something else" in caplog.text
    loop.set_exception_handler(None)
