"""A node whose data directory is another cluster's, or has lost its metadata log, says so and changes nothing."""

import shutil
from pathlib import Path

import pytest

from eagleray.actors.lanes.peers import Unanswered
from eagleray.actors.roles.metadata_quorum import METADATA_PARTITION, MetadataLost
from eagleray.broker.log import LogDamaged
from eagleray.broker.metadata.directory_identity import DirectoryRefused
from eagleray.testing import COLOCATED, EVERYTHING, THREE_MACHINES, LocalCluster
from tests.nodes.conftest import QUICK
from tests.nodes.test_replication import ORDERS, until, values, write

ONE_NODE = {0: ("controller", *EVERYTHING)}


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.log")}


async def test_directory_of_another_cluster_is_refused_and_left_as_it_is(tmp_path):
    for name in ("ours", "theirs"):
        async with LocalCluster(tmp_path / name, THREE_MACHINES, QUICK) as nodes:
            cluster = nodes.connect()
            await cluster.admin.create_topic("orders", partitions=1, replication_factor=3)
            await write(cluster, name.encode())
            await cluster.close()
    shutil.rmtree(tmp_path / "ours/machine-1")
    shutil.copytree(tmp_path / "theirs/machine-1", tmp_path / "ours/machine-1")
    before = files_of(tmp_path / "ours/machine-1")
    nodes = LocalCluster(tmp_path / "ours", THREE_MACHINES, QUICK)
    with pytest.raises(
        DirectoryRefused, match=r"node 100 belongs to cluster .*; expected cluster .*Nothing was changed"
    ):
        async with nodes:
            pass
    orders = {path: content for path, content in before.items() if ORDERS.topic in str(path)}
    assert orders
    assert orders.items() <= files_of(tmp_path / "ours/machine-1").items()


async def start_and_stop(data_dir):
    async with LocalCluster(data_dir, ONE_NODE, QUICK):
        pass


@pytest.mark.parametrize("is_older", [False, True], ids=["with an identity", "of an earlier version"])
async def test_only_voter_whose_metadata_log_is_gone_does_not_rule(tmp_path, is_older):
    await start_and_stop(tmp_path)
    shutil.rmtree(tmp_path / "logs/__cluster_metadata-0")
    if is_older:
        (tmp_path / "nodes/0.identity").unlink()
    with pytest.raises(MetadataLost, match=r"is not there; expected the one that it had.*Restore that folder"):
        await start_and_stop(tmp_path)
    assert not (tmp_path / "logs/__cluster_metadata-0").exists()


async def test_only_voter_whose_metadata_log_is_empty_does_not_rule(tmp_path):
    await start_and_stop(tmp_path)
    for path in (tmp_path / "logs/__cluster_metadata-0").iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    with pytest.raises(MetadataLost, match="is empty; expected the one that it had"):
        await start_and_stop(tmp_path)


async def test_only_voter_of_an_empty_directory_that_was_not_formatted_does_not_rule(tmp_path):
    nodes = LocalCluster(tmp_path, ONE_NODE, QUICK)
    nodes.peers = nodes._make_peers()
    with pytest.raises(MetadataLost, match="has not just formatted this data directory"):
        await nodes.start_node(0)
    nodes.peers.close()


async def test_voter_with_an_empty_disk_gets_the_log_of_the_others(tmp_path):
    async with LocalCluster(tmp_path, dict.fromkeys(THREE_MACHINES, ONE_NODE[0]), QUICK) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1, replication_factor=3)
        await write(cluster, b"before")
        nodes.kill_node(0)
        shutil.rmtree(tmp_path / "machine-0")
        await nodes.start_node(0)
        await nodes.until_registered()
        log = nodes.nodes[0]._roles[0]._quorum._log
        await until(lambda: log.high_watermark > 0, "it has what was committed")
        assert await values(cluster) == [b"before"]
        await cluster.close()


# Metadata that go backwards


async def fill(nodes, *topics):
    cluster = nodes.connect()
    for topic in topics:
        await cluster.admin.create_topic(topic, partitions=1)
    await write(cluster, b"acknowledged")
    await cluster.close()


def cut(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


async def test_only_voter_whose_metadata_log_was_cut_does_not_rule(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE, QUICK) as nodes:
        await fill(nodes, "orders")
    before = files_of(tmp_path / "logs/orders-0")
    (path,) = (tmp_path / "logs/__cluster_metadata-0").glob("*.log")
    cut(path)
    with pytest.raises(MetadataLost):
        await start_and_stop(tmp_path)
    assert files_of(tmp_path / "logs/orders-0") == before


async def test_only_voter_with_an_old_copy_of_its_metadata_stops_ruling_where_its_nodes_know_more(tmp_path, caplog):
    """The copy is whole in itself: only what the nodes remember says that it is old."""
    data_dir, copy = tmp_path / "data", tmp_path / "copy"
    async with LocalCluster(data_dir, COLOCATED, QUICK):
        pass
    shutil.copytree(data_dir / "logs/__cluster_metadata-0", copy)
    async with LocalCluster(data_dir, COLOCATED, QUICK) as nodes:
        await fill(nodes, "orders")
    before = files_of(data_dir / "logs/orders-0")
    shutil.rmtree(data_dir / "logs/__cluster_metadata-0")
    shutil.copytree(copy, data_dir / "logs/__cluster_metadata-0")
    nodes = LocalCluster(data_dir, COLOCATED, QUICK)
    nodes.peers = nodes._make_peers()
    for node_id in COLOCATED:
        await nodes.start_node(node_id)
    controller = nodes.nodes[0]._roles[0]
    await until(lambda: controller._has_stopped, "it rules no more")
    assert not any(node.is_registered for node in nodes.nodes.values())
    assert "is the controller no more: node" in caplog.text
    assert "knows the metadata up to version" in caplog.text
    await nodes._stop_all()
    assert files_of(data_dir / "logs/orders-0") == before


async def test_node_takes_no_older_metadata_and_says_so(tmp_path, caplog):
    async with LocalCluster(tmp_path, COLOCATED, QUICK) as nodes:
        old = nodes.nodes[1].image
        await fill(nodes, "orders")
        await until(lambda: "orders" in nodes.nodes[1].image.topics, "it knows the topic")
        node = nodes.nodes[1]
        with pytest.raises(Unanswered, match="older than what this node knows"):
            node._check_not_older(old)
        node._check_not_older(node.image)
        assert "They are not taken" in caplog.text


def damage(path):
    path.write_bytes(path.read_bytes().replace(b'"committed": ', b'"committed": 1'))


async def test_only_voter_whose_election_state_is_damaged_does_not_rule(tmp_path):
    await start_and_stop(tmp_path)
    paths = [tmp_path / "logs/__cluster_metadata-0" / name for name in ("quorum-state", "quorum-state.2")]
    for path in paths:
        damage(path)
    with pytest.raises(MetadataLost, match="quorum-state is damaged: its checksum does not match"):
        await start_and_stop(tmp_path)
    for path in paths:
        path.unlink()
    await start_and_stop(tmp_path)


@pytest.mark.parametrize("name", ["quorum-state", "quorum-state.2"])
async def test_only_voter_goes_on_where_one_generation_of_its_election_state_is_damaged(tmp_path, name):
    await start_and_stop(tmp_path)
    damage(tmp_path / "logs/__cluster_metadata-0" / name)
    await start_and_stop(tmp_path)


# Repair


def flip_bit(folder):
    (path,) = folder.glob("*.log")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path.read_bytes()


async def test_voter_whose_metadata_log_is_damaged_is_repaired_from_the_others(tmp_path, caplog):
    async with LocalCluster(tmp_path, dict.fromkeys(THREE_MACHINES, ONE_NODE[0]), QUICK) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic("orders", partitions=1, replication_factor=3)
        await write(cluster, b"before")
        await nodes.stop_node(100)
        damaged = flip_bit(tmp_path / "machine-1/logs/__cluster_metadata-0")
        await nodes.start_node(100)
        assert "the metadata log of node 100 is damaged, and is put aside" in caplog.text
        await nodes.until_registered()
        quorum = nodes.nodes[100]._roles[0]._quorum
        await until(lambda: quorum._member._election.is_whole, "it is whole again")
        assert quorum.committed_offset > 0
        (kept,) = (tmp_path / "machine-1/damaged/__cluster_metadata-0").glob("*.log")
        assert kept.read_bytes() == damaged
        nodes.kill_node(0)
        await write(cluster, b"after")
        assert await values(cluster) == [b"before", b"after"]
        await cluster.close()


def log_of(node):
    return node._roles[0]._quorum._log


def rot_beneath(node):
    """Have the disk change a byte of the metadata log that a node has open."""
    flip_bit(Path(node.spec.data_dir) / "logs/__cluster_metadata-0")
    log_of(node).tail.clear()
    node._roles[0]._logs._scrubs.set(METADATA_PARTITION, 0)
    node._roles[0].set_timer()


async def test_damage_of_the_only_metadata_log_is_found_while_it_is_served_and_shown(tmp_path, caplog):
    async with LocalCluster(tmp_path, ONE_NODE, QUICK) as nodes:
        rot_beneath(nodes.nodes[0])
        await until(lambda: nodes.nodes[0].describe()["damaged"], "it is shown")
        assert list(nodes.nodes[0].describe()["damaged"]) == ["__cluster_metadata-0"]
        assert "there is no other voter to repair it from" in caplog.text
        await fill(nodes, "orders")


async def test_voter_that_finds_its_metadata_log_damaged_is_repaired_by_its_next_start(tmp_path):
    async def run_until_it_fails():
        async with LocalCluster(tmp_path, dict.fromkeys(THREE_MACHINES, ONE_NODE[0]), QUICK) as nodes:
            rot_beneath(nodes.nodes[100])
            await until(lambda: nodes.failures, "its process ends")

    with pytest.raises(LogDamaged, match="is not what was written"):
        await run_until_it_fails()
    async with LocalCluster(tmp_path, dict.fromkeys(THREE_MACHINES, ONE_NODE[0]), QUICK) as nodes:
        assert (tmp_path / "machine-1/damaged/__cluster_metadata-0").exists()
        await fill(nodes, "orders")


async def test_cut_of_the_metadata_log_is_counted(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE, QUICK) as nodes:
        await fill(nodes, "orders")
        nodes.kill_node(0)
        with (next((tmp_path / "logs/__cluster_metadata-0").glob("*.log"))).open("ab") as file:
            file.write(b"a write that was torn")
        await nodes.start_node(0)
        await nodes.until_registered()
        assert nodes.nodes[0].describe()["cuts"] == {"cut": 1}
