"""Every API with every field of its requests at its limits: all are answered, none fails, and the honest go on."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from eagleray.actors.kafka_server import throttled_log
from eagleray.actors.kafka_server.handlers.registry import SERVED
from eagleray.broker.identities import TopicPartition
from eagleray.broker.transactions.events import EndTransaction
from eagleray.protocol.codec import encode_request
from eagleray.protocol.errors import ErrorCode
from tests.support.cluster_in_memory import COORDINATOR, GROUPS, LEADER_A
from tests.support.extreme_requests import LONGEST, extreme_requests, text_fields
from tests.support.kafka_peer import Peer

pytestmark = pytest.mark.usefixtures("virtual_time")

ORDERS = TopicPartition("orders", 0)
OF_COORDINATOR = {10, 22, 24, 25, 26, 65, 66}
OF_GROUPS = {8, 9, 11, 12, 13, 14, 15, 16, 28, 42, 47, 68, 69}
FOREVER_S = 3000
CASES = [(key, version) for key, served in SERVED.items() for version in sorted({served.lowest, served.highest})]
HANGS_UP = {0}
"""Produce without acks has no other word for a partition that is not led here."""


def node_for(key, world):
    if key in OF_COORDINATOR:
        return world.nodes[COORDINATOR]
    if key in OF_GROUPS:
        return world.nodes[GROUPS]
    return world.nodes.get(world.image.leader_of(ORDERS), world.nodes[LEADER_A])


def texts_in(value):
    """Every text in a response."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts_in(getattr(value, name))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from texts_in(each)


async def answered(world, key, request, version, client_id="tests"):
    """Whether a request is answered so that clients can read it, or its connection closed where the API may say no in
    that way. What was too long in the request may be so in the answer.
    """
    peer = Peer(node_for(key, world).listener)
    peer._sent.append((key, version))
    peer.send_bytes(encode_request(request, version, 0, client_id))
    try:
        if getattr(request, "acks", None) == 0:
            for _ in range(10):
                await asyncio.sleep(0)
            return True
        async with asyncio.timeout(FOREVER_S):
            await peer.transport.happened.wait()
        if peer.transport.is_closed:
            return key in HANGS_UP
        longest = max(map(len, texts_in(request)), default=0)
        return all(
            len(text) <= max(longest, LONGEST) for each in await peer.responses() for text in texts_in(each.body)
        )
    finally:
        if not peer.transport.is_closed:
            peer.connection.connection_lost(None)


@pytest.fixture
def failures(world, monkeypatch):
    """What the nodes of the world have noted as failed."""
    monkeypatch.setattr(throttled_log, "_QUIET_S", 0.0)
    return lambda: [found for node in world.nodes.values() for found in node.describe()["failed_requests"]]


@pytest.mark.parametrize(("key", "version"), CASES, ids=str)
async def test_request_at_its_limits_is_answered(key, version, world, failures):
    honest = await world.open_transaction("honest", TopicPartition("orders", 1))
    await world.open_transaction("billing", ORDERS)
    for what, request in extreme_requests(SERVED[key].api.request, version):
        assert await answered(world, key, request, version), (what, request)
        assert not failures(), (what, request)
    ended = await world.ask_node_for(COORDINATOR, EndTransaction, "honest", honest, True)
    assert ended.error_code is ErrorCode.NONE


@pytest.mark.parametrize("client_id", ["x" * LONGEST, "ü" * (LONGEST // 2)], ids=["letters", "umlauts"])
@pytest.mark.parametrize("key", [key for key, _ in dict(CASES).items()])
async def test_request_of_a_client_with_a_long_name_is_answered(key, client_id, world, failures):
    version = SERVED[key].highest
    for what, request in extreme_requests(SERVED[key].api.request, version):
        assert await answered(world, key, request, version, client_id), what
        if what != "as it is" and key not in {11, 68}:
            break
    assert not failures()


FLEXIBLE = [key for key, served in SERVED.items() if served.api.request.wire.is_flexible(served.highest)]


@pytest.mark.parametrize("key", FLEXIBLE)
async def test_text_that_kafka_would_not_read_reaches_no_handler(key, world, failures, monkeypatch, caplog):
    served = SERVED[key]
    handled = served.handle
    monkeypatch.setitem(SERVED, key, replace(served, handle=lambda request, call: handled(None, None)))
    for what, request in text_fields(served.api.request, served.highest):
        caplog.clear()
        await answered(world, key, request, served.highest)
        assert "is longer than 32767 bytes" in caplog.text, what
    assert not failures()
