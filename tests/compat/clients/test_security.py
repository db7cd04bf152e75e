"""Kafka's own tools and clients by TLS and SASL, against a broker of this file with listeners of each kind."""

import subprocess

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from benchmarks.peer.ours import Ours
from tests.compat.conftest import give_up
from tests.compat.kafka_tools.command_line import CommandLine, ToolFailedError
from tests.compat.kafka_tools.jars import ToolsUnavailableError
from tests.support.certificates import Authority
from tests.support.cli_cluster import eagleray

PASSWORD = "off with her head"
SECONDS = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory, authority):
    """A broker whose tools begin at a plain listener on loopback; the others want TLS, with a password or without."""
    directory = tmp_path_factory.mktemp("secure")
    settings = {
        "listeners": "LOCAL://127.0.0.1:0,LOGIN://127.0.0.1:0,MUTUAL://127.0.0.1:0",
        "listener.security.protocol.map": "LOCAL:PLAINTEXT,LOGIN:SASL_SSL,MUTUAL:SSL",
        "ssl.keystore.location": authority.issue_into(directory / "keystore", "node"),
        "ssl.truststore.location": authority.path,
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "connections.max.reauth.ms": "2000",
        "transaction.state.log.num.partitions": "4",
        "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
    }
    with Ours(directory, "colocated", settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def tools(secure):
    try:
        return CommandLine.find(secure.bootstrap_servers)
    except ToolsUnavailableError as error:
        give_up(str(error))


@pytest.fixture(scope="module")
def servers(secure):
    """The addresses of each listener, as a broker tells them."""
    admin = AdminClient({"bootstrap.servers": secure.bootstrap_servers})
    found = {}
    for broker in admin.list_topics(timeout=SECONDS).brokers.values():
        resource = ConfigResource(ResourceType.BROKER, str(broker.id))
        configs = admin.describe_configs([resource])[resource].result(SECONDS)
        for listener in configs["advertised.listeners"].value.split(","):
            name, _, address = listener.partition("://")
            found.setdefault(name, []).append(address)
    return {name: ",".join(addresses) for name, addresses in found.items()}


@pytest.fixture(scope="module")
def ada(tools):
    """A user whose password is set by Kafka's own tool."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        config = f"{mechanism}=[iterations=8192,password={PASSWORD}]"
        tools.run("configs", "--alter", "--entity-type", "users", "--entity-name", "ada", "--add-config", config)
    return "ada"


def login(path, authority, mechanism, user, password):
    """Write what Java's clients read to log in; return where."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path.write_text(
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={authority.path}\n"
        f"sasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
        f'username="{user}" password="{password}";\n'
    )
    return str(path)


def test_tool_sets_and_removes_credentials(tools, secure, ada):
    # The tool describes users together with their quotas, which this broker does not have.
    admin = AdminClient({"bootstrap.servers": secure.bootstrap_servers})
    (described,) = admin.describe_user_scram_credentials([ada]).values()
    assert {info.iterations for info in described.result(SECONDS).scram_credential_infos} == {8192}
    user = ("--entity-type", "users", "--entity-name", "ben")
    tools.run("configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[password=x]")
    assert set(admin.describe_user_scram_credentials().result(SECONDS)) == {ada, "ben"}
    tools.run("configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert set(admin.describe_user_scram_credentials().result(SECONDS)) == {ada}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_java_writes_and_reads_with_a_password(tmp_path, tools, servers, authority, ada, mechanism):
    inside = CommandLine(tools.java, tools.jars, servers["LOGIN"])
    config = login(tmp_path / "login.properties", authority, mechanism, ada, PASSWORD)
    topic = f"login-{mechanism}"
    inside.run("topics", "--create", "--topic", topic, "--command-config", config)
    inside.run("console-producer", "--topic", topic, "--command-config", config, stdin="one\ntwo\n")
    output = inside.run(
        *("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000"),
        *("--command-config", config),
    )
    assert output.splitlines() == ["one", "two"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["ada", "nobody"])
def test_java_says_that_a_password_is_wrong(tmp_path, tools, servers, authority, ada, mechanism, user):
    inside = CommandLine(tools.java, tools.jars, servers["LOGIN"])
    config = login(tmp_path / "login.properties", authority, mechanism, user, "wrong")
    with pytest.raises(ToolFailedError, match=f"Authentication failed: invalid credentials for {mechanism}"):
        inside.run("topics", "--list", "--command-config", config)


def test_java_shows_a_certificate(tmp_path, tools, servers, authority):
    certificate, key = authority.issue("till")
    keystore = tmp_path / "till.pem"
    keystore.write_bytes(key + certificate)
    trusting = f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority.path}\n"
    config = tmp_path / "mutual.properties"
    config.write_text(f"{trusting}ssl.keystore.type=PEM\nssl.keystore.location={keystore}\n")
    inside = CommandLine(tools.java, tools.jars, servers["MUTUAL"])
    inside.run("topics", "--create", "--topic", "mutual", "--command-config", str(config))
    config.write_text(trusting)
    with pytest.raises(ToolFailedError, match=r"SSL handshake failed|SslAuthenticationException|certificate"):
        inside.run("topics", "--list", "--command-config", str(config))


def test_java_that_does_not_know_the_authority_says_so(tmp_path, tools, servers, ada):
    stranger = Authority(tmp_path / "stranger", "another CA")
    config = login(tmp_path / "login.properties", stranger, "PLAIN", ada, PASSWORD)
    inside = CommandLine(tools.java, tools.jars, servers["LOGIN"])
    with pytest.raises(ToolFailedError, match=r"unable to find valid certification path|SSL handshake failed"):
        inside.run("topics", "--list", "--command-config", config)


def test_java_authenticates_again_while_it_writes(tmp_path, tools, servers, authority, ada):
    """Some six sessions of two seconds; a record that is lost, or fails, would be one less."""
    inside = CommandLine(tools.java, tools.jars, servers["LOGIN"])
    config = login(tmp_path / "login.properties", authority, "SCRAM-SHA-512", ada, PASSWORD)
    said = inside.run(
        *("producer-perf-test", "--topic", "perf", "--num-records", "1200", "--record-size", "100"),
        *("--throughput", "100", "--command-config", config),
    )
    assert "1200 records sent" in said


def test_librdkafka_logs_in_at_a_node_in_a_process_of_its_own(servers, authority, ada):
    producer = Producer(
        {
            "bootstrap.servers": servers["LOGIN"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": authority.path,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": ada,
            "sasl.password": PASSWORD,
            "transactional.id": "checkout",
        }
    )
    producer.init_transactions(SECONDS)
    for _ in range(20):
        producer.begin_transaction()
        producer.produce("orders", bytes(200_000))
        producer.commit_transaction(SECONDS)


def test_transaction_says_whose_it_is(secure, servers, authority, ada):
    test_librdkafka_logs_in_at_a_node_in_a_process_of_its_own(servers, authority, ada)
    command = eagleray("txn", "describe", "checkout")
    shown = subprocess.run(
        command, env=secure.environment, capture_output=True, text=True, check=True, timeout=SECONDS
    ).stdout
    assert "User:ada" in shown
