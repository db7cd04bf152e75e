"""Bursts of strangers at a node in a process of its own: its memory has a bound, and an honest producer goes on.

Each test says how much memory the burst may cost at its peak. What the limits of the node allow a stranger is in it.
"""

import resource
import socket
from contextlib import ExitStack, contextmanager, suppress

import pytest

from eagleray.broker.partitions.fetching import MOST_BYTES_A_TURN
from eagleray.protocol.codec import encode_request
from eagleray.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from eagleray.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from eagleray.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from eagleray.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from eagleray.protocol.records import NewRecord, build_batch
from tests.support.clusters import fresh, until
from tests.support.librdkafka_load import LibrdkafkaLoad
from tests.support.node_process import node_process

MB = 1024 * 1024
REQUEST_BYTES = 32 * MB
RESPONSE_BYTES = 32 * MB
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "queued.max.request.bytes": str(REQUEST_BYTES),
    "queued.max.response.bytes": str(RESPONSE_BYTES),
    "max.topics.per.cluster": "100",
}
OVERHEAD_BYTES = 64 * MB
"""What the allocator may keep besides, the honest load, and what lies in the sockets' buffers."""

TRANSACTIONS = 5
"""How many honest transactions come after each burst."""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with node_process(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        yield node


@pytest.fixture(scope="module")
def honest(node):
    """A producer that writes transactions all the time; all but a retry of librdkafka is an error."""
    with LibrdkafkaLoad(node, replicas=1) as load:
        load.goes_on(1)
        yield load


@pytest.fixture(scope="module", autouse=True)
def topics(node):
    """Topics of the strangers, who will soon have created as many as there may be."""
    return [topic_of(node) for _ in range(2)]


@contextmanager
def burst(node, honest, most_bytes):
    """Strangers do what they like, with connections that are closed in the end; nobody else notices."""
    before = node.forget_peak()
    with ExitStack() as connections:
        yield connections
        honest.goes_on(TRANSACTIONS)
        assert node.is_running, node.log
        peak_bytes = node.peak_bytes - before
        print(f"{peak_bytes / MB:.0f} MB more than before, at most {most_bytes / MB:.0f}")
        assert peak_bytes <= most_bytes
    honest.goes_on(TRANSACTIONS)


def connect(node, connections):
    return connections.enter_context(socket.create_connection(node.address, timeout=60))


def say(stranger, data):
    """Say something that the node may hang up at."""
    with suppress(ConnectionError):
        stranger.sendall(data)


def has_hung_up(stranger):
    stranger.setblocking(False)
    try:
        while data := stranger.recv(MB):
            assert data
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def read_frames(stranger, count):
    """Read so many responses, and return how many bytes they have."""
    total = 0
    with stranger.makefile("rb") as responses:
        for _ in range(count):
            size_bytes = int.from_bytes(responses.read(4))
            assert len(responses.read(size_bytes)) == size_bytes
            total += size_bytes
    return total


def fetch(topic, offset, max_wait_ms=0):
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=50 * MB)
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=(FetchTopic(topic, partitions=(partition,)),))
    return encode_request(request, 11, 1, "stranger")


def produce(node, connections, topic, size_bytes):
    """Write one record, and wait until it is there."""
    batch = build_batch([NewRecord(bytes(size_bytes), timestamp=0)])
    data = TopicProduceData(topic, bytes(16), (PartitionProduceData(0, batch),))
    writer = connect(node, connections)
    writer.sendall(encode_request(ProduceRequest(None, -1, 1000, (data,)), 9, 1, "stranger"))
    assert writer.recv(1)


def topic_of(node):
    name = fresh("burst")
    node.create_topic(name, configs={"message.timestamp.before.max.ms": str(2**63 - 1)})
    return name


def test_idle_connections_cost_little(node, honest, record_property):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 2_000)
    record_property("connections", count)
    try:
        with burst(node, honest, 128 * MB) as connections:
            idle = [connect(node, connections) for _ in range(count)]
            until(lambda: node.open_files > count, f"{count} connections are open")
            assert not any(map(has_hung_up, idle[:100]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_requests_that_never_become_whole_cost_no_more_than_they_may(node, honest):
    with burst(node, honest, REQUEST_BYTES // 2 + OVERHEAD_BYTES) as connections:
        strangers = [connect(node, connections) for _ in range(100)]
        for stranger in strangers:
            say(stranger, (2 * MB).to_bytes(4) + bytes(MB))
        until(lambda: has_hung_up(strangers[0]), "the node has hung up at the slowest")
        assert not has_hung_up(strangers[-1])


def test_metadata_of_many_topics_costs_no_more_than_it_may(node, honest):
    with burst(node, honest, RESPONSE_BYTES + REQUEST_BYTES + OVERHEAD_BYTES) as connections:
        strangers = []
        for number in range(10):
            names = tuple(MetadataRequestTopic(name=f"none-{number}-{each}") for each in range(1_000))
            request = encode_request(MetadataRequest(names, allow_auto_topic_creation=True), 12, 1, "stranger")
            strangers.append(connect(node, connections))
            say(strangers[-1], request * 10)
        for stranger in strangers:
            assert read_frames(stranger, 10) > 10 * 1_000 * len("none-0-0")


def test_consumers_that_never_read_are_closed(node, honest, topics):
    topic = topics[0]
    with burst(node, honest, RESPONSE_BYTES + 4 * MOST_BYTES_A_TURN + OVERHEAD_BYTES) as connections:
        for _ in range(16):
            produce(node, connections, topic, 1_000_000)
        strangers = [connect(node, connections) for _ in range(10)]
        for stranger in strangers:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            say(stranger, fetch(topic, 0) * 40)
        until(lambda: "has not read for longest" in node.log, "the node has hung up at a consumer that does not read")


def test_fetches_that_wait_are_answered_in_turns(node, honest, topics):
    topic = topics[1]
    with burst(node, honest, RESPONSE_BYTES + 4 * MOST_BYTES_A_TURN + OVERHEAD_BYTES) as connections:
        strangers = [connect(node, connections) for _ in range(100)]
        for stranger in strangers:
            stranger.sendall(fetch(topic, 0, max_wait_ms=60_000) * 100)
        honest.goes_on(TRANSACTIONS)
        produce(node, connections, topic, 500_000)
        until(lambda: sum(map(has_hung_up, strangers)) > 10, "strangers that do not read are closed")


def test_node_whose_files_run_out_keeps_some_for_its_logs(tmp_path):
    with node_process(tmp_path, SETTINGS, files=400) as node, LibrdkafkaLoad(node, replicas=1) as honest:
        honest.goes_on(1)
        with ExitStack() as connections:
            admin = connect(node, connections)
            idle = [connect(node, connections) for _ in range(600)]
            until(lambda: sum(map(has_hung_up, idle)) >= 200, "the node has hung up at those that are too many")
            topic = CreatableTopic("later", 10, 1)
            admin.sendall(encode_request(CreateTopicsRequest((topic,)), 5, 1, "admin"))
            assert admin.recv(1)
            honest.goes_on(TRANSACTIONS)
            assert node.open_files < 400
        until(lambda: node.open_files < 200, "connections that are closed give their files back")
        with ExitStack() as connections:
            produce(node, connections, topic_of(node), 10)
        honest.goes_on(TRANSACTIONS)
        assert "raise the limit" in node.log
