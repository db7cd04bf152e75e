"""What slow peers make a node keep: parts of requests, and answers that they do not read."""

import asyncio
import logging

import msgspec
import pytest

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.actors.kafka_server.held_bytes import HeldBytes
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import make_listener

END = EndTxnRequest("checkout", 1, 2, True)


class GivenUp(list):
    def bytes(self, most_bytes):
        return HeldBytes(most_bytes, self.append)


@pytest.fixture
def given_up():
    return GivenUp()


@pytest.fixture
def calls(monkeypatch):
    """The requests that wait for the test to answer them."""
    waiting = []

    def handle(request, call):
        waiting.append(call)

    monkeypatch.setitem(SERVED, 26, msgspec.structs.replace(SERVED[26], handle=handle))
    return waiting


def test_slowest_is_given_up_when_all_hold_too_much(given_up):
    held = given_up.bytes(10)
    for name in ("first", "second", "third"):
        held.hold(name, 3)
    assert given_up == []
    held.hold("third", 4)
    assert given_up == []
    held.hold("second", 4)
    assert given_up == ["first"]
    assert (held.size_bytes, len(held)) == (8, 2)


def test_holder_that_goes_on_begins_anew(given_up):
    held = given_up.bytes(10)
    held.hold("first", 5)
    held.hold("second", 5)
    held.forget("first")
    held.hold("first", 5)
    held.hold("third", 1)
    assert given_up == ["second"]


def test_holder_of_more_than_all_may_hold_is_given_up_itself(given_up):
    held = given_up.bytes(10)
    held.hold("alone", 11)
    assert given_up == ["alone"]
    held.hold("alone", 0)
    assert (held.size_bytes, len(held)) == (0, 0)


def begun(peer, size_bytes):
    """Send the beginning of a request, and nothing else of it."""
    peer.send_bytes((2 * size_bytes).to_bytes(4) + bytes(size_bytes - 4))


async def test_parts_of_requests_close_the_connection_whose_request_has_been_coming_for_longest(caplog):
    caplog.set_level(logging.WARNING)
    listener = make_listener(queued_max_request_bytes=2000)
    peers = [Peer(listener) for _ in range(3)]
    for peer in peers:
        begun(peer, 400)
    assert [peer.transport.is_closed for peer in peers] == [True, False, False]
    assert listener.parts_of_requests.size_bytes == 800
    assert "has been coming for longest" in caplog.text


async def test_request_that_comes_in_parts_holds_nothing_when_it_is_whole(calls):
    listener = make_listener()
    peer = Peer(listener)
    frame = peer.encode(END, 3)
    peer.send_bytes(frame[:7])
    assert listener.parts_of_requests.size_bytes == 7
    peer.send_bytes(frame[7:12])
    assert listener.parts_of_requests.size_bytes == 12
    peer.send_bytes(frame[12:] + frame[:5])
    assert listener.parts_of_requests.size_bytes == 5
    peer.connection.connection_lost(None)
    assert listener.parts_of_requests.size_bytes == 0
    assert len(calls) == 1


async def test_unread_responses_close_the_connection_that_has_not_read_for_longest(calls, caplog):
    caplog.set_level(logging.WARNING)
    listener = make_listener(queued_max_response_bytes=1000)
    stranger, honest = Peer(listener), Peer(listener)
    for peer in (stranger, honest):
        peer.transport.unread_bytes = 480
        peer.connection.pause_writing()
    for peer in (stranger, honest):
        peer.send(END, 3)
    calls[1].answer(EndTxnResponse())
    assert not stranger.transport.is_closed
    calls[0].answer(EndTxnResponse())
    honest.send(END, 3)
    calls[2].answer(EndTxnResponse())
    assert stranger.transport.is_closed
    assert not honest.transport.is_closed
    assert "has not read for longest" in caplog.text
    honest.connection.resume_writing()
    assert listener.unread_responses.size_bytes == 0
    assert len(await honest.responses()) == 2


async def test_responses_that_wait_for_an_earlier_one_count(calls):
    listener = make_listener()
    peer = Peer(listener)
    for _ in range(3):
        peer.send(END, 3)
    calls[1].answer(EndTxnResponse())
    calls[2].answer(EndTxnResponse())
    assert listener.unread_responses.size_bytes == 2 * calls[1].encoded_bytes
    calls[0].answer(EndTxnResponse())
    assert listener.unread_responses.size_bytes == 0
    assert len(await peer.responses()) == 3


async def test_requests_behind_large_responses_wait_until_these_are_written(monkeypatch):
    taken = []

    def handle(request, call):
        taken.append(call)
        call.encoded = bytes(700_000)
        call.is_answered = True
        call._connection.answered(call)

    monkeypatch.setitem(SERVED, 26, msgspec.structs.replace(SERVED[26], handle=handle))
    listener = make_listener()
    peer = Peer(listener)
    frames = b"".join(peer.encode(END, 3) for _ in range(7))
    peer.send_bytes(frames)
    assert len(taken) == 2
    assert not peer.transport.is_reading
    peer.connection.pause_writing()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(taken) == 2, "the peer does not read"
    peer.connection.resume_writing()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(taken) == 7
    assert sum(map(len, peer.transport.written)) == 7 * 700_000
    assert peer.transport.is_reading
    assert listener.parts_of_requests.size_bytes == listener.unread_responses.size_bytes == 0
