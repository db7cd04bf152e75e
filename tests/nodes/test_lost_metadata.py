"""What a node finds wrong with its metadata costs no acknowledged record: the files of partitions stay on the disk."""

import asyncio
import shutil
from unittest import mock

import pytest

from eagleray.actors.process import node
from eagleray.actors.storage import stray_logs
from eagleray.testing import EVERYTHING, LocalCluster
from tests.nodes.conftest import QUICK
from tests.nodes.test_replication import ORDERS, create, state_of, until, values, write

RECORDS = 1000
ONE_NODE = {0: ("controller", *EVERYTHING)}


def node_on(data_dir):
    return LocalCluster(data_dir, ONE_NODE, QUICK)


@pytest.fixture(autouse=True)
def frequent_sweeps():
    """Have nodes look at what is unknown on their disks all the time."""
    with mock.patch.object(stray_logs, "INTERVAL_MS", 20), mock.patch.object(node, "_FOLLOW_MS", 30):
        yield


@pytest.fixture
def data_dir(tmp_path, runner):
    """What a node has left that has acknowledged a thousand records and was stopped in good order."""

    async def fill():
        async with node_on(tmp_path) as nodes:
            cluster = nodes.connect()
            await cluster.admin.create_topic("orders", partitions=1)
            await write(cluster, *(b"%d" % number for number in range(RECORDS)))
            await cluster.close()

    runner.run(fill())
    return tmp_path


def segments(data_dir):
    """The bytes of the topic's records, wherever they are in the directory."""
    return b"".join(path.read_bytes() for path in sorted(data_dir.glob("logs/orders-0*/*.log")))


async def run_for_a_while(data_dir):
    """Start a node and let it do what it does, however that ends."""
    nodes = node_on(data_dir)
    try:
        async with asyncio.timeout(5):
            await nodes.__aenter__()
            await asyncio.sleep(0.5)
    except Exception:  # noqa: BLE001 - what becomes of the node is for another test
        pass
    finally:
        for node_id in [*nodes.nodes]:
            nodes.kill_node(node_id)
        nodes.peers.close()


async def test_flipped_bit_of_partition_metadata_removes_no_record(data_dir):
    before, path = segments(data_dir), data_dir / "logs/orders-0/partition.metadata"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    await run_for_a_while(data_dir)
    assert segments(data_dir) == before


async def test_flipped_bit_of_partition_metadata_of_the_only_replica_is_repaired(data_dir):
    path = data_dir / "logs/orders-0/partition.metadata"
    sound = path.read_bytes()
    content = bytearray(sound)
    content[-3] ^= 1
    path.write_bytes(content)
    async with node_on(data_dir) as nodes:
        cluster = nodes.connect()
        assert len(await values(cluster)) == RECORDS
        await cluster.close()
    assert path.read_bytes() == sound


async def test_metadata_log_cut_in_half_removes_no_record(data_dir):
    before = segments(data_dir)
    (path,) = data_dir.glob("logs/__cluster_metadata-0/*.log")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    await run_for_a_while(data_dir)
    assert segments(data_dir) == before


async def test_empty_metadata_log_removes_no_record(data_dir):
    before = segments(data_dir)
    shutil.rmtree(data_dir / "logs/__cluster_metadata-0")
    await run_for_a_while(data_dir)
    assert segments(data_dir) == before


async def test_replica_whose_partition_metadata_is_damaged_is_left_alone_while_others_take_over(
    nodes, cluster, tmp_path
):
    await create(cluster, nodes, **{"min.insync.replicas": "2"})
    await write(cluster, b"before")
    leader = state_of(nodes).leader
    await nodes.stop_node(leader)
    directory = tmp_path / f"machine-{leader // 100}/logs/orders-0"
    path = directory / "partition.metadata"
    path.write_bytes(path.read_bytes().replace(b"topic_id", b"topic-id"))
    checkpoint = directory / "partition-checkpoint"
    # Otherwise its second copy would repair the first.
    checkpoint.write_bytes(checkpoint.read_bytes().replace(b'"topic_id"', b'"topic-id"'))
    before = {each.name: each.read_bytes() for each in directory.iterdir()}
    await nodes.start_node(leader)
    await until(lambda: nodes.nodes[leader].is_registered, "it is back")
    await until(lambda: leader not in state_of_any(nodes).isr, "it is in sync no more")
    await until(lambda: nodes.nodes[leader].describe()["stray_logs"] == ["orders-0"], "it says so")
    await write(cluster, b"after")
    assert await values(cluster) == [b"before", b"after"]
    assert {each.name: each.read_bytes() for each in directory.iterdir()} == before
    directory.rename(directory.with_name("looked-at"))
    await until(lambda: leader in state_of_any(nodes).isr, "it was copied anew")
    assert nodes.nodes[leader].describe()["stray_logs"] == ["looked-at"]


def state_of_any(nodes):
    return nodes.image.find(ORDERS)
