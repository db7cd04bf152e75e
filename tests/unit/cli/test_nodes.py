"""`eagleray node`, and the commands of `eagleray topic` about replicas, on three machines."""

import json
import time

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.cli import session
from eagleray.client.admin.admin import AsyncAdmin
from eagleray.testing import THREE_MACHINES
from tests.support.cli_cluster import SETTINGS, NodesOnThread, fail, invoke, succeed

QUICK = {
    "transaction.state.log.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
    "broker.heartbeat.interval.ms": "50",
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = NodesOnThread(tmp_path_factory.mktemp("data"), THREE_MACHINES, SETTINGS | QUICK)
    yield nodes
    nodes.close()


@pytest.fixture(autouse=True)
def _connected(nodes, monkeypatch):
    monkeypatch.setattr(session, "connected", nodes.connected)


def listed():
    return {node["node_id"]: node for node in json.loads(succeed("node", "list", "--json").stdout)}


def partition_of(topic, number=0):
    return json.loads(succeed("topic", "describe", topic, "--json").stdout)["partitions"][number]


def until(is_so):
    deadline_s = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def create(topic, factor):
    succeed("topic", "create", topic, "--partitions", 2, "--replication-factor", factor)


def test_nodes_are_listed_with_what_they_have_to_do():
    create("listed", 3)
    found = listed()
    assert [*found] == [0, 100, 200]
    assert [node["machine"] for node in found.values()] == ["machine-0", "machine-1", "machine-2"]
    assert all(node["registered"] and not node["draining"] and node["keeps"] >= 2 for node in found.values())
    # Two partitions of each of the two internal topics, and two of this one.
    assert sum(node["leads"] for node in found.values()) >= 6
    assert "controller" in found[0]["roles"]
    shown = succeed("node", "list").stdout
    assert all(text in shown for text in ("machine-2", "coordinator", "leads", "keeps"))
    succeed("topic", "delete", "listed", "--yes")


@pytest.mark.parametrize(("node", "named"), [("100", "node 100"), ("machine-2", "machine machine-2")])
def test_a_node_is_drained_and_has_partitions_again(node, named):
    create("drained", 2)
    succeed("produce", "drained", stdin="a\nb\n")
    said = succeed("node", "drain", node, "--wait", "--timeout", 20).stderr
    assert f"on the way from {named} to others" in said
    assert f"nothing is left on {named}" in said
    (drained,) = [each for each in listed().values() if each["draining"]]
    assert (drained["keeps"], drained["leads"]) == (0, 0)
    assert f"{named} may have partitions again" in succeed("node", "undrain", node).stderr
    assert not any(each["draining"] for each in listed().values())
    assert sorted(succeed("consume", "drained", "--timeout", 1).stdout.split()) == ["a", "b"]
    succeed("topic", "delete", "drained", "--yes")


def test_machine_that_cannot_be_drained_is_told_in_one_line():
    create("everywhere", 3)
    assert "no machine can take everywhere-0 from node 200" in fail("node", "drain", "200")
    assert "there is no node or machine 'nowhere'" in fail("node", "drain", "nowhere")
    assert "there is no node or machine '7'" in fail("node", "undrain", "7")
    succeed("topic", "delete", "everywhere", "--yes")


def test_waiting_for_a_node_to_be_empty_has_an_end(monkeypatch):
    async def something(admin, node):
        return {TopicPartition("stuck", 0)}

    create("stuck", 1)
    node = partition_of("stuck")["leader"]
    monkeypatch.setattr(AsyncAdmin, "kept_by", something)
    result = invoke("node", "drain", node, "--wait", "--timeout", 0.1)
    assert result.exit_code == 1
    assert f"error: 1 partition is still on node {node} after 0.1 s; they go on moving." in result.stderr
    succeed("node", "undrain", node)
    succeed("topic", "delete", "stuck", "--yes")


def test_a_partition_is_moved_and_another_replica_leads():
    create("moved", 1)
    succeed("produce", "moved", "--partition", 0, stdin="a\n")
    assert (
        "is being moved to 200,0"
        in succeed("topic", "reassign", "moved", "--partition", 0, "--replicas", "200,0").stderr
    )
    until(lambda: partition_of("moved")["replicas"] == [200, 0] and not partition_of("moved")["removing"])
    succeed("topic", "reassign", "moved", "--partition", 0, "--replicas", "0,200")
    shown = succeed("topic", "describe", "moved").stdout
    assert "moving" in shown
    said = succeed("topic", "elect", "moved", "--partition", 0).stderr
    assert "got another leader" in said
    assert partition_of("moved")["leader"] == 0
    assert "0 partitions of moved got" in succeed("topic", "elect", "moved").stderr
    assert succeed("consume", "moved", "--timeout", 1).stdout.split() == ["a"]
    succeed("topic", "delete", "moved", "--yes")


def test_moves_that_cannot_be_are_one_line():
    create("wrong", 1)
    reassign = ("topic", "reassign", "wrong", "--partition", 0)
    assert "expected either --replicas" in fail(*reassign)
    assert "expected either --replicas" in fail(*reassign, "--replicas", "0", "--cancel")
    assert "--replicas is '0,x'" in fail(*reassign, "--replicas", "0,x")
    assert "node 999, which leads none" in fail(*reassign, "--replicas", "999")
    assert "expected each on a machine of its own" in fail(*reassign, "--replicas", "0,0")
    assert "has the partitions 0 to 1" in fail("topic", "reassign", "wrong", "--partition", 7, "--replicas", "0")
    assert "there is no topic 'absent'" in fail("topic", "elect", "absent")
    assert "moved back to where it was" in succeed(*reassign, "--cancel").stderr
    succeed("topic", "delete", "wrong", "--yes")


def test_an_unclean_election_is_asked_about():
    create("unclean", 1)
    refused = invoke("topic", "elect", "unclean", "--unclean", stdin="n\n")
    assert refused.exit_code == 1
    assert "lose these?" in refused.stderr
    assert "0 partitions of unclean" in succeed("topic", "elect", "unclean", "--unclean", "--yes").stderr
    succeed("topic", "delete", "unclean", "--yes")


WEEK_MS = 7 * 24 * 60 * 60 * 1000


@pytest.fixture
def jumped(nodes, monkeypatch):
    """The wall clock of node 100 is a week ahead, and its node has noticed."""
    node = nodes.nodes.nodes[100]
    with monkeypatch.context() as patch:
        patch.setattr(node, "_now_us", lambda: time.time_ns() // 1000 + WEEK_MS * 1000)
        nodes.look_at_clock(100)
        yield node
    nodes.look_at_clock(100)
    succeed("node", "accept-clock", 100)


def clock_of(node_id):
    (found,) = [each for each in json.loads(succeed("status", "--json").stdout)["nodes"] if each["node_id"] == node_id]
    return found["clock"]


def test_clock_that_has_jumped_is_named_with_the_command_that_accepts_it(jumped):
    clock = clock_of(100)
    assert not clock["may_expire"]
    assert clock["ahead_ms"] == pytest.approx(WEEK_MS, abs=60_000)
    assert "nothing expires by the time of day on node 100: its wall clock has jumped by" in succeed("status").stderr
    found = json.loads(invoke("doctor", "--json").stdout)["found"]
    (trouble,) = [each for each in found if "has jumped" in each["what"]]
    assert "the wall clock of node 100 on machine machine-1 has jumped: it is 7 d 0 h ahead of" in trouble["what"]
    (command,) = [part for part in trouble["help"].split("`") if part.startswith("eagleray node accept-clock")]

    said = succeed(*command.removeprefix("eagleray ").split()).stderr
    assert f"node 100 goes by its wall clock; its time is set by {WEEK_MS // 1000} s" in said
    assert jumped.clock.may_expire
    assert clock_of(100)["may_expire"]
    assert "has jumped" not in invoke("doctor").stdout
    assert "its time is as it was" in succeed("node", "accept-clock", "machine-1").stderr


def test_clock_of_a_node_that_there_is_none_of_is_refused():
    assert "there is no node or machine '7'" in fail("node", "accept-clock", 7)
