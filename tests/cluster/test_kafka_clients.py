"""librdkafka against the actors of a real cluster, whose processes are killed meanwhile."""

import confluent_kafka
import pytest

from tests.support.clusters import check, fresh, kill, nodes_with, until_back

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
KILLED_AT = {5: "leader", 10: "coordinator"}


def bootstrap_of(cluster):
    return ",".join(f"{node['host']}:{node['port']}" for node in nodes_with(cluster, "leader"))


def attempt(act):
    """Do something as often as it may be repeated; return whether it is done, and not to be aborted."""
    while True:
        try:
            act()
        except confluent_kafka.KafkaException as error:
            problem = error.args[0]
            if problem.txn_requires_abort():
                return False
            if not problem.retriable():
                raise
        else:
            return True


def commit(producer, topic, values):
    """Write a transaction until it is committed, as an application does."""
    while True:
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2)
        if attempt(lambda: producer.commit_transaction(TIMEOUT_S)):
            return
        attempt(lambda: producer.abort_transaction(TIMEOUT_S))


def test_transactions_of_librdkafka_are_exact_while_actors_are_killed(cluster):
    topic = fresh("wire")
    cluster.admin.create_topic(topic, partitions=2)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap_of(cluster), "transactional.id": fresh("wire"), "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    expected = []
    for number in range(15):
        if number in KILLED_AT:
            victim = nodes_with(cluster, KILLED_AT[number])[-1]
            kill(victim)
        values = [b"%d-%d" % (number, part) for part in range(4)]
        commit(producer, topic, values)
        expected += values
        if number in KILLED_AT:
            until_back(cluster, [victim])
    check(cluster, topic, expected)
