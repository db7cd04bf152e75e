"""`eagleray status`, and what all commands have in common."""

import json
import os
import subprocess
import sys

import pytest

from eagleray import cluster_records as records
from eagleray.actors.cluster.machines import QUORUM
from eagleray.cli import session
from eagleray.cli.errors import UsageError, line_for
from eagleray.cli.streams import ClosedStdout, StdoutClosed
from eagleray.client import errors
from eagleray.cluster_records import ClusterRecord
from eagleray.location import COMMAND
from eagleray.protocol.errors import ErrorCode
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


@pytest.mark.usefixtures("cluster")
def test_status_and_node_list_agree_on_machines_that_drain_takes():
    status = {node["node_id"]: node["machine"] for node in json.loads(succeed("status", "--json").stdout)["nodes"]}
    listed = {node["node_id"]: node["machine"] for node in json.loads(succeed("node", "list", "--json").stdout)}
    assert status == listed == {0: "127.0.0.1", 1: "127.0.0.1"}
    assert "127.0.0.1" in succeed("node", "list").stdout
    line = fail("node", "drain", "127.0.0.1")
    assert line.startswith("machine 127.0.0.1 is the only one")
    # It cannot have another, as `one_more` says.
    assert f"--machines {QUORUM}` and another data directory" in line
    assert "node add" not in line
    assert "machine 127.0.0.1 may have partitions again" in succeed("node", "undrain", "127.0.0.1").stderr


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


def test_address_without_a_listener_says_so_at_once():
    line = fail("status", "--address", "127.0.0.1:1")
    assert "no Ray cluster answers at 127.0.0.1:1" in line
    assert line.endswith(COMMAND.advice)


@pytest.mark.parametrize(("address", "said"), [(None, "Ray did not start"), ("auto", "cannot join the Ray cluster")])
def test_ray_that_fails_is_one_line(monkeypatch, address, said):
    def fail_to_join(_):
        raise Exception("timed out")  # noqa: TRY002 - as Ray does it

    monkeypatch.setattr(session, "join_ray", fail_to_join)
    with pytest.raises(UsageError, match=f"{said}.*timed out"), session.joined_ray(address):
        pass


def test_address_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    assert "127.0.0.1:1" in fail("status")
    monkeypatch.setenv("EAGLERAY_ADDRESS", "127.0.0.1:2")
    assert "127.0.0.1:2" in fail("status")


def test_bad_name_says_what_was_expected():
    assert "--name is '../x'" in fail("status", "--name", "../x")


# Records of clusters


@pytest.mark.parametrize("command", [("status",), ("stop",), ("topic", "list")])
def test_command_that_may_mean_two_clusters_lists_them(command):
    keeper = {"keeper_pid": os.getpid(), "keeper_started": records.started_at(os.getpid())}
    records.save(ClusterRecord("a", "127.0.0.1:1", "/data", "b:2", **keeper))
    records.save(ClusterRecord("b", "127.0.0.1:2", "/data", "b:2", **keeper))
    line = fail(*command)
    assert "a (--name a --address 127.0.0.1:1), b (--name b --address 127.0.0.1:2)" in line
    assert "eagleray.start()" not in line


def test_only_cluster_is_stopped_without_its_name():
    program = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True); signal.sigwait([15])"
    keeper = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    keeper.stdout.readline()
    records.save(ClusterRecord("mine", "a:1", "/data", "b:2", "", keeper.pid, records.started_at(keeper.pid)))
    assert "stopped cluster mine" in succeed("stop").stderr
    assert keeper.wait() == 0
    keeper.stdout.close()


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
def test_cluster_without_a_keeper_is_stopped_by_its_session(monkeypatch):
    monkeypatch.setattr(SessionWithoutRay, "ray_address", "a:1")
    monkeypatch.setattr(SessionWithoutRay, "stopped", [])
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
        ("doctor",),
        ("storage", "verify"),
        ("storage", "dump"),
        ("storage", "repair"),
        ("storage", "strays", "adopt"),
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
    assert ended.stderr.startswith(b"error: there is no Eagleray cluster")
    assert ended.stderr.count(b"\n") == 1


def test_output_of_other_libraries_goes_elsewhere():
    program = (
        "import os, sys; from eagleray.cli.app import keep_stdout; keep_stdout();"
        "os.write(1, b'chatter'); os.system('echo more chatter'); print('ours')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"ours\n"
    assert b"more chatter" in ended.stderr


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["--version", "--help", "topic list"])
def test_closed_streams_are_no_traceback(closed, command, home):
    environment = {**os.environ, "EAGLERAY_HOME": str(home)}
    line = f"exec {sys.executable} -m eagleray {command} {closed}"
    ended = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, check=False)
    is_printed = command.startswith("--") and ">&-" not in closed.split()
    assert ended.returncode == (0 if is_printed else 1), ended.stderr
    assert b"Traceback" not in ended.stderr
    if command.startswith("--") and not is_printed and "2>&-" not in closed:
        assert ended.stderr.startswith(b"error: the standard output is closed")


def test_closed_output_refuses_text_and_bytes():
    for stream in (ClosedStdout(), ClosedStdout().buffer):
        with pytest.raises(StdoutClosed) as refused:
            stream.write("anything")
        assert "the standard output is closed" in line_for(refused.value)


# Errors


def all_errors(kind=errors.EaglerayError):
    return {kind}.union(*(all_errors(each) for each in kind.__subclasses__()))


@pytest.mark.parametrize("kind", sorted(all_errors(), key=lambda kind: kind.__name__))
def test_error_on_the_command_line_advises_commands(kind):
    line = line_for(kind("something was wrong.", ErrorCode.UNKNOWN_SERVER_ERROR))
    assert line.startswith("something was wrong. [UNKNOWN_SERVER_ERROR]")
    for python in ("admin.", "await", "init", "auto.offset.reset", "this client", "new one", "()"):
        assert python not in line


def test_message_that_names_a_command_gets_no_other_advice():
    assert line_for(errors.TopicNotFound("`eagleray topic list` shows them.")) == "`eagleray topic list` shows them."


def test_status_shows_what_is_offline_what_was_cut_and_what_failed(cluster, monkeypatch):
    async def damaged(_):
        reason = "segment 0 is damaged; accept the loss of everything from offset 7 on"
        return [
            {
                "node_id": 0,
                "roles": ["leader"],
                "registered": True,
                "offline": {"orders-0": reason},
                "cuts": {"cut": 2, "cut unflushed": 1},
                "damaged": {"bills-1": "the batch after offset 9 is not what was written"},
                "failed_requests": {"EndTransaction": 3},
                "uncertain_ends": 2,
            }
        ]

    monkeypatch.setattr("tests.support.cli_cluster.SessionWithoutRay.nodes", damaged)
    (node,) = json.loads(succeed("status", "--json").stdout)["nodes"]
    assert sum(node["cuts"].values()) == 3
    assert "from offset 7 on" in node["offline"]["orders-0"]
    shown = succeed("status")
    assert "orders-0 on node 0: segment 0 is damaged" in shown.stdout + shown.stderr
    assert "damaged, and still served: bills-1 on node 0: the batch after" in shown.stdout + shown.stderr
    assert "node 0 has failed at requests" in shown.stdout + shown.stderr
    assert "node 0 may have lost the unflushed ends of 2 logs" in shown.stdout + shown.stderr
    assert "EndTransaction (3)" in shown.stdout + shown.stderr
