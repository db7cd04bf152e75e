"""The command line against a real Ray: from `start` to the last process that has ended."""

import json
import os
import signal

import pytest

from tests.support.cli_processes import FEWER, Machine, still_running, with_descendants

pytestmark = pytest.mark.slow

SMALL = ("--layout", "colocated", "--leaders", 1)


@pytest.fixture
def machine():
    machine = Machine()
    yield machine
    machine.close()


def test_cluster_in_the_foreground_serves_until_it_is_interrupted(machine):
    process, bootstrap = machine.start(*SMALL)
    machine.run("topic", "create", "orders", "--partitions", 2)
    machine.run("produce", "orders", "--transactional-id", "loader", stdin=b"a\nb\nc\n")
    assert sorted(machine.run("consume", "orders", "--max", 3).split()) == [b"a", b"b", b"c"]

    status = machine.json("status")
    (node,) = status["nodes"]
    assert f"{node['host']}:{node['port']}" == bootstrap
    assert node["registered"]
    assert node["restarts"] == 0
    assert node["ray_node"]
    assert status["topics"] == [{"name": "orders", "partitions": 2}]

    # A second cluster on the same Ray, which runs on by itself until it is stopped.
    other = ("--name", "other", "--data-dir", f"{machine.data_dir}-2", "--listen", "127.0.0.1:0")
    machine.environment["RAY_AUTH_MODE"] = "token"
    beside = (*other, "--address", status["ray_address"], *SMALL, *FEWER, "--detach", "--unless-running")
    started = machine.run("start", *beside)
    # Once more changes nothing, whoever says it.
    assert machine.run("start", *beside) == started
    del machine.environment["RAY_AUTH_MODE"]
    assert machine.json("topic", "list", "--name", "other") == []
    machine.run("stop", "--name", "other")
    assert machine.json("topic", "list") == [{"name": "orders", "partitions": 2}]

    processes = with_descendants(process)
    assert node["pid"] in {each.pid for each in processes}
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert still_running(processes) == []
    assert os.listdir(machine.temporary) == []


def test_cluster_in_the_background_runs_until_it_is_stopped(machine):
    started = ("start", "--data-dir", machine.data_dir, "--listen", "127.0.0.1:0", *SMALL, *FEWER, "--detach")
    assert machine.run(*started).startswith(b"bootstrap.servers=127.0.0.1:")
    processes = with_descendants(machine.keeper())
    try:
        machine.run("topic", "create", "kept")
        assert machine.json("topic", "list") == [{"name": "kept", "partitions": 1}]
    finally:
        machine.run("stop")
    assert still_running(processes) == []
    assert os.listdir(machine.temporary) == []

    # What it held is there again when it is started again.
    machine.start(*SMALL)
    assert machine.json("topic", "list") == [{"name": "kept", "partitions": 1}]


def test_bench_brings_its_own_cluster(machine):
    report = json.loads(machine.run("bench", "txn", "--local", "--producers", 10, "--seconds", 1, "--json"))
    assert report["transactions"] > 0
    assert report["aborted"] == 0
    assert os.listdir(machine.temporary) == []
