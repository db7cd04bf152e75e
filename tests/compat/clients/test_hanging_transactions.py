"""kafka-transactions ends a transaction that hangs, and no other."""

import pytest

from eagleray.broker.identities import TopicPartition
from tests.compat.conftest import give_up
from tests.compat.kafka_tools.command_line import CommandLine, ToolFailedError
from tests.compat.kafka_tools.jars import ToolsUnavailableError
from tests.support.cli_cluster import NodesOnThread

ORPHAN = 424_242
ORDERS = TopicPartition("orders", 0)
ABORT = ("transactions", "abort", "--topic", "orders", "--partition", "0", "--start-offset")


@pytest.fixture
def nodes(tmp_path):
    nodes = NodesOnThread(tmp_path)
    yield nodes
    nodes.close()


@pytest.fixture
def tools(nodes):
    try:
        return CommandLine.find(f"127.0.0.1:{nodes.nodes.nodes[0].port}")
    except ToolsUnavailableError as error:
        give_up(str(error))


def open_since(tools):
    described = tools.run("transactions", "describe-producers", "--topic", "orders", "--partition", "0")
    return [line.split()[-1] for line in described.splitlines()[1:]]


def test_what_no_coordinator_knows_is_aborted(nodes, tools):
    with nodes.blocking_clients() as cluster:
        cluster.admin.create_topic("orders", partitions=1)
        nodes.leave_hanging(ORDERS, ORPHAN)
        with cluster.producer(transactional_id="billing") as producer:
            producer.begin()
            producer.send("orders", b"kept").result()
            assert open_since(tools) == ["0", "1"]
            with pytest.raises(ToolFailedError, match="authorization"):
                tools.run(*ABORT, "1")
            tools.run(*ABORT, "0")
            assert open_since(tools) == ["None", "1"]
            producer.commit()
        assert open_since(tools) == ["None", "None"]
