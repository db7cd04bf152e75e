"""The command line against a real Ray: from `start` to the last process that has ended."""

import json
import os
import re
import signal
import subprocess
import sys

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
    check_status_with_closed_streams(machine)

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


def check_status_with_closed_streams(machine):
    """What it would print is an error where it cannot, and none where it can."""
    closed = {each: machine.shell(f"{sys.executable} -m eagleray status {each}") for each in (">&-", "<&- 2>&-")}
    assert [ended.returncode for ended in closed.values()] == [1, 0]
    assert closed[">&-"].stderr.startswith(b"error: the standard output is closed")
    assert closed[">&-"].stderr.count(b"\n") == 1
    assert b"orders" in closed["<&- 2>&-"].stdout


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
    # What its nodes have said stays.
    assert os.listdir(f"{machine.data_dir}/broker-logs") == ["node-0.log"]
    *_, last = machine.run("logs", "--data-dir", machine.data_dir).splitlines()
    assert re.fullmatch(rb"\S+Z INFO node-0 eagleray.actors.cluster.ray_actors: node 0 has stopped", last)

    # What it held is there again when it is started again.
    machine.start(*SMALL)
    assert machine.json("topic", "list") == [{"name": "kept", "partitions": 1}]


def test_bench_brings_its_own_cluster(machine):
    report = json.loads(machine.run("bench", "txn", "--local", "--producers", 10, "--seconds", 1, "--json"))
    assert report["transactions"] > 0
    assert report["aborted"] == 0
    assert os.listdir(machine.temporary) == []


@pytest.fixture
def checkout(machine):
    """A directory with another package of our name, as a checkout has it: without those that lie beside it there."""
    folder = os.path.join(machine.folder, "checkout")
    os.makedirs(f"{folder}/eagleray")
    with open(f"{folder}/eagleray/__init__.py", "w") as file:
        # An editable install would find them all the same.
        file.write("raise ModuleNotFoundError(\"No module named 'eagleray.actors'\")\n")
    return folder


def test_cluster_starts_in_a_directory_with_another_eagleray_and_says_what_it_does(machine, checkout):
    # As the installed command does it, Python looks for modules where they are installed.
    command = [sys.executable, "-P", "-m", "eagleray", "start", "--data-dir", machine.data_dir]
    options = ("--listen", "127.0.0.1:0", *map(str, SMALL), *FEWER, "--detach")
    ended = subprocess.run(
        [*command, *options], cwd=checkout, env=machine.environment, capture_output=True, text=True, check=False
    )
    try:
        assert ended.stdout.startswith("bootstrap.servers=127.0.0.1:"), ended.stderr
        assert ended.stderr.splitlines()[:3] == [
            "starting: Ray on this machine",
            "starting: 1 node",
            "starting: nodes joined: 1 of 1",
        ]
    finally:
        machine.run("stop")


START = """
import os, ray, sys
ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", _node_ip_address="127.0.0.1",
         _temp_dir=os.environ["TMPDIR"] + "/ray", num_cpus=1, object_store_memory=100 * 1024 * 1024)
import eagleray
try:
    eagleray.start(sys.argv[1], layout="colocated", leaders=1)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


def test_program_whose_workers_have_another_eagleray_is_told_so(machine, checkout):
    machine.environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", START, machine.data_dir],
        cwd=checkout,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.startswith("CannotStart node 0 cannot start: ModuleNotFoundError: No module named"), ended
    assert f"Ray's workers look for it in {checkout}, which has another eagleray" in ended.stdout
    assert ended.stdout.count("\n") == 1
