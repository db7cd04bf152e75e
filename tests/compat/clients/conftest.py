"""One broker for all tests of this folder, and topics on it with names of their own.

EAGLERAY_COMPAT_TARGET chooses the broker: "ours" (the default), "kafka" for a real Apache Kafka, which shows that tests
ask for nothing that Kafka itself does not do, or the addresses of a broker that runs already.
"""

import os
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.peer.ours import Ours
from benchmarks.peer.real_kafka import RealKafka
from eagleray.actors.common.settings import CLUSTER_KEYS
from tests.compat.clients.history import History
from tests.compat.conftest import give_up
from tests.compat.java.java_client import JavaClient
from tests.compat.kafka_tools.jars import ToolsUnavailableError
from tests.support.clusters import fresh, until

TARGET = os.environ.get("EAGLERAY_COMPAT_TARGET", "ours")
# Groups that settle at once, and few partitions of the logs that nobody looks at.
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
ALL_SECONDS = 90


class Elsewhere:
    """A broker that somebody else started."""

    def __init__(self, bootstrap_servers):
        self.bootstrap_servers = bootstrap_servers

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        pass


def chosen_broker(directory):
    if TARGET == "ours":
        known = {name: value for name, value in SETTINGS.items() if name in CLUSTER_KEYS}
        return Ours(directory, layout=os.environ.get("EAGLERAY_COMPAT_LAYOUT", "separate"), settings=known)
    if TARGET == "kafka":
        return RealKafka(directory, SETTINGS)
    return Elsewhere(TARGET)


def pytest_collection_modifyitems(items):
    """Let one process run all tests of this folder, because each process would start a broker of its own."""
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.xdist_group("clients"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """The broker under test."""
    before = set(psutil.Process().children(recursive=True))
    try:
        with chosen_broker(tmp_path_factory.mktemp("broker")) as running:
            yield running
    except ToolsUnavailableError as error:
        give_up(str(error))
    _, alive = psutil.wait_procs(set(psutil.Process().children(recursive=True)) - before, timeout=ALL_SECONDS)
    assert alive == [], "the broker has left processes behind"


@pytest.fixture(scope="session")
def is_kafka(broker):
    """Whether the broker is a real Apache Kafka, where ours does something else on purpose."""
    return isinstance(broker, RealKafka)


@pytest.fixture(scope="session")
def bootstrap_servers(broker):
    return broker.bootstrap_servers


@pytest.fixture
def our_broker(broker):
    """The broker, where it is ours: for what only ours can do."""
    if not isinstance(broker, Ours):
        pytest.skip("this is about our own broker")
    return broker


@pytest.fixture(scope="session")
def admin(bootstrap_servers):
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def has_leaders(admin, topic, partitions):
    # Asking for all topics has librdkafka forget that a node did not know this one yet.
    if topic not in admin.list_topics(timeout=ALL_SECONDS).topics:
        return False
    wanted = {Partition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        return all(future.result(ALL_SECONDS) for future in admin.list_offsets(wanted).values())
    except KafkaException:
        return False


@pytest.fixture
def make_topic(admin):
    """Make topics with names that no other test has."""

    def make(name="topic", partitions=1, **config):
        topic = fresh(name)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        created = admin.create_topics([NewTopic(topic, partitions, 1, config=settings)], operation_timeout=ALL_SECONDS)
        created[topic].result(ALL_SECONDS)
        # A topic is created before its leaders lead, and a producer that wants no answer is not told so.
        until(lambda: has_leaders(admin, topic, partitions), f"{topic} has leaders", ALL_SECONDS)
        return topic

    return make


@pytest.fixture
def history(bootstrap_servers, make_topic):
    """A topic in which transactions have been committed and aborted, and one is open."""
    with History(bootstrap_servers, make_topic("history")) as written:
        yield written


@pytest.fixture(scope="session")
def java(bootstrap_servers):
    """Kafka's own Java clients."""
    try:
        client = JavaClient(bootstrap_servers)
    except ToolsUnavailableError as error:
        give_up(str(error))
    with client:
        yield client
