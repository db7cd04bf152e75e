"""The metadata logs of all voters are lost, and made again from what the nodes have kept."""

import asyncio
import shutil

import pytest
from typer.testing import CliRunner

from eagleray.actors.roles.metadata_quorum import MetadataLost
from eagleray.actors.storage import restore_metadata
from eagleray.actors.storage.disk import LocalDisk
from eagleray.actors.storage.restore_plan import CannotRestore, plan_restore
from eagleray.broker.transactions.events import InitProducerId
from eagleray.cli.app import app
from eagleray.client.calls import Question, call_with_retries
from eagleray.client.retry_policy import RetryPolicy
from eagleray.testing import EVERYTHING, THREE_MACHINES, LocalCluster
from tests.nodes.conftest import QUICK
from tests.nodes.test_foreign_directories import ONE_NODE, files_of
from tests.nodes.test_replication import until, values, write

THREE_VOTERS = dict.fromkeys(THREE_MACHINES, ("controller", *EVERYTHING))
LOG = "logs/__cluster_metadata-0"


async def produce_in_transactions(cluster, *sent):
    async with cluster.producer(transactional_id="billing") as producer:
        for value in sent:
            async with producer.transaction():
                await producer.send("orders", value)


async def new_producer_id(cluster):
    runtime = cluster.runtime
    await runtime.view.refreshed()
    node_id = runtime.view.leaders[next(iter(runtime.view.partitions["__transaction_state"]))]
    question = Question(InitProducerId, None)
    reply = await call_with_retries(runtime, lambda: node_id, "an identity", question, retry_policy=RetryPolicy())
    return reply.producer.producer_id


async def until_values(cluster, *expected):
    async with asyncio.timeout(20):
        while await values(cluster) != [*expected]:
            await asyncio.sleep(0.05)


async def fill(data_dir, layout, replicas):
    async with LocalCluster(data_dir, layout, QUICK) as nodes:
        cluster = nodes.connect()
        await cluster.admin.create_topic(
            "orders", partitions=1, replication_factor=replicas, configs={"retention.ms": "123456789"}
        )
        await write(cluster, b"acknowledged")
        await produce_in_transactions(cluster, b"one", b"two")
        await until_values(cluster, b"acknowledged", b"one", b"two")
        ids = [await new_producer_id(cluster) for _ in range(3)]
        ids.append(max(node.image.next_producer_id for node in nodes.nodes.values()) - 1)
        await cluster.close()
        return ids


async def go_on(data_dir, layout, ids):
    async with LocalCluster(data_dir, layout, QUICK) as nodes:
        cluster = nodes.connect()
        await until_values(cluster, b"acknowledged", b"one", b"two")
        assert nodes.image.topics["orders"].configs == {"retention.ms": "123456789"}
        again = [await new_producer_id(cluster) for _ in range(3)]
        assert min(again) > max(ids)
        await produce_in_transactions(cluster, b"three")
        await write(cluster, b"four")
        await until_values(cluster, b"acknowledged", b"one", b"two", b"three", b"four")
        count = len(nodes.image.topics["orders"].partitions[0].replicas)
        await until(lambda: len(nodes.image.topics["orders"].partitions[0].isr) == count, "all are in sync")
        await cluster.close()


def restore(*directories, status=0):
    result = CliRunner().invoke(app, ["storage", "restore-metadata", *map(str, directories)])
    assert result.exit_code == status, result.output
    return result.output


def lose(path):
    shutil.rmtree(path / LOG)


def rot(path):
    (segment,) = (path / LOG).glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)


@pytest.mark.parametrize("damage", [lose, rot])
async def test_metadata_of_a_sole_voter_are_made_again(tmp_path, damage):
    ids = await fill(tmp_path, ONE_NODE, 1)
    before = files_of(tmp_path / "logs/orders-0")
    damage(tmp_path)
    with pytest.raises(MetadataLost, match="eagleray storage restore-metadata"):
        async with LocalCluster(tmp_path, ONE_NODE, QUICK):
            pass

    tree = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert "nothing was changed; --yes does it" in restore(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == tree

    said = restore(tmp_path, "--yes")
    assert "wrote the metadata log of node 0" in said
    assert files_of(tmp_path / "logs/orders-0") == before
    await go_on(tmp_path, ONE_NODE, ids)
    if damage is rot:
        assert (tmp_path / "damaged/__cluster_metadata-0.0").is_dir()


async def test_metadata_of_all_voters_are_made_again_from_those_that_are_left(tmp_path):
    ids = await fill(tmp_path, THREE_VOTERS, 3)
    for number in range(3):
        lose(tmp_path / f"machine-{number}")
    restore(tmp_path, "--yes")
    await go_on(tmp_path, THREE_VOTERS, ids)


async def test_cluster_whose_sole_voter_lost_its_disk_goes_on_with_what_the_others_have_kept(tmp_path):
    ids = await fill(tmp_path, THREE_MACHINES, 3)
    voter = tmp_path / "machine-0"
    shutil.rmtree(voter / "logs")
    for kept in (voter / "nodes").iterdir():
        if kept.name != "0.identity":
            kept.unlink()
    assert "0 in " in restore(tmp_path, "--yes")
    await go_on(tmp_path, THREE_MACHINES, ids)


async def test_voter_whose_directory_is_gone_gets_a_new_one(tmp_path):
    ids = await fill(tmp_path, THREE_MACHINES, 3)
    shutil.rmtree(tmp_path / "machine-0")
    assert "the voters are 0. Give one of their directories" in restore(tmp_path, "--yes", status=1)
    assert "node 100" in restore(tmp_path, "--voter", f"100={tmp_path}/machine-0", status=1)
    assert "expected NODE=DIR" in restore(tmp_path, "--voter", "new", status=1)
    restore(tmp_path, "--voter", f"0={tmp_path}/machine-0", "--yes")
    await go_on(tmp_path, THREE_MACHINES, ids)


async def test_voters_that_are_damaged_after_one_survived_take_the_restored_log(tmp_path):
    ids = await fill(tmp_path, THREE_VOTERS, 3)
    lose(tmp_path / "machine-0")
    rot(tmp_path / "machine-1")
    assert "voters" in restore(tmp_path, "--yes")
    await go_on(tmp_path, THREE_VOTERS, ids)


async def test_metadata_that_are_not_lost_are_not_made_again(tmp_path):
    await fill(tmp_path, ONE_NODE, 1)
    assert "nothing is lost, and nothing was changed" in restore(tmp_path, "--yes", status=1)


async def test_directory_in_use_is_left_alone(tmp_path):
    async with LocalCluster(tmp_path, ONE_NODE, QUICK):
        assert "node 0 runs on" in restore(tmp_path, "--yes", status=1)


async def test_restoring_that_is_killed_between_two_steps_can_be_done_again(tmp_path, monkeypatch):
    ids = await fill(tmp_path, THREE_VOTERS, 3)
    for number in range(3):
        lose(tmp_path / f"machine-{number}")

    class Killed(BaseException):
        pass

    class MortalDisk(LocalDisk):
        moves = 0

        def move_tree(self, source, target):
            MortalDisk.moves += 1
            if MortalDisk.moves == 2:
                raise Killed
            super().move_tree(source, target)

    disk = MortalDisk()
    data_dirs = restore_metadata.data_directories(disk, str(tmp_path))
    with pytest.raises(Killed):
        restore_metadata.carry_out(disk, plan_restore(disk, data_dirs), 1)
    restore(tmp_path, "--yes")
    await go_on(tmp_path, THREE_VOTERS, ids)


def test_directories_of_two_clusters_are_refused(tmp_path, runner):
    for name in ("ours", "theirs"):
        runner.run(fill(tmp_path / name, ONE_NODE, 1))
    disk = LocalDisk()
    (tmp_path / "theirs/nodes/0.identity").rename(tmp_path / "theirs/nodes/7.identity")
    with pytest.raises(CannotRestore, match="are both of node 0"):
        plan_restore(disk, [str(tmp_path / "ours"), str(tmp_path / "theirs")])
