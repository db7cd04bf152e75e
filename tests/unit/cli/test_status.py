"""`eagleray status`, and what all commands have in common."""

import json
import os
import subprocess
import sys

import pytest

from eagleray.cli import records, session
from eagleray.cli.complaints import Complaint
from eagleray.cli.options import Connection
from eagleray.cli.records import ClusterRecord
from tests.support.cli_cluster import SessionWithoutRay, fail, invoke, run_process, succeed


def test_status_shows_every_node_and_the_topics(topic):
    found = json.loads(succeed("status", "--json").stdout)
    assert found["cluster"] == "default"
    assert found["layout"] == "colocated"
    assert [node["node_id"] for node in found["nodes"]] == [0, 1]
    assert all(node["pid"] == os.getpid() and node["registered"] and node["port"] for node in found["nodes"])
    assert {"name": topic, "partitions": 2} in found["topics"]
    shown = succeed("status").stdout
    assert topic in shown
    assert "controller" in shown


def test_node_that_does_not_answer_is_shown_without_its_address(cluster, monkeypatch):
    async def silent(_):
        return [{"node_id": 0, "roles": ["controller"], "registered": False}]

    monkeypatch.setattr("tests.support.cli_cluster.SessionWithoutRay.nodes", silent)
    (node,) = json.loads(succeed("status", "--json").stdout)["nodes"]
    assert (node["pid"], node["port"], node["registered"]) == (None, None, False)
    assert "no" in succeed("status").stdout


# No cluster


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("stop",),
        ("topic", "list"),
        ("topic", "create", "t"),
        ("produce", "t"),
        ("consume", "t"),
        ("txn", "list"),
        ("group", "list"),
        ("node", "list"),
        ("node", "add", "10.0.0.8"),
        ("node", "drain", "0"),
        ("topic", "elect", "t"),
        ("bench", "txn"),
    ],
)
def test_without_a_cluster_every_command_says_how_to_start_one(command):
    line = fail(*command, "--name", "absent")
    assert "no Eagleray cluster named 'absent'" in line
    assert "eagleray start" in line


def test_address_where_nobody_listens_says_so_at_once():
    assert "no Ray cluster answers at 127.0.0.1:1" in fail("status", "--address", "127.0.0.1:1")


@pytest.mark.parametrize(("address", "said"), [(None, "Ray did not start"), ("auto", "cannot join the Ray cluster")])
def test_ray_that_fails_is_one_line(monkeypatch, address, said):
    def fail_to_join(_):
        raise Exception("timed out")  # noqa: TRY002 - as Ray does it

    monkeypatch.setattr(session, "join_ray", fail_to_join)
    with pytest.raises(Complaint, match=f"{said}.*timed out"), session.joined_ray(address):
        pass


def test_address_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert "127.0.0.1:1" in fail("status")
    monkeypatch.setenv("EAGLERAY_ADDRESS", "127.0.0.1:2")
    assert "127.0.0.1:2" in fail("status")


def test_bad_name_says_what_was_expected():
    assert "--name is '../x'" in fail("status", "--name", "../x")


# Records of clusters


def test_cluster_is_found_by_its_name():
    records.save(ClusterRecord("mine", "10.0.0.1:6379", "/data", "10.0.0.1:9092"))
    assert records.address_of(Connection("mine")) == "10.0.0.1:6379"
    assert records.address_of(Connection("mine", "other:1")) == "other:1"


def test_record_is_forgotten_with_its_keeper(home):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    records.save(ClusterRecord("mine", "a:1", "/data", "b:2", keeper_pid=ended.pid, keeper_started=1))
    assert records.load("mine") is None
    assert list((home / "clusters").iterdir()) == []


def test_another_process_with_the_pid_of_a_keeper_is_left_alone():
    record = ClusterRecord("mine", "a:1", "/data", "b:2", keeper_pid=os.getpid(), keeper_started=1)
    records.save(record)
    assert records.load("mine") is None
    # Were this the keeper, the test would end here.
    assert records.end_keeper(record, 1)


def test_keeper_is_asked_to_end_and_waited_for():
    program = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True); signal.sigwait([15])"
    keeper = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    keeper.stdout.readline()
    record = ClusterRecord("mine", "a:1", "/data", "b:2", "", keeper.pid, records.started_at(keeper.pid))
    records.save(record)
    assert records.load("mine") == record
    succeed("stop", "--name", "mine")
    assert keeper.wait() == 0
    keeper.stdout.close()
    assert records.load("mine") is None


@pytest.mark.usefixtures("cluster")
def test_cluster_that_nobody_keeps_is_stopped_by_its_session():
    records.save(ClusterRecord("alone", "a:1", "/data", "b:2"))
    succeed("stop", "--name", "alone")
    assert SessionWithoutRay.stopped == ["alone"]
    assert records.load("alone") is None


# Errors, help and versions


def break_connecting(monkeypatch, error):
    def connected(_):
        raise error

    monkeypatch.setattr(session, "connected", connected)


def test_error_of_the_system_is_one_line(monkeypatch):
    break_connecting(monkeypatch, PermissionError(13, "Permission denied", "/somewhere"))
    assert fail("status") == "/somewhere: Permission denied"


def test_debug_shows_the_whole_error(monkeypatch):
    break_connecting(monkeypatch, PermissionError(13, "Permission denied", "/somewhere"))
    assert isinstance(invoke("--debug", "status").exception, PermissionError)


def test_mistake_of_ours_is_not_hidden(monkeypatch):
    break_connecting(monkeypatch, KeyError("ours"))
    assert isinstance(invoke("status").exception, KeyError)


def test_version_is_that_of_the_package():
    assert succeed("--version").stdout == "eagleray 0.1.0\n"


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("start",),
        ("stop",),
        ("status",),
        ("produce",),
        ("consume",),
        ("topic",),
        ("topic", "create"),
        ("topic", "alter"),
        ("topic", "reassign"),
        ("topic", "elect"),
        ("node", "list"),
        ("node", "add"),
        ("node", "drain"),
        ("node", "undrain"),
        ("txn",),
        ("txn", "find-hanging"),
        ("txn", "abort-hanging"),
        ("group", "describe"),
        ("bench", "txn"),
    ],
)
def test_help_shows_how_it_is_used(command):
    shown = succeed(*command, "--help").stdout
    assert "Usage: eagleray" in shown or "Usage: root" in shown
    if len(command) != 1 or command[0] not in ("topic", "txn"):
        assert "$ eagleray" in shown or "| eagleray" in shown


def test_unknown_command_is_a_usage_error():
    assert invoke("dance").exit_code == 2


def test_module_runs_as_a_program_and_says_so_on_the_right_stream(home):
    environment = {**os.environ, "EAGLERAY_HOME": str(home)}
    ended = run_process("topic", "list", "--json", environment=environment)
    assert ended.returncode == 1
    assert ended.stdout == b""
    assert ended.stderr.startswith(b"error: no Eagleray cluster")
    assert ended.stderr.count(b"\n") == 1


def test_what_others_write_to_the_standard_output_goes_elsewhere():
    program = (
        "import os, sys; from eagleray.cli.app import keep_stdout; keep_stdout();"
        "os.write(1, b'chatter'); os.system('echo more chatter'); print('ours')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"ours\n"
    assert b"more chatter" in ended.stderr
