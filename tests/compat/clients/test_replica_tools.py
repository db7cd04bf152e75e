"""Kafka's own command-line tools for replicas, against three machines in this process."""

import json

import pytest

from eagleray.testing import THREE_MACHINES
from tests.compat.conftest import give_up
from tests.compat.kafka_tools.command_line import CommandLine, ToolFailedError
from tests.compat.kafka_tools.jars import ToolsUnavailableError
from tests.support.cli_cluster import SETTINGS, NodesOnThread
from tests.support.clusters import until


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = NodesOnThread(tmp_path_factory.mktemp("data"), THREE_MACHINES, SETTINGS)
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def tools(nodes):
    try:
        return CommandLine.find(f"127.0.0.1:{nodes.nodes.nodes[200].port}")
    except ToolsUnavailableError as error:
        give_up(str(error))


@pytest.fixture
def moves(tmp_path):
    """Writes moves as the tool wants them."""

    def write(**targets):
        partitions = [{"topic": topic, "partition": 0, "replicas": nodes} for topic, nodes in targets.items()]
        path = tmp_path / "moves.json"
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return ("--reassignment-json-file", str(path))

    return write


def test_partitions_are_moved_and_then_led_by_their_first_replicas(tools, moves):
    tools.run("topics", "--create", "--topic", "moved", "--replica-assignment", "0:100")
    assert "Replicas: 0,100" in tools.run("topics", "--describe", "--topic", "moved")
    wanted = moves(moved=[200, 0])
    assert "Successfully started" in tools.run("reassign-partitions", "--execute", *wanted)
    until(lambda: "is completed" in tools.run("reassign-partitions", "--verify", *wanted), "it is moved")
    assert "No partition reassignments" in tools.run("reassign-partitions", "--list")
    assert "Leader: 0\tReplicas: 200,0" in tools.run("topics", "--describe", "--topic", "moved")
    election = ("leader-election", "--topic", "moved", "--partition", "0", "--election-type")
    assert "Successfully completed leader election (PREFERRED)" in tools.run(*election, "preferred")
    assert "Leader: 200\tReplicas: 200,0" in tools.run("topics", "--describe", "--topic", "moved")
    assert "Valid replica already elected" in tools.run(*election, "unclean")


def test_moves_are_proposed_over_machines_and_refused_where_they_cannot_be(tools, moves, tmp_path):
    tools.run("topics", "--create", "--topic", "proposed", "--partitions", "1", "--replication-factor", "2")
    which = tmp_path / "topics.json"
    which.write_text(json.dumps({"version": 1, "topics": [{"topic": "proposed"}]}))
    arguments = ("--generate", "--topics-to-move-json-file", str(which), "--broker-list", "0,100")
    *_, proposed = tools.run("reassign-partitions", *arguments).splitlines()
    (partition,) = json.loads(proposed)["partitions"]
    assert sorted(partition["replicas"]) == [0, 100]
    with pytest.raises(ToolFailedError, match="uplicate"):
        tools.run("reassign-partitions", "--execute", *moves(proposed=[100, 100]))
    assert "None of the specified" in tools.run("reassign-partitions", "--cancel", *moves(proposed=[100]))


def test_every_machine_tells_how_much_its_replicas_take(tools):
    tools.run("topics", "--create", "--topic", "kept", "--replica-assignment", "0:100")
    tools.run("console-producer", "--topic", "kept", stdin="one\n")
    *_, described = tools.run("log-dirs", "--describe", "--topic-list", "kept").splitlines()
    sizes = {
        broker["broker"]: [each["size"] for each in broker["logDirs"][0]["partitions"]]
        for broker in json.loads(described)["brokers"]
    }
    (size,) = sizes[0]
    assert size > 0
    assert sizes == {0: [size], 100: [size], 200: []}
