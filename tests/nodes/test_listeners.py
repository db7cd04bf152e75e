"""Nodes with several listeners: each client is told the one that it came by, and each port takes whom it is for."""

import asyncio
import socket
from contextlib import closing, suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from eagleray.actors.lanes.frames import encode_preface
from eagleray.testing import LocalCluster
from tests.support.clusters import until

SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "listeners": "INNER://127.0.0.1:0,OUTER://0.0.0.0:0",
    "advertised.listeners": "OUTER://localhost:0",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT",
}
SECONDS = 60


def told(bootstrap_servers):
    """The brokers in the metadata that are given to a client."""
    brokers = AdminClient({"bootstrap.servers": bootstrap_servers}).list_topics(timeout=SECONDS).brokers
    return {f"{each.host}:{each.port}" for each in brokers.values()}


def write(bootstrap_servers, topic):
    """Write one record, by whichever node leads; return where it went."""
    written = []
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"x", on_delivery=lambda error, message: written.append(error or message.offset()))
    producer.flush(SECONDS)
    return written


def answer_to(address, data):
    """What a port answers to some bytes before it closes the connection."""
    host, _, port = address.rpartition(":")
    with closing(socket.create_connection((host, int(port)), SECONDS)) as peer:
        peer.sendall(data)
        return peer.recv(100)


async def test_client_is_told_the_listener_by_which_it_came(tmp_path):
    async with LocalCluster(tmp_path, settings=SETTINGS) as nodes:
        inner, outer = nodes.bootstrap_servers_of("INNER"), nodes.bootstrap_servers_of("OUTER")
        assert nodes.bootstrap_servers == inner
        assert await asyncio.to_thread(told, inner) == set(inner.split(","))
        assert await asyncio.to_thread(told, outer) == set(outer.split(","))
        assert all(address.startswith("localhost:") for address in outer.split(","))
        offsets = [await asyncio.to_thread(write, servers, "orders") for servers in (inner, outer)]
        assert offsets == [[0], [1]]


async def test_listeners_keep_their_ports_over_a_restart(tmp_path):
    async with LocalCluster(tmp_path, settings=SETTINGS) as nodes:
        before = {node_id: node.registration.endpoints for node_id, node in nodes.nodes.items()}
        await nodes.restart_node(1)
        assert {node_id: node.registration.endpoints for node_id, node in nodes.nodes.items()} == before
        assert nodes.image.nodes[1].endpoints == before[1]


async def test_each_port_takes_whom_it_is_for(tmp_path, caplog):
    async with LocalCluster(tmp_path, settings=SETTINGS) as nodes:
        node = nodes.nodes[0]
        lane, client = f"127.0.0.1:{node.port}", nodes.bootstrap_servers.split(",")[0]
        assert await asyncio.to_thread(answer_to, client, encode_preface(nodes.token)) == b""
        until_logged(caplog, "listener INNER is for Kafka's clients")
        api_versions = bytes.fromhex("0000000b 0012 0000 00000001 0001 78")
        assert await asyncio.to_thread(answer_to, lane, api_versions) == b""
        until_logged(caplog, "this port is for nodes and handles alone")
        assert await asyncio.to_thread(answer_to, client, api_versions) != b""
        cluster = nodes.connect()
        await cluster.admin.create_topic("by-handle")
        await cluster.close()


def until_logged(caplog, sentence):
    until(lambda: sentence in caplog.text, sentence, SECONDS)


async def test_port_that_is_taken_says_which_listener_wanted_it(tmp_path):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        settings = SETTINGS | {"listeners": f"INNER://127.0.0.1:{port}", "advertised.listeners": ""}
        with pytest.raises(OSError, match=rf"cannot open listener INNER at 127\.0\.0\.1, port {port}.*LOW-HIGH"):
            async with LocalCluster(tmp_path, settings=settings):
                pass


async def test_node_answers_with_the_listeners_that_it_advertises(tmp_path):
    async with LocalCluster(tmp_path, settings=SETTINGS) as nodes:
        described = nodes.nodes[0].describe()["listeners"]
        assert described == {
            "INNER": nodes.bootstrap_servers_of("INNER").split(",")[0],
            "OUTER": nodes.bootstrap_servers_of("OUTER").split(",")[0],
        }


@pytest.mark.parametrize("turns", range(5))
async def test_peer_that_comes_while_a_node_stops_is_closed(tmp_path, turns):
    async with LocalCluster(tmp_path) as nodes:
        with socket.create_connection((nodes.nodes[0].spec.host, nodes.nodes[0].port), SECONDS) as peer:
            # For some turns the peer is accepted, but not yet one of the connections.
            for _ in range(turns):
                await asyncio.sleep(0)
            await nodes.stop_node(0)
            with suppress(ConnectionResetError):
                assert await asyncio.to_thread(peer.recv, 1) == b""
