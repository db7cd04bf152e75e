"""A connection: requests in, answers out in their order, and what becomes of peers that do not behave."""

import asyncio
import logging
import math
import struct

import msgspec
import pytest

from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.actors.lanes.frames import TOKEN_BYTES, encode_preface
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.codec import decode_response, encode_request
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from eagleray.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from eagleray.protocol.messages.find_coordinator import FindCoordinatorRequest
from eagleray.protocol.messages.heartbeat import HeartbeatRequest
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest
from eagleray.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import TOKEN, RecordedSession, make_listener

ASK = ApiVersionsRequest("tests", "1")
END = EndTxnRequest("checkout", 1, 2, True)


@pytest.fixture
def calls(monkeypatch):
    """Let the calls of EndTxn wait for the test to answer them."""
    waiting = []

    def handle(request, call):
        waiting.append(call)

    monkeypatch.setitem(SERVED, 26, msgspec.structs.replace(SERVED[26], handle=handle))
    return waiting


def replace_handler(monkeypatch, api_key, handle, **fields):
    monkeypatch.setitem(SERVED, api_key, msgspec.structs.replace(SERVED[api_key], handle=handle, **fields))


async def test_a_request_is_answered():
    peer = Peer(make_listener())
    peer.send(ASK, 3)
    (response,) = await peer.responses()
    assert response.body.error_code == ErrorCode.NONE
    assert {api.api_key: api.min_version for api in response.body.api_keys}[0] == 0, "librdkafka looks for it"
    features = {feature.name: feature.max_version_level for feature in response.body.finalized_features}
    assert features == {"transaction.version": 2, "group.version": 1}


async def test_features_begin_at_a_level_that_clients_of_the_version_can_read():
    peer = Peer(make_listener())
    for version in (3, 4):
        peer.send(ASK, version)
    lowest = [response.body.supported_features[0].min_version for response in await peer.responses()]
    assert lowest == [1, 0]


async def test_a_client_that_is_at_another_node_or_cluster_than_it_believes_is_sent_back():
    peer = Peer(make_listener())
    for cluster_id, node_id in (("", 1), ("", 99), (None, -1), ("another", 1), ("", 2)):
        peer.send(ApiVersionsRequest("tests", "1", cluster_id, node_id), 5)
    peer.send(ApiVersionsRequest("", ""), 5)
    codes = [response.body.error_code for response in await peer.responses()]
    wrong = ErrorCode.REBOOTSTRAP_REQUIRED
    assert codes == [0, 0, 0, wrong, wrong, ErrorCode.INVALID_REQUEST]


async def test_answers_have_the_order_of_the_requests_whichever_is_ready_first(calls):
    peer = Peer(make_listener())
    for _ in range(3):
        peer.send(END, 3)
    for call, code in zip(reversed(calls), (3, 2, 1), strict=True):
        assert await peer.responses() == []
        call.answer(EndTxnResponse(error_code=code))
    assert [response.body.error_code for response in await peer.responses()] == [1, 2, 3]
    assert len(peer.transport.written) == 1, "what is ready in one turn leaves with one write"


@pytest.mark.parametrize("size", [1, 3, 7, 50, 10_000])
async def test_requests_may_come_in_pieces(size):
    peer = Peer(make_listener())
    data = b"".join(peer.encode(ASK, 3) for _ in range(5))
    for start in range(0, len(data), size):
        peer.send_bytes(data[start : start + size])
    assert len(await peer.responses()) == 5


async def test_nothing_is_sent_for_a_call_that_wants_no_answer_and_the_next_goes_on(calls):
    peer = Peer(make_listener())
    peer.send(END, 3)
    peer.send(END, 3)
    calls[1].answer(EndTxnResponse())
    calls[0].answer_nothing()
    (response,) = await peer.responses()
    assert response.header.correlation_id == 1
    with pytest.raises(AssertionError):
        calls[0].answer(EndTxnResponse())


async def test_answer_after_the_peer_has_gone_is_dropped(calls):
    listener = make_listener()
    peer = Peer(listener)
    peer.send(END, 3)
    peer.connection.connection_lost(None)
    calls[0].answer(EndTxnResponse())
    calls[0].fail(ValueError("late"))
    assert await peer.responses() == []
    assert len(listener) == 0


async def test_a_coroutine_is_run_and_its_result_is_the_answer(monkeypatch):
    async def handle(request, call):
        await asyncio.sleep(0)
        assert call.client_id == "tests"
        assert call.client_host == "10.0.0.7"
        return EndTxnResponse(error_code=7)

    replace_handler(monkeypatch, 26, handle, is_async=True)
    peer = Peer(make_listener())
    peer.send(END, 3)
    (response,) = await peer.responses()
    assert response.body.error_code == 7


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_handler_that_fails_refuses_its_request_and_no_other(monkeypatch, caplog, is_async):
    def fails(request, call):
        raise ZeroDivisionError

    async def fails_later(request, call):
        raise ZeroDivisionError

    replace_handler(monkeypatch, 26, fails_later if is_async else fails, is_async=is_async)
    peer = Peer(make_listener())
    peer.send(END, 3)
    peer.send(ASK, 3)
    refused, answered = await peer.responses()
    assert refused.body.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answered.body.error_code == ErrorCode.NONE
    assert "EndTxn version 3 of 10.0.0.7 failed" in caplog.text


async def test_a_failure_is_told_in_the_shape_of_the_api_or_by_closing(monkeypatch):
    def fails(request, call):
        raise ZeroDivisionError

    replace_handler(monkeypatch, 0, fails)
    peer = Peer(make_listener())
    data = (TopicProduceData("orders", bytes(16), (PartitionProduceData(3, b"x"),)),)
    peer.send(ProduceRequest(None, 1, 1, data), 9)
    (response,) = await peer.responses()
    partition = response.body.responses[0].partition_responses[0]
    assert (partition.index, partition.error_code) == (3, ErrorCode.UNKNOWN_SERVER_ERROR)
    replace_handler(monkeypatch, 0, fails, refuse=None)
    peer.send(ProduceRequest(None, 1, 1, data), 9)
    assert peer.transport.is_closed


async def test_versions_that_are_not_served_are_refused():
    peer = Peer(make_listener())
    peer.send(InitProducerIdRequest(None, 1), 6)
    (response,) = await peer.responses()
    assert response.body.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_two_phase_commit_has_versions_of_its_own_where_it_is_enabled():
    highest = []
    for enabled in (False, True):
        peer = Peer(make_listener(transaction_two_phase_commit_enable=enabled))
        peer.send(ApiVersionsRequest("tests", "1"), 3)
        peer.send(InitProducerIdRequest(None, 1), 6)
        versions, identity = await peer.responses()
        highest += [
            api.max_version for api in versions.body.api_keys if api.api_key == InitProducerIdRequest.wire.api_key
        ]
        assert (identity.body.error_code == ErrorCode.UNSUPPORTED_VERSION) is not enabled
    assert highest == [5, 6]


async def test_a_client_from_the_future_is_told_what_it_may_ask():
    peer = Peer(make_listener())
    peer.send_bytes(struct.pack(">ihhih", 10, 18, 99, 77, -1))
    await asyncio.sleep(0)
    (frame,) = peer.transport.written
    response = decode_response(frame[4:], 18, 0)
    assert response.header.correlation_id == 77
    assert response.body.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert 18 in {api.api_key for api in response.body.api_keys}
    assert not peer.transport.is_closed


OTHER_PROTOCOLS = {
    "HTTP": b"GET / HTTP/1.1\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "SSH": b"SSH-2.0-OpenSSH",
    "at most 104857600 are taken": b"\x7f\xff\xff\xff",
    "a frame of -1 bytes": b"\xff\xff\xff\xff",
    "no API with key 999": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "EndTxn version 99": struct.pack(">ihhih", 10, 26, 99, 1, -1),
    "Produce version 2": struct.pack(">ihhih", 10, 0, 2, 1, -1),
    "has no header": b"\x00\x00\x00\x03abc",
    "it sent what is no request": struct.pack(">ihhih", 10, 26, 0, 1, 500),
    "API 12 is not served here": encode_request(HeartbeatRequest("group"), 0, 1, None),
}


@pytest.mark.parametrize("sentence", [*OTHER_PROTOCOLS])
async def test_peer_of_another_protocol_is_described_once_and_closed(sentence, caplog, monkeypatch):
    monkeypatch.delitem(SERVED, 12, raising=False)
    listener = make_listener()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            peer = Peer(listener)
            peer.send_bytes(OTHER_PROTOCOLS[sentence])
            assert peer.transport.is_closed
            assert peer.transport.written == []
            peer.connection.connection_lost(None)
        good = Peer(listener)
        good.send(ASK, 3)
        assert len(await good.responses()) == 1
    assert len(caplog.records) == 1
    assert sentence in caplog.text
    assert "10.0.0.7:4711" in caplog.text


async def test_connection_that_begins_like_the_direct_lane_is_handed_over():
    listener = make_listener(max_connections=1)
    Peer(listener)
    peer = Peer(listener)
    preface = encode_preface(TOKEN)
    for piece in (preface[:2], preface[2:20], preface[20:] + b" and more"):
        assert peer.transport.protocol is None
        assert len(listener) == 2, "it counts as long as it has not shown the token"
        peer.send_bytes(piece)
    assert isinstance(peer.transport.protocol, RecordedSession)
    assert peer.transport.protocol.received == preface + b" and more"
    assert len(listener) == 1, "a session of the direct lane is no client"


STRANGERS = {
    "does not know the token": encode_preface(bytes(TOKEN_BYTES)),
    "speaks version 77": encode_preface(TOKEN)[:4] + b"\x00\x4d" + TOKEN,
}


@pytest.mark.parametrize("sentence", [*STRANGERS])
async def test_stranger_on_the_direct_lane_is_closed_and_logged_once(sentence, caplog):
    listener = make_listener()
    for _ in range(3):
        peer = Peer(listener)
        peer.send_bytes(STRANGERS[sentence])
        assert peer.transport.is_closed
        assert peer.transport.protocol is None
        peer.connection.connection_lost(None)
    assert len(listener) == 0
    assert len(caplog.records) == 1
    assert sentence in caplog.text


async def test_peer_that_begins_the_direct_lane_and_never_says_who_it_is_is_closed():
    listener = make_listener(socket_request_complete_ms=1000)
    now_s = listener.context.loop.time()
    slow, drop_by_drop = Peer(listener), Peer(listener)
    slow.send_bytes(b"EAGL")
    for second in range(3):
        drop_by_drop.send_bytes(encode_preface(TOKEN)[second * 4 : second * 4 + 4])
        for peer in (slow, drop_by_drop):
            peer.connection.look(now_s + second)
            assert peer.transport.is_closed is (second > 1)


async def test_connections_of_the_direct_lane_are_one_too_many_until_they_have_shown_the_token():
    listener = make_listener(max_connections_per_ip=1)
    peers = [Peer(listener) for _ in range(3)]
    _, stranger, node = peers
    stranger.send_bytes(b"EAGL")
    node.send_bytes(encode_preface(TOKEN))
    ring(listener, peers[0], stranger)
    assert [peer.transport.is_closed for peer in peers] == [False, True, False]
    assert isinstance(node.transport.protocol, RecordedSession)


async def test_a_peer_with_too_many_requests_in_flight_is_read_no_further(calls):
    peer = Peer(make_listener(queued_max_requests=3))
    for _ in range(3):
        assert peer.transport.is_reading
        peer.send(END, 3)
    assert not peer.transport.is_reading
    calls[0].answer(EndTxnResponse())
    assert len(await peer.responses()) == 1
    assert peer.transport.is_reading


async def test_a_peer_with_too_many_bytes_in_flight_is_read_no_further(calls):
    peer = Peer(make_listener(queued_max_request_bytes_per_connection=50))
    peer.send(END, 3)
    peer.send(END, 3)
    assert not peer.transport.is_reading
    calls[0].answer(EndTxnResponse())
    await peer.responses()
    assert peer.transport.is_reading


async def test_answers_are_held_for_a_peer_that_does_not_read_and_it_is_not_read(calls):
    peer = Peer(make_listener())
    peer.send(END, 3)
    peer.connection.pause_writing()
    assert not peer.transport.is_reading
    calls[0].answer(EndTxnResponse())
    assert await peer.responses() == []
    peer.connection.resume_writing()
    assert len(await peer.responses()) == 1
    assert peer.transport.is_reading


async def test_a_peer_that_asks_too_often_is_made_to_wait():
    peer = Peer(make_listener(connection_requests_per_second=50))
    for _ in range(60):
        peer.send(ASK, 3)
    assert not peer.transport.is_reading
    assert len(await peer.responses()) == 60, "it is slowed down, not refused"
    await asyncio.sleep(0.5)
    assert peer.transport.is_reading


async def test_too_many_connections_are_refused_when_they_turn_out_to_be_clients(caplog):
    listener = make_listener(max_connections=2, max_connections_per_ip=1)
    first = Peer(listener)
    second = Peer(listener)
    elsewhere = Peer(listener, ("10.0.0.8", 1))
    for peer in (first, second, elsewhere):
        peer.send(ASK, 3)
    assert not first.transport.is_closed
    assert second.transport.is_closed, "one too many of this address"
    assert elsewhere.transport.is_closed, "one too many in all"
    assert caplog.text.count("max.connections") == 4
    second.connection.connection_lost(None)
    elsewhere.connection.connection_lost(None)
    again = Peer(listener, ("10.0.0.8", 2))
    again.send(ASK, 3)
    assert not again.transport.is_closed


async def test_a_client_is_not_let_in_before_the_node_knows_its_cluster():
    listener = make_listener()
    listener.context.image = type(listener.context.image)()
    peer = Peer(listener)
    peer.send(ASK, 3)
    assert peer.transport.is_closed


async def test_silent_and_slow_peers_are_closed_and_busy_ones_are_not(calls, caplog):
    listener = make_listener(connections_max_idle_ms=60_000, socket_request_complete_ms=1000)
    now_s = listener.context.loop.time()
    silent, slow, slow_to_begin, busy, talkative = (Peer(listener) for _ in range(5))
    slow.send_bytes(peer_bytes := ASK_FRAME[:-3])
    slow_to_begin.send_bytes(ASK_FRAME[:2])
    busy.send(END, 3)
    for second in range(70):
        # Each of these completes one request and begins another.
        talkative.send_bytes(ASK_FRAME[-3:] + peer_bytes if second else peer_bytes)
        for peer in (silent, slow, slow_to_begin, busy, talkative):
            if not peer.transport.is_closed:
                peer.connection.look(now_s + second)
        assert slow.transport.is_closed is (second > 1)
        assert slow_to_begin.transport.is_closed is (second > 1)
    assert silent.transport.is_closed
    assert not busy.transport.is_closed
    assert not talkative.transport.is_closed
    assert caplog.text.count("the rest of a request does not come") == 1, "both come from one address"


async def test_listener_has_a_deadline_only_while_a_peer_is_connected(calls):
    listener = make_listener(connections_max_idle_ms=80_000)
    assert listener.context.timer.due_ms == {}
    peer = Peer(listener)
    assert seconds_until_look(listener) == pytest.approx(0.5, abs=0.3)
    ring(listener, peer)
    assert seconds_until_look(listener) == pytest.approx(10, abs=0.3), "it is silent, and nothing is incomplete"
    peer.send_bytes(ASK_FRAME[:2])
    assert seconds_until_look(listener) == pytest.approx(0.5, abs=0.3), "a request has begun"
    ring(listener, peer)
    assert seconds_until_look(listener) == pytest.approx(0.5, abs=0.3), "and is not whole yet"
    peer.connection.connection_lost(None)
    ring(listener)
    assert not listener._looks
    assert listener.context.timer.due_ms == {listener._on_due: NEVER_MS}


async def test_connection_that_is_one_too_many_is_closed_when_it_does_not_say_who_it_is():
    listener = make_listener(max_connections=1)
    first, second = Peer(listener), Peer(listener)
    ring(listener, first, second)
    assert not first.transport.is_closed
    assert second.transport.is_closed


async def test_connection_that_was_busy_until_lately_is_not_idle(calls):
    """It is looked at rarely, and must not be closed before it has been silent for the whole time."""

    listener = make_listener(connections_max_idle_ms=80_000)
    # Whole seconds: the differences of others are not exact.
    now_s = math.ceil(listener.context.loop.time())
    peer = Peer(listener)
    peer.send(END, 3)
    peer.connection.look(now_s)
    peer.connection._waiting.clear()
    for second in range(10, 91, 10):
        peer.connection.look(now_s + second)
        assert not peer.transport.is_closed
    peer.connection.look(now_s + 100)
    assert peer.transport.is_closed


def ring(listener, *peers):
    """Look at connections as if it were time."""
    for peer in peers:
        listener._looks.set(peer.connection, 0)
    listener._on_due()


def seconds_until_look(listener):
    return (listener.context.timer.due_ms[listener._on_due] - listener.context.steady_ms()) / 1000


async def test_a_listener_that_closes_answers_what_is_in_flight_first(calls):
    listener = make_listener()
    quiet, busy = Peer(listener), Peer(listener)
    busy.send(END, 3)
    closing = asyncio.create_task(listener.close())
    while not quiet.transport.is_closed:
        await asyncio.sleep(0)
    quiet.connection.connection_lost(None)
    assert not busy.transport.is_closed
    assert not busy.transport.is_reading
    calls[0].answer(EndTxnResponse())
    assert len(await busy.responses()) == 1
    assert busy.transport.is_closed
    busy.connection.connection_lost(None)
    await closing


async def test_a_coordinator_that_cannot_be_found_is_said_in_the_words_of_each_version():
    peer = Peer(make_listener())
    peer.send(FindCoordinatorRequest(key="checkout", key_type=1), 3)
    peer.send(FindCoordinatorRequest(key_type=1, coordinator_keys=("checkout",)), 4)
    one, many = await peer.responses()
    assert one.body.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert many.body.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


ASK_FRAME = encode_request(ASK, 3, 0, "tests")
