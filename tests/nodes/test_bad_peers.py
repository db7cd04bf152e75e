"""Peers that do not behave, at a real listener: each is closed, and a good one beside them never notices."""

import asyncio
import logging
import struct
import time
from contextlib import asynccontextmanager

import pytest

from eagleray.protocol.codec import encode_request
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from eagleray.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from eagleray.testing import COLOCATED, LocalCluster
from tests.nodes.test_replication import values, write
from tests.support.wire import WireClient

ASK = ApiVersionsRequest("tests", "1")
ONE_NODE = {0: COLOCATED[0]}


@asynccontextmanager
async def serving(tmp_path, **settings):
    """One node, and a good client that goes on asking it meanwhile."""
    async with LocalCluster(tmp_path, ONE_NODE, settings) as nodes:
        node = nodes.nodes[0]
        async with await WireClient.connect(node) as good:
            await good.ask(ASK, 3)
            yield node, good
            assert (await good.ask(ASK, 3)).error_code == 0


BAD = {
    "garbage": b"\xde\xad\xbe\xef" * 16,
    "a huge length": b"\x7f\xff\xff\xff",
    "a negative length": b"\xff\xff\xff\xfe",
    "HTTP": b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00" + bytes(512),
    "an unknown API": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "a cut request": struct.pack(">ihhih", 10, 26, 0, 1, 500),
}


@pytest.mark.parametrize("kind", [*BAD])
async def test_peer_that_does_not_speak_the_protocol_is_closed_and_logged_once(tmp_path, caplog, kind):
    with caplog.at_level(logging.WARNING):
        async with serving(tmp_path) as (node, good):
            for _ in range(5):
                async with await WireClient.connect(node) as bad:
                    bad.writer.write(BAD[kind])
                    assert await bad.is_closed()
                    await good.ask(ASK, 3)
    warnings = [record for record in caplog.records if "closing the connection" in record.message]
    assert len(warnings) == 1
    assert "127.0.0.1" in warnings[0].message


async def test_half_a_request_is_not_waited_for_for_ever(tmp_path, caplog):
    async with serving(tmp_path, **{"socket.request.complete.ms": "300"}) as (node, good):
        bad = [await WireClient.connect(node) for _ in range(50)]
        frame = encode_request(ASK, 3, 1, "tests")
        for number, client in enumerate(bad):
            client.writer.write(frame[: 1 + number % (len(frame) - 1)])
        assert all(await asyncio.gather(*(client.is_closed() for client in bad)))
        await good.ask(ASK, 3)
        for client in bad:
            await client.close()
    assert caplog.text.count("the rest of a request does not come") == 1


def let_time_pass(monkeypatch):
    """Return a function that sets the clocks of this loop and of its nodes forward, by so many seconds."""
    loop, read_clock = asyncio.get_running_loop(), time.clock_gettime_ns
    read_loop_time, ahead_s = loop.time, 0

    def pass_seconds(seconds):
        nonlocal ahead_s
        ahead_s += seconds

    monkeypatch.setattr(loop, "time", lambda: read_loop_time() + ahead_s)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: read_clock(clock) + ahead_s * 1_000_000_000)
    return pass_seconds


async def test_idle_connections_cost_others_nothing_and_are_closed_in_the_end(tmp_path, monkeypatch):
    async with serving(tmp_path, **{"connections.max.idle.ms": "60000"}) as (node, good):
        pass_seconds = let_time_pass(monkeypatch)
        idle = [await WireClient.connect(node) for _ in range(1000)]
        assert len(node.listener) == 1001
        for _ in range(100):
            await good.ask(ASK, 3)
        while len(node.listener) > 1:
            await good.ask(ASK, 3)
            pass_seconds(61)
            await asyncio.sleep(0.05)
        for client in idle:
            await client.close()


async def test_a_peer_that_does_not_read_does_not_fill_the_memory(tmp_path):
    async with serving(tmp_path, **{"queued.max.requests": "50"}) as (node, good):
        reader, writer = await asyncio.open_connection(node.spec.host, node.port, limit=1024)
        frame = encode_request(ASK, 3, 1, "tests") * 100
        sent = 0
        try:
            async with asyncio.timeout(2):
                while True:
                    writer.write(frame)
                    await writer.drain()
                    sent += 100
        except TimeoutError:
            pass
        (connection,) = [one for one in node.listener._connections if one._is_paused]
        assert len(connection._waiting) < 2000
        assert node.listener.unread_responses.size_bytes < 2 * 1024 * 1024, "all else is in the buffers of the system"
        assert sent > 0
        await good.ask(ASK, 3)
        writer.close()
        del reader


async def test_a_node_that_stops_answers_what_is_in_flight_or_closes(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE) as nodes:
        node = nodes.nodes[0]
        async with await WireClient.connect(node) as client, await WireClient.connect(node) as waiting:
            await client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 9)
            asked = FetchTopic("orders", partitions=(FetchPartition(partition_max_bytes=1000),))
            waiting.send(FetchRequest(topics=(asked,), max_wait_ms=300, min_bytes=1), 12)
            await asyncio.sleep(0.05)
            stopping = asyncio.create_task(nodes.stop_node(0))
            assert (await waiting.receive()).responses[0].partitions[0].error_code == 0
            assert await waiting.is_closed()
            assert await client.is_closed()
            await stopping


async def test_limits_of_connections_keep_out_clients_and_not_other_nodes(tmp_path):
    async with LocalCluster(tmp_path, COLOCATED, {"max.connections.per.ip": "2"}) as nodes:
        node = nodes.nodes[1]
        clients = [await WireClient.connect(node) for _ in range(3)]
        for client in clients[:2]:
            await client.ask(ASK, 3)
        clients[2].send(ASK, 3)
        assert await clients[2].is_closed()
        # The other node, and whoever holds handles, come from the same address by the direct lane.
        await nodes.stop_node(1)
        await nodes.start_node(1)
        await nodes.until_registered()
        for client in clients:
            await client.close()


async def test_peers_that_never_say_who_they_are_are_closed_while_honest_ones_are_served(tmp_path, caplog):
    quick = {"socket.request.complete.ms": "300", "connections.max.idle.ms": "2000"}
    async with LocalCluster(tmp_path, COLOCATED, quick) as nodes:
        node, cluster = nodes.nodes[0], nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1)
        strangers = [await WireClient.connect(node) for _ in range(400)]
        for stranger in strangers[:200]:
            stranger.writer.write(b"EAGL")
        closing = asyncio.gather(*(stranger.is_closed() for stranger in strangers))
        written = []
        async with await WireClient.connect(node) as good:
            while not closing.done():
                await good.ask(ASK, 3)
                written.append(b"%d" % len(written))
                await write(cluster, written[-1])
            assert all(await closing)
            assert len(node.listener) == 1
        assert written
        assert await values(cluster) == written
        for stranger in strangers:
            await stranger.close()
        await cluster.close()
    assert caplog.text.count("the rest of a request does not come") == 1, "of one address it is said once"


async def test_links_between_nodes_outlive_the_idle_timeout_of_clients(tmp_path):
    async with LocalCluster(tmp_path, COLOCATED, {"connections.max.idle.ms": "500"}) as nodes:
        sessions = {number: {*node.sessions._sessions} for number, node in nodes.nodes.items()}
        assert any(sessions.values())
        async with await WireClient.connect(nodes.nodes[0]) as idle:
            assert await idle.is_closed()
        for number, node in nodes.nodes.items():
            assert sessions[number] <= {*node.sessions._sessions}
