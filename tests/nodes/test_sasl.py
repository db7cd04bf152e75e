"""SASL listeners with real clients: credentials that admins set, who comes in, who does not, sessions that end."""

import asyncio
import os
import stat
import threading
import time
from contextlib import asynccontextmanager, closing, suppress

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer

from eagleray.protocol.codec import decode_response, encode_request
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.api_versions import ApiVersionsRequest
from eagleray.protocol.messages.metadata import MetadataRequest
from eagleray.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from eagleray.protocol.messages.sasl_handshake import SaslHandshakeRequest
from eagleray.testing import LocalCluster
from tests.support.certificates import Authority
from tests.support.clusters import until

ONE_NODE = {0: ("controller", "allocator", "coordinator", "markers", "groups", "leader")}
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
}
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
SECONDS = 60
PASSWORD = "through the looking-glass"


@asynccontextmanager
async def running(tmp_path, **settings):
    """A cluster with the user ada, whose credentials an admin sets on the plain listener."""
    given = {name.replace("_", "."): text for name, text in settings.items()}
    async with LocalCluster(tmp_path / "data", ONE_NODE, SETTINGS | given) as nodes:
        await asyncio.to_thread(give_credentials, nodes, "ada")
        yield nodes


def admin(nodes):
    return AdminClient({"bootstrap.servers": nodes.bootstrap_servers_of("PLAINTEXT"), "log_level": 0})


def give_credentials(nodes, user, password=PASSWORD):
    changes = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    alter(nodes, changes)


def alter(nodes, changes):
    client = admin(nodes)
    for future in client.alter_user_scram_credentials(changes).values():
        future.result(SECONDS)


def librdkafka(nodes, mechanism="SCRAM-SHA-256", user="ada", password=PASSWORD, **more):
    return {
        "bootstrap.servers": nodes.bootstrap_servers_of("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    } | {name.replace("_", "."): text for name, text in more.items()}


def write(config, value=b"x"):
    """Write one record in a transaction; return what the client says where it may not."""
    said = []
    producer = Producer(config | {"transactional.id": "checkout", "error_cb": said.append})
    try:
        producer.init_transactions(3)
    except KafkaException:
        while producer.poll(0.1):
            pass
        return " ".join(map(str, said))
    producer.begin_transaction()
    producer.produce("orders", value)
    producer.commit_transaction(SECONDS)
    return None


def read(config):
    with closing(Consumer(config | {"group.id": "till", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["orders"])
        return consumer.poll(SECONDS).value()


def until_logged(caplog, sentence):
    until(lambda: sentence in caplog.text, sentence, SECONDS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_librdkafka_writes_and_reads_as_its_user(tmp_path, mechanism):
    async with running(tmp_path) as nodes:
        config = librdkafka(nodes, mechanism)
        assert await asyncio.to_thread(write, config) is None
        cluster = nodes.connect()
        (found,) = [each for each in await cluster.admin.list_transactions() if each.transactional_id == "checkout"]
        described = await cluster.admin.describe_transaction("checkout")
        await cluster.close()
        assert described.origin.principal == "User:ada", found
        assert await asyncio.to_thread(read, config) == b"x"


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_writes_and_reads_as_its_user(tmp_path, mechanism):
    async with running(tmp_path) as nodes:
        options = {
            "bootstrap_servers": nodes.bootstrap_servers_of("SASL_PLAINTEXT"),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "ada",
            "sasl_plain_password": PASSWORD,
        }
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("orders", b"x")
        async with AIOKafkaConsumer("orders", auto_offset_reset="earliest", **options) as consumer:
            assert (await consumer.getone()).value == b"x"


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_kafka_python_writes_as_its_user(tmp_path, mechanism):
    def send(servers):
        with closing(
            KafkaProducer(
                bootstrap_servers=servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username="ada",
                sasl_plain_password=PASSWORD,
            )
        ) as producer:
            return producer.send("orders", b"x").get(SECONDS).offset

    async with running(tmp_path) as nodes:
        assert await asyncio.to_thread(send, nodes.bootstrap_servers_of("SASL_PLAINTEXT")) == 0


async def test_password_travels_inside_tls(tmp_path):
    authority = Authority(tmp_path / "authority")
    keystore = authority.issue_into(tmp_path / "keystore", "node")
    listeners = {"listeners": "SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", "ssl_keystore_location": keystore}
    async with running(tmp_path, **listeners) as nodes:
        inside = {
            "bootstrap_servers": nodes.bootstrap_servers_of("SASL_SSL"),
            "security_protocol": "SASL_SSL",
            "ssl_ca_location": authority.path,
        }
        assert await asyncio.to_thread(write, librdkafka(nodes, "PLAIN", **inside), bytes(300_000)) is None
        assert len(await asyncio.to_thread(read, librdkafka(nodes, "SCRAM-SHA-512", **inside))) == 300_000
        said = await asyncio.to_thread(write, librdkafka(nodes, "PLAIN", password="wrong", **inside))
        assert "Authentication failed: invalid credentials for PLAIN" in said


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["ada", "nobody"])
async def test_wrong_password_and_unknown_user_are_told_the_same(tmp_path, caplog, mechanism, user):
    async with running(tmp_path) as nodes:
        said = await asyncio.to_thread(write, librdkafka(nodes, mechanism, user, "wrong"))
        assert f"Authentication failed: invalid credentials for {mechanism}" in said
        assert "wrong" not in caplog.text.replace("the password is wrong", "")
        until_logged(caplog, f"authentication of user '{user}' by {mechanism} at listener SASL_PLAINTEXT has failed")
        assert nodes.nodes[0].describe()["failed_authentications"] > 0


async def test_mechanism_that_is_not_enabled_is_named(tmp_path, caplog):
    async with running(tmp_path, sasl_enabled_mechanisms="SCRAM-SHA-512") as nodes:
        said = await asyncio.to_thread(write, librdkafka(nodes, "SCRAM-SHA-256"))
        assert "SCRAM-SHA-512" in said
        until_logged(caplog, "it wants 'SCRAM-SHA-256'; expected one of SCRAM-SHA-512")


async def test_admin_sees_who_has_credentials_and_removes_them(tmp_path):
    def described(nodes):
        client = admin(nodes)
        futures = client.describe_user_scram_credentials(["ada", "nobody"])
        with pytest.raises(KafkaException) as error:
            futures["nobody"].result(SECONDS)
        assert error.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
        return futures["ada"].result(SECONDS)

    async with running(tmp_path) as nodes:
        infos = (await asyncio.to_thread(described, nodes)).scram_credential_infos
        assert [(info.mechanism, info.iterations) for info in infos] == [
            (ScramMechanism.SCRAM_SHA_256, 4096),
            (ScramMechanism.SCRAM_SHA_512, 4096),
        ]
        deletion = UserScramCredentialDeletion("ada", ScramMechanism.SCRAM_SHA_512)
        await asyncio.to_thread(alter, nodes, [deletion])
        assert "invalid credentials" in await asyncio.to_thread(write, librdkafka(nodes, "SCRAM-SHA-512"))
        assert await asyncio.to_thread(write, librdkafka(nodes, "SCRAM-SHA-256")) is None
        with pytest.raises(KafkaException):
            await asyncio.to_thread(alter, nodes, [deletion])


async def test_credentials_survive_a_restart_in_files_of_their_owner_alone(tmp_path):
    async with running(tmp_path) as nodes:
        await nodes.restart_node(0)
        assert await asyncio.to_thread(write, librdkafka(nodes)) is None
        stored = nodes.image.credentials["ada"][1].stored_key
    holding = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and stored in path.read_bytes()]
    assert holding
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in holding} == {0o600}


# Sessions


async def test_client_authenticates_again_while_it_writes(tmp_path):
    def write_on(config):
        producer = Producer(config)
        failed = []
        connected_s = time.monotonic()
        while time.monotonic() - connected_s < 4:
            producer.produce("orders", b"x", on_delivery=lambda error, _: error and failed.append(error))
            producer.flush(SECONDS)
        return failed

    async with running(tmp_path, connections_max_reauth_ms="1000") as nodes:
        writing = asyncio.create_task(asyncio.to_thread(write_on, librdkafka(nodes)))
        listener = nodes.nodes[0].listener
        ends = {}
        while not writing.done():
            for each in listener._connections:
                if each.identity.authenticator is not None:
                    ends.setdefault(each.number, set()).add(each.identity.session_ends_s)
            await asyncio.sleep(0.05)
        assert await writing == []
        assert max(map(len, ends.values())) > 1, "a connection has gone on with a new session"


async def test_revoked_user_is_cut_off_when_its_session_ends(tmp_path, caplog):
    async with running(tmp_path, connections_max_reauth_ms="1000") as nodes:
        said = []
        producer = Producer(librdkafka(nodes) | {"error_cb": said.append})
        producer.produce("orders", b"before")
        assert await asyncio.to_thread(producer.flush, SECONDS) == 0
        deletions = [UserScramCredentialDeletion("ada", each) for each in list(ScramMechanism)[1:]]
        await asyncio.to_thread(alter, nodes, deletions)
        listener = nodes.nodes[0].listener
        while any(each.identity.name == "ada" for each in listener._connections):
            await asyncio.to_thread(producer.poll, 0.1)
        until_logged(caplog, "authentication of user 'ada' by SCRAM-SHA-256")


async def test_silent_client_is_closed_when_its_session_ends(tmp_path, caplog):
    async with running(tmp_path, connections_max_reauth_ms="700") as nodes:
        reader, writer = await connected(nodes)
        lifetime_ms = await authenticate(reader, writer, version=2)
        assert lifetime_ms == 700
        assert await reader.read() == b""
        writer.close()
        until_logged(caplog, "it has not authenticated again within connections.max.reauth.ms (User:ada)")


# Peers that do not behave


async def connected(nodes, listener="SASL_PLAINTEXT"):
    host, _, port = nodes.bootstrap_servers_of(listener).rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def ask(reader, writer, request, version):
    writer.write(encode_request(request, version, 7, "test"))
    length = int.from_bytes(await reader.readexactly(4))
    return decode_response(await reader.readexactly(length), request.wire.api_key, version).body


async def authenticate(reader, writer, version):
    assert (await ask(reader, writer, ApiVersionsRequest("tests", "1"), 3)).error_code == ErrorCode.NONE
    assert (await ask(reader, writer, SaslHandshakeRequest("PLAIN"), 1)).error_code == ErrorCode.NONE
    request = SaslAuthenticateRequest(f"\0ada\0{PASSWORD}".encode())
    answer = await ask(reader, writer, request, version)
    assert answer.error_code == ErrorCode.NONE
    return answer.session_lifetime_ms


@pytest.mark.parametrize("version", range(3))
async def test_each_version_of_authentication_lets_in(tmp_path, version):
    async with running(tmp_path) as nodes:
        reader, writer = await connected(nodes)
        await authenticate(reader, writer, version)
        assert (await ask(reader, writer, MetadataRequest(None), 12)).brokers
        writer.close()


async def test_handshake_of_version_0_is_followed_by_bare_messages(tmp_path):
    async with running(tmp_path) as nodes:
        reader, writer = await connected(nodes)
        await ask(reader, writer, SaslHandshakeRequest("PLAIN"), 0)
        message = f"\0ada\0{PASSWORD}".encode()
        # What comes right behind is for the connection that it is let into.
        writer.write(len(message).to_bytes(4) + message + encode_request(MetadataRequest(None), 12, 7, "test"))
        assert await reader.readexactly(4) == bytes(4)
        length = int.from_bytes(await reader.readexactly(4))
        assert decode_response(await reader.readexactly(length), 3, 12).body.brokers
        writer.close()


async def test_request_before_authentication_ends_the_connection(tmp_path, caplog):
    async with running(tmp_path) as nodes:
        reader, writer = await connected(nodes)
        writer.write(encode_request(MetadataRequest(None), 12, 7, "test"))
        assert await reader.read() == b""
        writer.close()
        until_logged(caplog, "a request of API 3 before it has authenticated; expected SaslHandshake")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x00\x10\x00\x00" + bytes(100), "a request of 1048576 bytes was announced before it has authenticated"),
        (b"EAGL" + bytes(100), "listener SASL_PLAINTEXT is for Kafka's clients"),
        (b"\x16\x03\x01" + bytes(100), "it sent a TLS handshake, but this port is plain text"),
        (b"GET / HTTP/1.1\r\n\r\n", "it sent an HTTP request"),
        (b"\x00\x00\x00\x04\xff\xff\xff\xff", "it sent what is no request"),
    ],
)
async def test_stranger_is_closed_with_a_reason(tmp_path, caplog, data, says):
    async with running(tmp_path) as nodes:
        reader, writer = await connected(nodes)
        writer.write(data)
        assert await reader.read() == b""
        writer.close()
        until_logged(caplog, says)


async def test_failed_logins_wait_and_honest_clients_are_not_harmed(tmp_path):
    """Two hundred at once, in PLAIN, which costs a node most; an honest client writes beside them."""
    async with running(tmp_path) as nodes:

        async def fail():
            reader, writer = await connected(nodes)
            await ask(reader, writer, SaslHandshakeRequest("PLAIN"), 1)
            answer = await ask(reader, writer, SaslAuthenticateRequest(b"\0ada\0wrong"), 2)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()

        is_over = threading.Event()
        done = []

        def work():
            while not is_over.is_set():
                done.append(write(librdkafka(nodes)))

        working = asyncio.create_task(asyncio.to_thread(work))
        await asyncio.gather(*(fail() for _ in range(200)))
        is_over.set()
        await working
        assert set(done) == {None}
        assert nodes.nodes[0].listener.failed_authentications == 200
        assert len(nodes.nodes[0].listener.arrivals) == 0
