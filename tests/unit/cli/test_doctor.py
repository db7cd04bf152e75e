"""`eagleray doctor` on a running cluster."""

import json

import pytest

from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.broker.identities import TopicPartition
from tests.support.cli_cluster import fail, invoke, succeed


@pytest.fixture(autouse=True)
def roomy_disk(monkeypatch):
    """The disk of this machine may be as full as it wants."""
    monkeypatch.setattr(DiskGuard, "describe", lambda _: disk(free_bytes=50))


def disk(free_bytes):
    return {"path": "/data", "state": "full", "total_bytes": 100, "free_bytes": free_bytes, "refusal": ""}


def finds_problems(*arguments):
    result = invoke("doctor", *arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    return result


def test_healthy_cluster_ends_with_0(topic):
    result = succeed("doctor")
    assert "2 nodes and" in result.stdout
    assert "nothing is wrong" in result.stdout
    assert json.loads(succeed("doctor", "--json").stdout)["healthy"]


@pytest.mark.usefixtures("cluster")
def test_full_disk_and_silent_node_are_found(monkeypatch):
    monkeypatch.setattr(DiskGuard, "describe", lambda _: disk(free_bytes=1))
    assert "is nearly full" in finds_problems().stdout

    async def half(_):
        return [{"node_id": 0, "roles": ["controller"], "registered": False}]

    monkeypatch.setattr("tests.support.cli_cluster.SessionWithoutRay.nodes", half)
    found = json.loads(finds_problems("--json").stdout)["found"]
    assert any("node 0 does not answer" in each["what"] for each in found)
    assert any("no majority" in each["what"] for each in found)


def test_hanging_transaction_is_found_with_the_command_that_ends_it(cluster, topic):
    cluster.leave_hanging(TopicPartition(topic, 0), 4711)
    shown = finds_problems().stdout
    assert "no coordinator knows, and that never ends by itself," in shown
    assert f"committed records of {topic}-0" in shown
    (command,) = [line.split("`")[1] for line in shown.splitlines() if "To end it" in line and topic in line]
    succeed(*command.removeprefix("eagleray ").split())
    assert "nothing is wrong" in succeed("doctor").stdout


def test_without_a_cluster_it_says_how_to_start_one():
    assert "eagleray start" in fail("doctor", "--name", "absent")
