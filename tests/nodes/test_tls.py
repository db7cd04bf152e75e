"""TLS listeners with real clients: who comes in, what both sides are told where one does not, renewed certificates."""

import asyncio
import datetime as dt
import logging
import socket
import ssl
from contextlib import asynccontextmanager, closing

import pytest
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from eagleray.testing import LocalCluster
from tests.support.certificates import DAY, Authority
from tests.support.clusters import until

ONE_NODE = {0: ("controller", "allocator", "coordinator", "markers", "groups", "leader")}
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
}
SECONDS = 60


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "authority")


@pytest.fixture
def keystore(tmp_path, authority):
    return authority.issue_into(tmp_path / "keystore", "node")


@asynccontextmanager
async def running(tmp_path, keystore, **settings):
    given = {name.replace("_", "."): text for name, text in settings.items()}
    layout = SETTINGS | {"ssl.keystore.location": keystore} | given
    async with LocalCluster(tmp_path / "data", ONE_NODE, layout) as nodes:
        yield nodes


def librdkafka(nodes, authority, **more):
    return {
        "bootstrap.servers": nodes.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.ca.location": authority.path,
        "socket.timeout.ms": 5000,
    } | {name.replace("_", "."): text for name, text in more.items()}


def reach(config):
    """Ask for metadata; return how many brokers there are, or what the client says instead."""
    said = []
    admin = AdminClient(config | {"error_cb": said.append, "log_level": 0})
    try:
        return len(admin.list_topics(timeout=3).brokers)
    except KafkaException:
        while admin.poll(0.1):
            pass
        return " ".join(map(str, said))


def shake_hands(address, context):
    """Shake hands, and return the certificate that is shown; raises what the handshake raises."""
    host, _, port = address.rpartition(":")
    with (
        closing(socket.create_connection((host, int(port)), SECONDS)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as shaken,
    ):
        certificate = shaken.getpeercert()
        # With TLS 1.3 a node that refuses the client says so after the client's part of the handshake.
        shaken.sendall(bytes.fromhex("0000000b 0012 0000 00000001 0001 78"))
        assert shaken.recv(100), "the node has closed the connection"
        return certificate


def trusting(authority, identity=None):
    context = ssl.create_default_context(cafile=authority.path)
    if identity is not None:
        context.load_cert_chain(f"{identity}/tls.crt", f"{identity}/tls.key")
    return context


def until_logged(caplog, sentence):
    until(lambda: sentence in caplog.text, sentence, SECONDS)


async def test_librdkafka_writes_and_reads_by_tls(tmp_path, authority, keystore):
    async with running(tmp_path, keystore) as nodes:
        await asyncio.to_thread(write_and_read, librdkafka(nodes, authority))


def write_and_read(config):
    producer = Producer(config | {"transactional.id": "checkout"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    # Larger than one record of TLS, and than what is read at once.
    producer.produce("orders", bytes(700_000))
    producer.commit_transaction(SECONDS)
    consumer = Consumer(config | {"group.id": "till", "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe(["orders"])
        assert len(consumer.poll(SECONDS).value()) == 700_000


async def test_aiokafka_writes_and_reads_by_tls(tmp_path, authority, keystore):
    async with running(tmp_path, keystore) as nodes:
        options = {
            "bootstrap_servers": nodes.bootstrap_servers,
            "security_protocol": "SSL",
            "ssl_context": trusting(authority),
        }
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("orders", b"x" * 200_000)
        async with AIOKafkaConsumer("orders", auto_offset_reset="earliest", **options) as consumer:
            assert len((await consumer.getone()).value) == 200_000


async def test_kafka_python_writes_by_tls(tmp_path, authority, keystore):
    def write(servers):
        with closing(
            KafkaProducer(bootstrap_servers=servers, security_protocol="SSL", ssl_cafile=authority.path)
        ) as producer:
            return producer.send("orders", b"x").get(SECONDS).offset

    async with running(tmp_path, keystore) as nodes:
        assert await asyncio.to_thread(write, nodes.bootstrap_servers) == 0


async def test_client_that_does_not_know_the_authority_and_the_node_both_say_so(tmp_path, authority, keystore, caplog):
    stranger = Authority(tmp_path / "stranger", "another CA")
    async with running(tmp_path, keystore) as nodes:
        said = await asyncio.to_thread(reach, librdkafka(nodes, stranger))
        assert "certificate" in said
        assert "verif" in said
        until_logged(caplog, "it does not trust this node's certificate: it does not know the CA")


async def test_client_refuses_a_certificate_that_has_expired(tmp_path, authority, caplog):
    keystore = authority.issue_into(tmp_path / "old", "node", lifetime=-dt.timedelta(hours=1))
    async with running(tmp_path, keystore) as nodes:
        said = await asyncio.to_thread(reach, librdkafka(nodes, authority))
        assert "certificate verify failed" in said
        until_logged(caplog, "it does not trust this node's certificate: it has expired")


async def test_plain_text_to_a_tls_port_and_the_reverse_are_told_apart(tmp_path, authority, keystore, caplog):
    async with running(tmp_path, keystore) as nodes:
        tls, plain = (nodes.bootstrap_servers_of(name) for name in ("SSL", "PLAINTEXT"))
        said = await asyncio.to_thread(reach, {"bootstrap.servers": tls, "socket.timeout.ms": 5000})
        assert "brokers are down" in said, "librdkafka says no more, whatever it is told"
        until_logged(caplog, "it does not speak TLS, but listener SSL does; expected security.protocol=SSL")
        said = await asyncio.to_thread(reach, librdkafka(nodes, authority, bootstrap_servers=plain))
        assert "SSL" in said
        until_logged(caplog, "it sent a TLS handshake, but this port is plain text")


async def test_node_asks_for_a_certificate_and_knows_the_client_by_it(tmp_path, authority, keystore, caplog):
    client = authority.issue_into(tmp_path / "client", "till")
    rules = "RULE:^CN=(.*),O=Shop$/$1/U"
    required = {
        "ssl_client_auth": "required",
        "ssl_truststore_location": authority.path,
        "ssl_principal_mapping_rules": rules,
    }
    async with running(tmp_path, keystore, **required) as nodes:
        shown = librdkafka(
            nodes, authority, ssl_certificate_location=f"{client}/tls.crt", ssl_key_location=f"{client}/tls.key"
        )
        producer = Producer(shown)
        producer.produce("orders", b"x")
        assert await asyncio.to_thread(producer.flush, SECONDS) == 0
        identities = {str(each.identity) for each in nodes.nodes[0].listener._connections}
        assert identities == {"User:TILL"}
        said = await asyncio.to_thread(reach, librdkafka(nodes, authority))
        assert "certificate required" in said
        until_logged(caplog, "it has shown no certificate, and ssl.client.auth is required")


@pytest.mark.parametrize(
    ("issued", "says"),
    [
        ({"lifetime": -DAY}, "its certificate is refused: certificate has expired"),
        ({"organization": "Other"}, "no rule of ssl.principal.mapping.rules"),
        (None, "its certificate is refused: unable to get local issuer certificate"),
    ],
)
async def test_client_with_a_wrong_certificate_is_refused_with_a_reason(
    tmp_path, authority, keystore, caplog, issued, says
):
    signer = authority if issued is not None else Authority(tmp_path / "stranger", "another CA")
    client = signer.issue_into(tmp_path / "client", "till", **(issued or {}))
    required = {
        "ssl_client_auth": "requested",
        "ssl_truststore_location": str(authority.directory),
        "ssl_principal_mapping_rules": "RULE:^CN=(.*),O=Shop$/$1/",
    }
    async with running(tmp_path, keystore, **required) as nodes:
        address = nodes.bootstrap_servers
        context = trusting(authority, client)
        outcome = asyncio.to_thread(shake_hands, address, context)
        is_signed_well = issued == {"organization": "Other"}
        with pytest.raises((OSError, AssertionError), match="closed|reset" if is_signed_well else "alert"):
            await outcome
        until_logged(caplog, says)
        assert await asyncio.to_thread(shake_hands, address, trusting(authority)), "a certificate is only requested"


async def test_old_version_of_tls_is_refused(tmp_path, authority, keystore, caplog):
    async with running(tmp_path, keystore, ssl_enabled_protocols="TLSv1.3") as nodes:
        context = trusting(authority)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="protocol version"):
            await asyncio.to_thread(shake_hands, nodes.bootstrap_servers, context)
        until_logged(caplog, "it speaks no version of TLS that ssl.enabled.protocols allows")


async def test_renewed_certificate_is_shown_without_a_restart(tmp_path, authority, keystore, caplog):
    caplog.set_level(logging.INFO)

    def name_shown(address):
        shown = shake_hands(address, trusting(authority))
        return dict(part[0] for part in shown["subject"])["commonName"]

    async with running(tmp_path, keystore) as nodes:
        address = nodes.bootstrap_servers
        producer = Producer(librdkafka(nodes, authority))
        producer.produce("orders", b"before")
        assert await asyncio.to_thread(producer.flush, SECONDS) == 0
        assert await asyncio.to_thread(name_shown, address) == "node"
        (tmp_path / "keystore" / "tls.key").write_bytes(b"half of a key")
        for _ in range(3):
            assert await asyncio.to_thread(name_shown, address) == "node"
            await asyncio.sleep(0.6)
        until_logged(caplog, "clients go on with the certificates that were read before")
        authority.issue_into(keystore, "renewed")
        while await asyncio.to_thread(name_shown, address) != "renewed":
            await asyncio.sleep(0.1)
        until_logged(caplog, "anew")
        producer.produce("orders", b"after")
        assert await asyncio.to_thread(producer.flush, SECONDS) == 0


async def test_client_that_never_shakes_hands_is_closed_in_time(tmp_path, keystore, caplog):
    async with running(tmp_path, keystore, connection_authentication_timeout_ms="300") as nodes:
        host, _, port = nodes.bootstrap_servers.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"\x16\x03\x01")
        assert await reader.read() == b""
        writer.close()
        until_logged(caplog, "it has not shown who it is within 0.3 seconds")
        assert len(nodes.nodes[0].listener.arrivals) == 0


async def test_arrivals_count_as_connections(tmp_path, keystore, caplog):
    async with running(tmp_path, keystore, max_connections_per_ip="2") as nodes:
        host, _, port = nodes.bootstrap_servers.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(3)]
        assert await silent[2][0].read() == b""
        until_logged(caplog, "as many connections as max.connections and max.connections.per.ip allow")
        for _, writer in silent:
            writer.close()
        listener = nodes.nodes[0].listener
        while len(listener.arrivals):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"ssl.keystore.location": ""}, "expected the absolute path of a PEM file"),
        ({"ssl.client.auth": "required"}, "ssl.truststore.location is ''"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "expected TLSv1.2 or TLSv1.3"),
        ({"ssl.keystore.location": "/nowhere/at-all"}, "cannot be read from /nowhere/at-all"),
    ],
)
async def test_settings_that_cannot_be_served_say_what_was_expected(tmp_path, keystore, settings, says):
    layout = SETTINGS | {"ssl.keystore.location": keystore} | settings
    with pytest.raises(ValueError, match=says):
        async with LocalCluster(tmp_path / "data", ONE_NODE, layout):
            pass


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_arrivals_wait_for_their_turn_before_they_cost_a_handshake(tmp_path, authority, keystore, loop):
    async def arrive():
        async with running(tmp_path, keystore, max_connection_creation_rate_per_ip="2") as nodes:
            listener = nodes.nodes[0].listener
            shaking = [
                asyncio.create_task(asyncio.to_thread(shake_hands, nodes.bootstrap_servers, trusting(authority)))
                for _ in range(6)
            ]
            waited = 0
            while not all(task.done() for task in shaking):
                waited = max(waited, sum(arrival.inner is None for arrival in listener.arrivals))
                await asyncio.sleep(0.01)
            assert all(await asyncio.gather(*shaking))
            return waited

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None)
    with runner:
        assert runner.run(arrive()) > 1
