"""Kafka's own command-line tools against the broker; DumpLogSegments has its tests beside this folder."""

import json

import pytest

from tests.compat.clients.librdkafka import plain_producer, transactional_producer
from tests.compat.conftest import give_up
from tests.compat.kafka_tools.command_line import CommandLine
from tests.compat.kafka_tools.jars import ToolsUnavailableError
from tests.support.clusters import fresh, until


@pytest.fixture(scope="session")
def tools(bootstrap_servers):
    try:
        return CommandLine.find(bootstrap_servers)
    except ToolsUnavailableError as error:
        give_up(str(error))


def fill(bootstrap_servers, topic, count):
    producer = plain_producer(bootstrap_servers)
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(20) == 0


def row_with(output, word):
    """The cells of the first line that has this word."""
    return next(line.split() for line in output.splitlines() if word in line.split())


def test_topics_and_configs(tools):
    topic = fresh("tools")
    tools.run("topics", "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=60000")
    described = tools.run("topics", "--describe", "--topic", topic)
    assert "PartitionCount: 2" in described
    assert "retention.ms=60000" in described
    tools.run("configs", "--alter", "--topic", topic, "--add-config", "retention.ms=70000")
    assert "retention.ms=70000" in tools.run("configs", "--describe", "--topic", topic)
    tools.run("topics", "--delete", "--topic", topic)
    until(lambda: topic not in tools.run("topics", "--list").split(), "the topic is gone")


def test_console_producer_and_consumer(tools, make_topic):
    topic = make_topic("console")
    tools.run("console-producer", "--topic", topic, "--reader-property", "parse.key=true", stdin="a\tone\nb\ttwo\n")
    output = tools.run(
        *("console-consumer", "--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000"),
        *("--isolation-level", "read_committed", "--formatter-property", "print.key=true"),
    )
    assert output.splitlines() == ["a\tone", "b\ttwo"]


def test_console_consumer_sees_only_what_was_committed(tools, history):
    # Without a group, which takes its time to form: the tool ends when nothing has come for a while.
    where = ("--topic", history.topic, "--partition", "0", "--offset", "earliest", "--timeout-ms", "2500")
    stable = tools.run("console-consumer", *where, "--isolation-level", "read_committed")
    assert stable.splitlines() == [value.decode() for value in history.stable]


def test_consumer_groups(tools, bootstrap_servers, make_topic):
    topic, group = make_topic("groups"), fresh("group")
    fill(bootstrap_servers, topic, 5)
    tools.run(
        *("console-consumer", "--topic", topic, "--from-beginning", "--group", group),
        *("--max-messages", "5", "--timeout-ms", "20000"),
    )
    assert group in tools.run("consumer-groups", "--list").split()
    row = row_with(tools.run("consumer-groups", "--describe", "--group", group), group)
    assert row[1:6] == [topic, "0", "5", "5", "0"]
    tools.run("consumer-groups", "--group", group, "--topic", topic, "--reset-offsets", "--to-offset", "2", "--execute")
    row = row_with(tools.run("consumer-groups", "--describe", "--group", group, "--offsets"), group)
    assert row[3:6] == ["2", "5", "3"]
    tools.run("consumer-groups", "--delete", "--group", group)


def test_transactions(tools, bootstrap_servers, make_topic):
    topic, transactional_id = make_topic("transactions"), fresh("id")
    producer = transactional_producer(bootstrap_servers, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    assert row_with(tools.run("transactions", "list"), transactional_id)[3] == "Ongoing"
    described = tools.run("transactions", "describe", "--transactional-id", transactional_id)
    assert f"{topic}-0" in row_with(described, transactional_id)
    active = tools.run("transactions", "describe-producers", "--topic", topic, "--partition", "0")
    assert active.splitlines()[1].split()[-1] == "0"
    producer.abort_transaction()


def test_producers_of_every_partition_of_a_broker(tools, admin, bootstrap_servers, make_topic):
    """Internal partitions too: Metadata send the tools to the nodes of their coordinators."""
    topic = make_topic("hanging")
    producer = transactional_producer(bootstrap_servers, fresh("id"))
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    for broker_id in led_internally(admin):
        assert "Failed" not in tools.run("transactions", "find-hanging", "--broker-id", str(broker_id))
    for internal in ("__consumer_offsets", "__transaction_state"):
        described = tools.run("transactions", "describe-producers", "--topic", internal, "--partition", "0")
        assert described.startswith("ProducerId")
    producer.abort_transaction()


def led_internally(admin):
    topics = admin.list_topics(timeout=20).topics
    names = ("__consumer_offsets", "__transaction_state")
    return sorted({partition.leader for name in names for partition in topics[name].partitions.values()})


def test_offsets_of_all_topics(tools, bootstrap_servers, make_topic):
    topic = make_topic("all")
    fill(bootstrap_servers, topic, 3)
    # The tool writes errors of single partitions to its other stream, and leaves these out.
    listed = {line.rsplit(":", 1)[0] for line in tools.run("get-offsets").split()}
    assert f"{topic}:0" in listed
    wanted = {f"{name}:{number}" for name in ("__consumer_offsets", "__transaction_state") for number in range(4)}
    assert wanted <= listed


def test_offsets_and_deleted_records(tools, bootstrap_servers, make_topic, tmp_path):
    topic = make_topic("offsets")
    fill(bootstrap_servers, topic, 7)
    assert tools.run("get-offsets", "--topic", topic).split() == [f"{topic}:0:7"]
    which = tmp_path / "offsets.json"
    which.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
    assert "low_watermark: 3" in tools.run("delete-records", "--offset-json-file", str(which))
    assert tools.run("get-offsets", "--topic", topic, "--time", "earliest").split() == [f"{topic}:0:3"]


def test_performance_of_a_transactional_producer(tools, make_topic):
    topic = make_topic("performance")
    output = tools.run(
        *("producer-perf-test", "--topic", topic, "--num-records", "2000", "--record-size", "100"),
        *("--throughput", "-1", "--transactional-id", fresh("id"), "--transaction-duration-ms", "50"),
    )
    assert "2000 records sent" in output


def test_broker_describes_itself(tools):
    versions = tools.run("broker-api-versions")
    assert "EndTxn(26)" in versions
    features = row_with(tools.run("features", "describe"), "transaction.version")
    assert features[features.index("FinalizedVersionLevel:") + 1] == "2"
    assert "Cluster ID" in tools.run("cluster", "cluster-id")
