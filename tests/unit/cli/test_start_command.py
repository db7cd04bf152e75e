"""`eagleray start`: what it refuses before anything is started."""

import fcntl
import os
import socket
import sys

import pytest

from eagleray import cluster_records as records
from eagleray.cli import background, hosting_commands
from eagleray.cli.errors import UsageError
from eagleray.cli.hosting_commands import StartRequest, listen_at
from eagleray.cli.options import Connection
from eagleray.cluster_records import ClusterRecord
from tests.support.cli_cluster import fail, invoke, succeed

FREE = ("--listen", "127.0.0.1:0")


def test_data_directory_has_to_be_named():
    assert invoke("start").exit_code == 2


def test_port_in_use_says_so(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = fail("start", "--data-dir", tmp_path, "--listen", f"127.0.0.1:{port}")
    assert f"cannot listen at 127.0.0.1:{port} (Address already in use)" in line


@pytest.mark.parametrize("listen", ["9092", ":9092", "localhost", "localhost:http", "localhost:70000"])
def test_bad_address_to_listen_at_says_what_was_expected(tmp_path, listen):
    assert "expected HOST:PORT" in fail("start", "--data-dir", tmp_path, "--listen", listen)


def test_host_to_listen_at_that_can_have_no_such_name_says_so(tmp_path):
    line = fail("start", "--data-dir", tmp_path, "--listen", "ü..b:1")
    assert "cannot listen at ü..b:1 (encoding of hostname failed)" in line


def test_advertised_address_is_passed_on_to_the_background():
    request = StartRequest(
        connection=Connection("mine"), listen="0.0.0.0:9092", data_dir="/data", advertise="broker.example.com"
    )
    command = background.command_of(request)
    assert command[command.index("--advertise") + 1] == "broker.example.com"


def test_ports_of_nodes_are_passed_on_to_the_background():
    request = StartRequest(connection=Connection("mine"), listen="h:1", data_dir="/data", node_ports="9093-9192")
    command = background.command_of(request)
    assert command[command.index("--node-ports") + 1] == "9093-9192"


@pytest.mark.parametrize("ports", ["9093", "9192-9093", "x-y"])
def test_bad_ports_of_nodes_say_what_was_expected(tmp_path, ports):
    line = fail("start", "--data-dir", tmp_path, *FREE, "--node-ports", ports)
    assert line.startswith("--node-ports: ")
    assert "expected LOW-HIGH" in line


def test_directory_that_cannot_be_made_says_why(tmp_path):
    (tmp_path / "file").touch()
    line = fail("start", "--data-dir", tmp_path / "file" / "data", *FREE)
    assert f"cannot make the data directory {tmp_path}/file/data (Not a directory)" in line


def test_directory_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    # A user who may write everywhere would not notice.
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "is not writable" in fail("start", "--data-dir", tmp_path, *FREE)


def test_directory_of_a_running_cluster_is_refused(tmp_path):
    (tmp_path / "nodes").mkdir()
    with open(tmp_path / "nodes" / "0.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "is in use by a running cluster" in fail("start", "--data-dir", tmp_path, *FREE)
    assert background.locked_by(str(tmp_path)) is None


def test_ray_that_is_not_there_advises_how_to_start_and_leaves_nothing(tmp_path):
    line = fail("start", "--data-dir", tmp_path / "new" / "data", *FREE, "--address", "127.0.0.1:1")
    assert "no Ray cluster answers at 127.0.0.1:1" in line
    assert line.endswith("Start Ray there, or leave the address out: then the cluster gets a Ray of its own.")
    assert list(tmp_path.iterdir()) == []


def test_directory_that_was_there_stays_where_a_start_fails(tmp_path):
    fail("start", "--data-dir", tmp_path, *FREE, "--address", "127.0.0.1:1")
    assert tmp_path.exists()


@pytest.mark.parametrize("command", [("start", "--data-dir", "data"), ("status",)])
@pytest.mark.parametrize("variable", ["EAGLERAY_ADDRESS", "RAY_ADDRESS"])
def test_bad_address_in_the_environment_is_called_by_its_variable(tmp_path, monkeypatch, variable, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "nonsense")
    assert fail(*command, *(FREE if command[0] == "start" else ())).startswith(f"{variable} is 'nonsense'; expected")


def test_name_of_a_running_cluster_is_refused(tmp_path):
    keeper = {"keeper_pid": os.getpid(), "keeper_started": records.started_at(os.getpid())}
    records.save(ClusterRecord("mine", "a:1", "/elsewhere", "b:2", **keeper))
    line = fail("start", "--name", "mine", "--data-dir", tmp_path, *FREE)
    assert "a cluster named 'mine' runs already" in line
    assert "eagleray stop --name mine" in line


def test_cluster_that_runs_is_left_alone_where_that_was_asked_for(tmp_path):
    keeper = {"keeper_pid": os.getpid(), "keeper_started": records.started_at(os.getpid())}
    records.save(ClusterRecord("mine", "a:1", "/elsewhere", "b:2", **keeper))
    result = succeed("start", "--unless-running", "--name", "mine", "--data-dir", tmp_path, "--listen", "b:2")
    assert result.stdout == "bootstrap.servers=b:2\n"


def test_wrong_argument_is_said_also_where_nothing_runs_yet(tmp_path):
    assert "expected HOST:PORT" in fail("start", "--unless-running", "--data-dir", tmp_path, "--listen", "9092")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("num.partition=3", "did you mean num.partitions?"), ("num.partitions=x", "whole number"), ("x", "KEY=VALUE")],
)
def test_bad_setting_says_what_to_write(tmp_path, setting, expected):
    assert expected in fail("start", "--data-dir", tmp_path, *FREE, "--config", setting)


def test_unknown_layout_is_a_usage_error(tmp_path):
    assert invoke("start", "--data-dir", tmp_path, "--layout", "round").exit_code == 2


@pytest.mark.parametrize("machines", ["0", "-1", "some", "1.5", ""])
def test_number_of_machines_is_checked(tmp_path, machines):
    refusal = fail("start", "--data-dir", tmp_path, *FREE, "--machines", machines)
    assert f"--machines is {machines!r}; expected a number from 1 on, or all." in refusal


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ("127.0.0.1", 9092)),
        ({"machines": 1}, ("127.0.0.1", 9092)),
        ({"machines": 3}, (None, 9092)),
        ({"machines": "all"}, (None, 9092)),
        ({"machines": 3, "listen": "0.0.0.0:1"}, ("0.0.0.0", 1)),
    ],
)
def test_each_of_several_machines_listens_at_its_own_address(tmp_path, asked, expected):
    assert listen_at(StartRequest(connection=Connection("mine"), data_dir=str(tmp_path), **asked)) == expected


def test_data_directory_says_that_there_are_several_machines(tmp_path):
    (tmp_path / "machines").write_text("10.0.0.1\n10.0.0.2\n")
    assert listen_at(StartRequest(connection=Connection("mine"), data_dir=str(tmp_path))) == (None, 9092)


def test_directory_of_several_machines_is_in_use_where_one_is(tmp_path):
    nodes = tmp_path / "machine-1" / "nodes"
    nodes.mkdir(parents=True)
    (nodes / "100.lock").touch()
    assert background.locked_by(str(tmp_path)) is None
    with open(nodes / "100.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert background.locked_by(str(tmp_path)) == str(nodes / "100.lock")


# In the background


def request(tmp_path, **settings):
    return StartRequest(connection=Connection("mine"), listen="127.0.0.1:0", data_dir=str(tmp_path), **settings)


def test_background_does_what_was_asked_for(tmp_path):
    command = background.command_of(
        request(tmp_path, machines=3, leaders=3, coordinators=1, layout="colocated", settings={"flush": "commit"})
    )
    # -P: the current directory may have a folder of our name.
    assert command[:5] == [sys.executable, "-P", "-m", "eagleray", "start"]
    for option, value in {
        "--name": "mine",
        "--data-dir": str(tmp_path),
        "--listen": "127.0.0.1:0",
        "--layout": "colocated",
        "--machines": "3",
        "--leaders": "3",
        "--coordinators": "1",
        "--config": "flush=commit",
    }.items():
        assert command[command.index(option) + 1] == value


def test_background_is_ready_when_the_keeper_says_so(tmp_path):
    command = ["sh", "-c", "echo chatter >&2; echo bootstrap.servers=1.2.3.4:5"]
    assert background.start(request(tmp_path), command) == "1.2.3.4:5"


def test_background_passes_on_what_the_keeper_is_doing(tmp_path):
    (tmp_path / background.LOG_FILE).write_text("starting: of an earlier start\n")
    script = "echo starting: Ray >&2; echo chatter >&2; echo starting: 8 nodes >&2; echo bootstrap.servers=1.2.3.4:5"
    said = []
    assert background.start(request(tmp_path), ["sh", "-c", script], said.append) == "1.2.3.4:5"
    assert said == ["Ray", "8 nodes"]


@pytest.mark.parametrize(
    ("cores", "options", "is_used", "hints"),
    [
        (2, (), False, True),
        (7, (), False, True),
        (8, (), False, False),
        (2, ("--layout", "separate"), False, False),
        (2, ("--layout", "colocated"), False, False),
        (2, (), True, False),
    ],
)
def test_small_machine_is_told_of_the_smaller_layout(tmp_path, monkeypatch, cores, options, is_used, hints):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(hosting_commands.background, "start", lambda *_: "1.2.3.4:5")
    if is_used:
        (tmp_path / "nodes").mkdir()
    said = succeed("start", "--data-dir", tmp_path, *FREE, "--detach", *options).stderr
    assert (f"this machine has {cores} cores: `--layout colocated` halves start-up and memory\n" in said) is hints


@pytest.mark.parametrize(
    ("said", "expected"), [("error: no room", "no room"), ("Traceback", "the cluster did not start; {log} says why.")]
)
def test_background_that_fails_says_why(tmp_path, said, expected):
    log = tmp_path / background.LOG_FILE
    log.write_text("error: of an earlier start\n")
    with pytest.raises(UsageError) as raised:
        background.start(request(tmp_path), ["sh", "-c", f"echo '{said}' >&2; exit 1"])
    assert str(raised.value) == expected.format(log=log)


@pytest.mark.parametrize("text", ["", "  "])
def test_empty_data_directory_is_refused(text):
    assert "--data-dir is empty" in fail("start", "--data-dir", text)
