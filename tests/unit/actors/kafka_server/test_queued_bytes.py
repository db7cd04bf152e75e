"""The bytes of requests that are in flight at a node: who is not read when there are too many, and who is read next."""

import asyncio

import msgspec
import pytest

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import make_listener

END = EndTxnRequest("checkout", 1, 2, True)
FRAME_BYTES = len(Peer.encode(type("Sender", (), {"_sent": []})(), END, 3)) - 4


@pytest.fixture
def calls(monkeypatch):
    """The requests that wait for the test to answer them."""
    waiting = []

    def handle(request, call):
        waiting.append(call)

    monkeypatch.setitem(SERVED, 26, msgspec.structs.replace(SERVED[26], handle=handle))
    return waiting


def listener_with_room_for(requests):
    return make_listener(queued_max_request_bytes=requests * FRAME_BYTES)


def reading(peers):
    return [peer.transport.is_reading for peer in peers]


async def turns(count=1):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_node_with_too_much_in_flight_reads_no_more_of_who_has_its_share(calls):
    listener = listener_with_room_for(4)
    greedy, modest = peers = [Peer(listener) for _ in range(2)]
    for _ in range(4):
        assert reading(peers) == [True, True]
        greedy.send(END, 3)
    assert reading(peers) == [False, True]
    modest.send(END, 3)
    assert reading(peers) == [False, True], "it has less than half of the room"
    modest.send(END, 3)
    assert reading(peers) == [False, False]
    for call in calls:
        call.answer(EndTxnResponse())
    await turns(5)
    assert reading(peers) == [True, True]
    assert listener.queued_bytes.size_bytes == 0


async def test_connections_that_wait_for_room_are_read_again_one_by_one_in_their_order(calls):
    listener = listener_with_room_for(8)
    peers = [Peer(listener) for _ in range(3)]
    blocker = Peer(listener)
    for _ in range(8):
        blocker.send(END, 3)
    for peer in reversed(peers):
        peer.send(END, 3)
        peer.send(END, 3)
    assert reading(peers) == [False] * 3
    blocker.connection.connection_lost(None)
    seen = [reading(peers)]
    while not all(seen[-1]):
        await turns()
        if reading(peers) != seen[-1]:
            seen.append(reading(peers))
    assert seen == [[False] * 3, [False, False, True], [False, True, True], [True] * 3]


async def test_peers_whose_requests_take_long_do_not_keep_others_out(calls):
    listener = listener_with_room_for(4)
    slow, honest = Peer(listener), Peer(listener)
    for _ in range(4):
        slow.send(END, 3)
    for count in range(1, 20):
        for _ in range(2):
            honest.send(END, 3)
        assert not honest.transport.is_reading, "this is all that it may have in flight"
        for call in calls[-2:]:
            call.answer(EndTxnResponse())
        assert len(await honest.responses()) == 2 * count
        assert honest.transport.is_reading
    assert not slow.transport.is_reading


async def test_requests_of_a_connection_that_is_gone_make_room(calls):
    listener = listener_with_room_for(2)
    gone, stays = Peer(listener), Peer(listener)
    for _ in range(2):
        gone.send(END, 3)
    stays.send(END, 3)
    assert reading([gone, stays]) == [False, False]
    gone.connection.connection_lost(None)
    assert listener.queued_bytes.size_bytes == FRAME_BYTES
    calls[0].answer(EndTxnResponse())
    assert listener.queued_bytes.size_bytes == FRAME_BYTES, "it is not given back twice"
    await turns(3)
    assert stays.transport.is_reading
    stays.connection.connection_lost(None)
    assert (listener.queued_bytes.size_bytes, len(listener.queued_bytes.waiting)) == (0, 0)
