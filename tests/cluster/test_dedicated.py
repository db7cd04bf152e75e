"""Topics whose partitions have leaders of their own."""

import os
import signal

import psutil
import pytest

from tests.support.clusters import (
    admin_of,
    check,
    fresh,
    is_open,
    kill,
    nodes_with,
    until,
    until_back,
    until_running,
)

pytestmark = pytest.mark.slow

DEDICATED = {"leader.placement": "dedicated"}


def numbers_of(nodes):
    return {node["node_id"] for node in nodes}


def until_gone(nodes):
    until(lambda: not any(psutil.pid_exists(node["pid"]) for node in nodes), f"the processes of {nodes} are gone")
    assert not any(is_open(node["host"], node["port"]) for node in nodes)


def write(producer, topic, *values):
    with producer.transaction():
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 2)


def test_dedicated_topic_has_leaders_of_its_own_which_go_with_it(cluster):
    before = numbers_of(until_running(cluster))
    topic = fresh("dedicated")
    admin_of(cluster).create_topic(topic, partitions=2, configs=DEDICATED)
    nodes = [node for node in until_running(cluster) if node["node_id"] not in before]
    assert [node["roles"] for node in nodes] == [["leader"], ["leader"]]
    described = admin_of(cluster).describe_topic(topic)
    assert [partition.leader for partition in described.partitions] == [node["node_id"] for node in nodes]

    with cluster.producer(transactional_id=fresh("id")) as producer:
        write(producer, topic, b"one", b"two")
        for node in nodes:
            kill(node)
        write(producer, topic, b"three", b"four")
    check(cluster, topic, [b"one", b"two", b"three", b"four"])
    nodes = until_back(cluster, nodes)

    admin_of(cluster).delete_topic(topic)
    until_gone(nodes)
    assert numbers_of(until_running(cluster)) == before
    other = fresh("shared")
    admin_of(cluster).create_topic(other, partitions=2)
    with cluster.producer(transactional_id=fresh("id")) as producer:
        write(producer, other, b"still", b"served")
    check(cluster, other, [b"still", b"served"])


def test_dedicated_leaders_are_started_and_stopped_though_the_controller_dies(separate):
    """The controller ends by kill -9 when it has answered: what it had yet to do is done by its next incarnation."""
    before = numbers_of(until_running(separate))
    topic = fresh("dedicated")
    (controller,) = nodes_with(separate, "controller")
    admin_of(separate).create_topic(topic, partitions=2, configs=DEDICATED)
    os.kill(controller["pid"], signal.SIGKILL)
    with separate.producer(transactional_id=fresh("id")) as producer:
        write(producer, topic, b"one", b"two")
    check(separate, topic, [b"one", b"two"])

    (controller,) = until_back(separate, [controller])
    nodes = [node for node in until_running(separate) if node["node_id"] not in before]
    assert len(nodes) == 2
    admin_of(separate).delete_topic(topic)
    os.kill(controller["pid"], signal.SIGKILL)
    until_back(separate, [controller])
    until_gone(nodes)
    assert numbers_of(until_running(separate)) == before
