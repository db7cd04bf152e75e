"""How many new connections are let in, and what becomes of the others."""

import asyncio

import pytest

from eagleray.actors.kafka_server.connection_rates import LONGEST_WAIT_S, ConnectionRates
from eagleray.broker.settings import INT32_MAX
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import make_listener

pytestmark = pytest.mark.usefixtures("virtual_time")

ASK = ApiVersionsRequest("tests", "1")
HERE, THERE = "10.0.0.7", "10.0.0.8"


def test_as_many_as_a_second_allows_come_at_once_and_the_next_wait_in_their_order():
    rates = ConnectionRates(4, INT32_MAX, now_s=0)
    assert [rates.wait_s(HERE, 0) for _ in range(6)] == [0, 0, 0, 0, 0.25, 0.5]
    assert rates.wait_s(THERE, 0.5) == pytest.approx(0.25), "two have earned their place meanwhile"
    assert rates.wait_s(HERE, 100) == 0


def test_flood_does_not_make_clients_wait_for_longer_than_it_is_served():
    rates = ConnectionRates(4, INT32_MAX, now_s=0)
    waits = [rates.wait_s(HERE, 0) for _ in range(10_000)]
    let_in = [wait_s for wait_s in waits if wait_s is not None]
    assert max(let_in) == LONGEST_WAIT_S
    assert len(let_in) == 4 * (LONGEST_WAIT_S + 1)
    assert rates.wait_s(THERE, 1) is not None, "what is closed does not count"


def test_flood_of_one_address_costs_others_nothing():
    rates = ConnectionRates(1000, 2, now_s=0)
    assert [rates.wait_s(HERE, 0) for _ in range(3)] == [0, 0, 0.5]
    for _ in range(10_000):
        rates.wait_s(HERE, 0)
    assert [rates.wait_s(THERE, 0) for _ in range(2)] == [0, 0]


def test_addresses_that_were_quiet_for_longest_are_forgotten():
    rates = ConnectionRates(INT32_MAX, 1, now_s=0)
    for number in range(10_001):
        assert rates.wait_s(f"10.1.{number // 256}.{number % 256}", 0) == 0
    assert rates.wait_s("10.1.0.0", 0) == 0, "it was the first"
    assert rates.wait_s("10.1.1.0", 0) == 1


async def test_connection_beyond_the_rate_is_answered_when_its_turn_has_come():
    listener = make_listener(max_connection_creation_rate=20)
    peers = [Peer(listener) for _ in range(21)]
    for peer in peers:
        peer.send(ASK, 3)
    *quick, late = peers
    assert all([await peer.responses() for peer in quick])
    assert await late.responses() == []
    assert not late.transport.is_reading
    assert len(listener) == 21, "it counts while it waits"
    await asyncio.sleep(0.1)
    assert len(await late.responses()) == 1
    assert late.transport.is_reading
    late.send(ASK, 3)
    assert len(await late.responses()) == 2, "it waits once"


async def test_connection_whose_turn_is_too_far_away_is_closed(caplog):
    listener = make_listener(max_connection_creation_rate_per_ip=1)
    peers = [Peer(listener) for _ in range(14)]
    for peer in peers:
        peer.send(ASK, 3)
    assert [peer.transport.is_closed for peer in peers] == [False] * 11 + [True] * 3
    elsewhere = Peer(listener, (THERE, 1))
    elsewhere.send(ASK, 3)
    assert len(await elsewhere.responses()) == 1
    assert caplog.text.count("max.connection.creation.rate") == 1


async def test_connection_that_closes_while_it_waits_is_forgotten():
    listener = make_listener(max_connection_creation_rate=20)
    peers = [Peer(listener) for _ in range(21)]
    for peer in peers:
        peer.send(ASK, 3)
    peers[-1].connection.connection_lost(None)
    await asyncio.sleep(0.1)
    assert peers[-1].transport.written == []
    assert len(listener) == 20
