"""A cluster on three machines: it starts, serves, says where it is, and a machine that was lost comes back."""

import json
import os

import pytest

import eagleray
from eagleray.actors.cluster.supervision import running_nodes
from eagleray.errors import CannotStart
from tests.support.cli_processes import FEWER
from tests.support.clusters import check, until_back, until_running
from tests.support.machines import three_machines

NAME = "spread"
SMALL = ("--layout", "colocated", "--leaders", "1")
MESSAGES = [b"%d" % number for number in range(30)]


@pytest.fixture(scope="module")
def machines():
    with three_machines() as machines:
        yield machines


@pytest.fixture
def cluster(machines, tmp_path):
    with machines.start_cluster(NAME, tmp_path, machines=3) as cluster:
        yield cluster


def produce(cluster, topic, values):
    with cluster.producer() as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 3)


def test_three_machines_serve_and_come_back(machines, cluster, tmp_path):
    first, second, third = machines.addresses
    nodes = until_running(cluster)
    assert [(node["node_id"], node["machine"], node["host"]) for node in nodes] == [
        (0, first, first),
        (100, second, second),
        (200, third, third),
    ]
    assert sorted(os.listdir(tmp_path)) == ["machine-0", "machine-1", "machine-2", "machines", "token"]

    cluster.admin.create_topic("orders", partitions=3)
    leaders = [partition.leader for partition in cluster.admin.describe_topic("orders").partitions]
    assert sorted(leaders) == [0, 100, 200]
    produce(cluster, "orders", MESSAGES)
    check(cluster, "orders", MESSAGES)

    described = json.loads(machines.run(NAME, "status", "--json").stdout)
    assert [node["machine"] for node in described["nodes"]] == machines.addresses
    assert len({node["ray_node"] for node in described["nodes"]}) == 3
    shown = machines.run(NAME, "status").stdout
    assert all(address in shown for address in machines.addresses)

    lost = [node for node in nodes if node["machine"] == second]
    machines.kill_machine(1)
    machines.until_lost(1)
    # What the others lead goes on, whoever asks, and the lost node is still a part of the cluster.
    with eagleray.connect(NAME) as other, other.producer() as producer:
        for partition, leader in enumerate(leaders):
            if leader != 100:
                producer.send("orders", b"meanwhile", partition=partition)
    assert [node["registered"] for node in cluster.nodes()] == [True, False, True]

    machines.start_machine(1)
    (back,) = until_back(cluster, lost)
    assert (back["machine"], back["port"]) == (second, lost[0]["port"])
    check(cluster, "orders", [*MESSAGES, b"meanwhile", b"meanwhile"])


def test_cluster_is_found_and_stopped_without_its_first_node_and_begins_where_it_was(machines, tmp_path):
    head, second, third = machines.addresses
    (tmp_path / "machines").write_text(f"{second}\n{head}\n{third}\n")
    cluster = machines.start_cluster(NAME, tmp_path)
    assert [node["machine"] for node in cluster.nodes()] == [second, head, third]
    cluster.admin.create_topic("orders", partitions=3)
    produce(cluster, "orders", MESSAGES)

    machines.kill_machine(1)
    machines.until_lost(1)
    described = json.loads(machines.run(NAME, "status", "--json").stdout)
    assert [(node["machine"], node["registered"]) for node in described["nodes"]] == [
        (second, False),
        (head, True),
        (third, True),
    ]
    machines.run(NAME, "stop")
    assert running_nodes(NAME) == ()
    cluster.close()

    with pytest.raises(CannotStart, match=f"Ray has no node at {second}, only at {head}, {third}"):
        machines.start_cluster(NAME, tmp_path)
    machines.start_machine(1)
    with machines.start_cluster(NAME, tmp_path) as again:
        check(again, "orders", MESSAGES)


def test_command_starts_a_cluster_on_three_machines(machines, tmp_path, monkeypatch):
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path / "home"))
    data = ("--data-dir", str(tmp_path / "data"), "--listen", "0.0.0.0:0")
    printed = machines.run("typed", "start", "--machines", "3", *data, *SMALL, *FEWER, "--detach").stdout
    try:
        described = json.loads(machines.run("typed", "status", "--json").stdout)
        assert [node["machine"] for node in described["nodes"]] == machines.addresses
        assert printed.startswith("bootstrap.servers=")
        replicated = ("--replication-factor", "3", "--config", "min.insync.replicas=2")
        machines.run("typed", "topic", "create", "orders", *replicated)
        (partition,) = json.loads(machines.run("typed", "topic", "describe", "orders", "--json").stdout)["partitions"]
        assert sorted(partition["replicas"]) == [0, 100, 200]
    finally:
        machines.run("typed", "stop")
    with pytest.raises(AssertionError, match="no Eagleray cluster named 'typed'"):
        machines.run("typed", "status")


def test_impossible_options_are_refused_before_anything_starts(machines, tmp_path):
    with pytest.raises(CannotStart, match="4 machines were asked for, and Ray has 3 nodes"):
        machines.start_cluster("four", tmp_path, machines=4)
