"""A transaction with a send that failed cannot commit, whichever producer sends, on real nodes in this process."""

import asyncio
from itertools import count, takewhile

import pytest

from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.cli import session
from eagleray.client.errors import EaglerayError
from tests.support.cli_cluster import NodesOnThread, invoke
from tests.support.send_scenarios import BLOCKING, ON_LOOP, SCENARIOS, SILENT, Scenario

_numbers = count()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No command sees clusters of this machine."""
    monkeypatch.setenv("EAGLERAY_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = NodesOnThread(tmp_path_factory.mktemp("nodes"))
    take = PartitionLeaders._on_produce

    def take_unless_silent(leaders, event, effects):
        if event.partition.topic != SILENT:
            take(leaders, event, effects)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PartitionLeaders, "_on_produce", take_unless_silent)
        yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def cluster(nodes):
    with nodes.blocking_clients() as cluster:
        cluster.admin.create_topic(SILENT, partitions=1)
        yield cluster


@pytest.fixture
def topic(cluster, scenario):
    name = f"topic-{next(_numbers)}"
    cluster.admin.create_topic(name, partitions=1, configs=scenario.topic_configs)
    return name


def committed(cluster, topic):
    """What a reader of committed records sees of a topic, up to a last record that is behind all others."""
    with cluster.producer(transactional_id=f"last-{topic}") as producer, producer.transaction():
        producer.send(topic, b"the end")
    with cluster.consumer(topic, isolation="read_committed") as consumer:
        return tuple(takewhile(lambda value: value != b"the end", (record.value for record in consumer)))


def raised_by(act, *arguments):
    try:
        act(*arguments)
    except Exception as error:  # noqa: BLE001 - the table says which it has to be
        return error
    return None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("flavour", BLOCKING)
def test_blocking_producer_commits_all_or_raises_the_first_error(cluster, topic, flavour, scenario):
    error = raised_by(BLOCKING[flavour], cluster, f"{flavour}-{topic}", topic, scenario)
    assert_as_told(error, scenario)
    assert committed(cluster, topic) == scenario.committed


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("flavour", ON_LOOP)
async def test_asyncio_producer_commits_all_or_raises_the_first_error(nodes, cluster, topic, flavour, scenario):
    error = None
    try:
        async with nodes.connected(Named) as connected:
            await ON_LOOP[flavour](connected.cluster, f"{flavour}-{topic}", topic, scenario)
    except Exception as raised:  # noqa: BLE001 - the table says which it has to be
        error = raised
    assert_as_told(error, scenario)
    assert await asyncio.to_thread(committed, cluster, topic) == scenario.committed


@pytest.mark.parametrize(
    "scenario", [each for each in SCENARIOS if each.command_line is not None], ids=lambda scenario: scenario.name
)
def test_command_line_commits_all_or_says_why_not(nodes, cluster, topic, scenario, monkeypatch):
    monkeypatch.setattr(session, "connected", nodes.connected)
    lines = [send.value if isinstance(send.value, bytes) else send.value.encode() for send in scenario.sends]
    arguments = ("produce", topic, "--transactional-id", f"command-{topic}", *scenario.command_line)
    result = invoke(*arguments, stdin=b"\n".join(lines))
    assert (result.exit_code == 0) == (scenario.raised is None), result.output
    assert committed(cluster, topic) == scenario.committed


class Named:
    name = "default"


def assert_as_told(error: Exception | None, scenario: Scenario) -> None:
    assert isinstance(error, scenario.raised or type(None)), repr(error)
    if isinstance(error, EaglerayError):
        assert "await" not in str(error)
