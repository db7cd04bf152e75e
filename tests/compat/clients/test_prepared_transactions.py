"""Kafka's tools and Java's Admin meet what no client of Kafka makes: transactions that are prepared, or resolving."""

import pytest

from eagleray import Question, Resolver
from eagleray.client.errors import CompletedOtherwise
from tests.compat.clients.test_command_line import row_with
from tests.compat.conftest import give_up
from tests.compat.java.java_client import JavaClient
from tests.compat.kafka_tools.command_line import CommandLine
from tests.compat.kafka_tools.jars import ToolsUnavailableError
from tests.support.cli_cluster import NodesOnThread
from tests.support.clusters import fresh, until

NEVER_MS = 600_000
IN_TIME = {"first_after_ms": 100, "interval_ms": 100, "attempts": 1000}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Nodes in this process: what is left prepared is written by our own clients, and ended by Kafka's."""
    nodes = NodesOnThread(tmp_path_factory.mktemp("prepared"))
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def bootstrap_servers(nodes):
    return nodes.nodes.bootstrap_servers


@pytest.fixture(scope="module")
def cluster(nodes):
    with nodes.blocking_clients() as cluster:
        cluster.admin.create_topic("orders", partitions=1)
        yield cluster


@pytest.fixture(scope="module")
def tools(bootstrap_servers):
    try:
        return CommandLine.find(bootstrap_servers)
    except ToolsUnavailableError as error:
        give_up(str(error))


@pytest.fixture(scope="module")
def java(bootstrap_servers):
    try:
        client = JavaClient(bootstrap_servers)
    except ToolsUnavailableError as error:
        give_up(str(error))
    with client:
        yield client


@pytest.fixture
def questions(cluster):
    """A topic of questions, and what is read from it."""
    topic = fresh("questions")
    cluster.admin.create_topic(topic, partitions=1)
    with cluster.consumer(topic, auto_offset_reset="earliest") as consumer:
        yield Questions(topic, consumer)


class Questions:
    def __init__(self, topic, consumer):
        self.topic = topic
        self._consumer = consumer

    def first(self):
        """Wait for the first question."""
        (record, *_) = until(lambda: self._consumer.poll(100), "the resolver is asked")
        return Question.parse(record.value)


def left_prepared(cluster, resolver=None):
    """Prepare a transaction with one record, and do nothing more."""
    with cluster.producer(transactional_id=fresh("billing"), transaction_two_phase_commit_enable=True) as producer:
        producer.init()
        producer.begin(resolver=resolver)
        producer.send("orders", fresh("order").encode())
        return producer.prepare(context=b"42")


def shows_as_ongoing(tools, java, prepared):
    """See that Kafka's tools and Admin show a transaction that is open, with its producer and its partition."""
    name, producer_id = prepared.transactional_id, prepared.producer.producer_id
    listed = row_with(tools.run("transactions", "list"), name)
    assert (listed[2], listed[3]) == (f"{producer_id}", "Ongoing")
    described = row_with(tools.run("transactions", "describe", "--transactional-id", name), name)
    assert {f"{producer_id}", "Ongoing", "orders-0"} <= {*described}
    assert java.do("list_transactions")[name] == "Ongoing"
    found = java.do("describe_transaction", transactional_id=name)
    assert (found["state"], found["producer_id"], found["partitions"]) == ("Ongoing", producer_id, 1)


def state_of(java, prepared):
    return java.do("describe_transaction", transactional_id=prepared.transactional_id)["state"]


def test_prepared_transaction_is_shown_as_ongoing_and_ended_by_its_token(cluster, tools, java):
    prepared = left_prepared(cluster)
    shows_as_ongoing(tools, java, prepared)
    cluster.complete(prepared, commit=True)
    until(lambda: state_of(java, prepared) == "CompleteCommit", "the markers are written")


def test_resolving_transaction_is_shown_as_ongoing(cluster, tools, java, questions):
    prepared = left_prepared(cluster, Resolver.topic(questions.topic, **IN_TIME))
    assert questions.first().prepared == prepared
    shows_as_ongoing(tools, java, prepared)
    cluster.complete(prepared, commit=False)
    until(lambda: state_of(java, prepared) == "CompleteAbort", "the markers are written")


def test_fence_producers_aborts_what_is_prepared_without_a_resolver(cluster, java):
    prepared = left_prepared(cluster)
    java.do("fence_producers", transactional_id=prepared.transactional_id)
    until(lambda: state_of(java, prepared) == "Empty", "the next producer has nothing open")
    with pytest.raises(CompletedOtherwise):
        cluster.complete(prepared, commit=True)


def test_fence_producers_has_the_resolver_asked_and_waits_for_its_answer(cluster, java, questions):
    prepared = left_prepared(cluster, Resolver.topic(questions.topic, first_after_ms=NEVER_MS))
    java.begin("fence_producers", transactional_id=prepared.transactional_id)
    # It is asked now, and not when its time would have come.
    assert questions.first().prepared == prepared
    cluster.complete(prepared, commit=True)
    java.result()
    with pytest.raises(CompletedOtherwise):
        cluster.complete(prepared, commit=False)
