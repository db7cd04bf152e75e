"""`eagleray logs`: what the nodes on this machine have said."""

import os
import signal
import subprocess

import pytest

from eagleray import cluster_records as records
from eagleray.cluster_records import ClusterRecord
from tests.support.cli_cluster import eagleray, fail, succeed

FIRST = "2026-11-18T09:00:00.000Z INFO node-0 eagleray.actors.process.node: first\n"
SECOND = "2026-11-18T09:00:01.000Z WARNING node-30 eagleray.actors.process.node: second\n"
THIRD = "2026-11-18T09:00:02.000Z INFO node-0 eagleray.actors.process.node: third\n"


@pytest.fixture
def data_dir(tmp_path):
    """The data directory of a cluster that has stopped."""
    folder = tmp_path / "broker-logs"
    folder.mkdir()
    (folder / "node-0.log").write_text(FIRST + THIRD)
    (folder / "node-30.log").write_text(SECOND)
    return tmp_path


def test_lines_of_all_nodes_are_in_order_of_time(data_dir):
    assert succeed("logs", "--data-dir", data_dir).stdout == FIRST + SECOND + THIRD


@pytest.mark.parametrize("node", ["0", "node-0"])
def test_one_node_can_be_named(data_dir, node):
    assert succeed("logs", node, "--data-dir", data_dir).stdout == FIRST + THIRD


def test_tail_is_the_end_of_all(data_dir):
    assert succeed("logs", "--tail", 2, "--data-dir", data_dir).stdout == SECOND + THIRD


def test_running_cluster_is_found_by_its_name(data_dir):
    keeper = {"keeper_pid": os.getpid(), "keeper_started": records.started_at(os.getpid())}
    records.save(ClusterRecord("mine", "a:1", str(data_dir), "b:2", **keeper))
    assert succeed("logs", "--name", "mine").stdout == FIRST + SECOND + THIRD


def test_only_running_cluster_is_found_without_its_name(data_dir):
    records.save(ClusterRecord("mine", "a:1", str(data_dir), "b:2"))
    assert succeed("logs").stdout == FIRST + SECOND + THIRD


@pytest.mark.parametrize(("options", "names"), [((), ("mine", "yours")), (("--name", "mine"), ("mine", "mine"))])
def test_several_clusters_that_may_be_meant_are_listed_with_their_directories(options, names):
    for place, name in enumerate(names):
        records.save(ClusterRecord(name, f"a:{place}", f"/data/{place}", "b:2"))
    line = fail("logs", *options)
    assert f"may be meant: {names[0]} (/data/0), {names[1]} (/data/1); say where" in line


def test_stopped_cluster_wants_its_directory_named():
    assert "say where its data are with --data-dir DIR" in fail("logs")


def test_directory_without_logs_says_what_was_expected(tmp_path):
    assert "has no logs of nodes (broker-logs/node-*.log)" in fail("logs", "--data-dir", tmp_path)


def test_unknown_node_says_which_there_are(data_dir):
    assert "there are those of node-0, node-30." in fail("logs", "7", "--data-dir", data_dir)


def test_several_machines_say_whose_logs_these_are(data_dir):
    (data_dir / "machines").write_text("10.0.0.1\n10.0.0.2\n")
    result = succeed("logs", "--data-dir", data_dir)
    assert result.stdout == FIRST + SECOND + THIRD
    assert "the logs of this machine only; the cluster is on 10.0.0.1, 10.0.0.2" in result.stderr


def test_following_shows_what_is_new_until_interrupted(data_dir):
    later = "2026-11-18T09:00:03.000Z INFO node-31 eagleray.actors.process.node: later\n"
    command = eagleray("logs", "--follow", "--tail", 1, "--data-dir", data_dir)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == THIRD
        # That of a node that was added meanwhile.
        (data_dir / "broker-logs" / "node-31.log").write_text(later)
        assert process.stdout.readline() == later
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
        assert process.stderr.read() == ""
