"""Repairing makes again what can be made, removes nothing, and leaves a loss to a person."""

import asyncio
import subprocess
import sys

import pytest

from eagleray.broker.log import Surroundings
from eagleray.offline.layout import DirectoryInUse, lock_partition
from eagleray.offline.metadata import KnownMetadata
from eagleray.offline.repairing import accept, plan_repair, rebuild
from eagleray.offline.verifying import verify
from eagleray.testing import COLOCATED, LocalCluster
from tests.support.data_directories import SETTINGS, flip, state_of

ORDERS = "logs/orders-0"
DERIVED_FILES = [
    f"{22:020d}.index",
    f"{22:020d}.timeindex",
    f"{22:020d}.txnindex",
    f"{22:020d}.checksums",
    f"{22:020d}.snapshot",
    f"{66:020d}.timeindex",
    f"{66:020d}.txnindex",
    f"{88:020d}.snapshot",
    "leader-epoch-checkpoint",
    "segment-bookmark",
]


def plan_of(path):
    return plan_repair(str(path), "orders-0")


def log_bytes(path):
    return b"".join(each.read_bytes() for each in sorted((path / ORDERS).glob("*.log")))


@pytest.mark.parametrize("name", DERIVED_FILES)
def test_derived_file_is_made_again_as_it_was_and_the_damaged_one_is_kept(data_dir, name):
    path = data_dir / ORDERS / name
    whole, records = path.read_bytes(), log_bytes(data_dir)
    flip(path)
    damaged = path.read_bytes()
    before = state_of(data_dir)
    plan = plan_of(data_dir)
    assert [finding.path for finding in plan.derived] == [str(path)]
    assert (plan.loss, plan.others) == (None, [])
    assert state_of(data_dir) == before

    assert rebuild(plan) == [f"{name}.damaged"]
    assert (data_dir / ORDERS / f"{name}.damaged").read_bytes() == damaged
    assert not plan_of(data_dir).derived
    assert verify(str(data_dir), "orders-0")[0].is_whole
    assert log_bytes(data_dir) == records
    if name != "segment-bookmark":  # It is there for the next process alone, which writes another.
        assert path.read_bytes() == whole


def test_checkpoint_is_not_changed_by_a_repair(data_dir):
    """Whether the log was closed in good order decides what a node reports as lost."""
    checkpoints = [data_dir / ORDERS / name for name in ("partition-checkpoint", "partition-checkpoint.2")]
    before = [path.read_bytes() for path in checkpoints]
    flip(data_dir / ORDERS / f"{22:020d}.index")
    rebuild(plan_of(data_dir))
    assert [path.read_bytes() for path in checkpoints] == before


def test_second_repair_keeps_what_the_first_has_kept(data_dir):
    path = data_dir / ORDERS / f"{22:020d}.index"
    for expected in (f"{path.name}.damaged", f"{path.name}.damaged.1"):
        flip(path)
        assert rebuild(plan_of(data_dir)) == [expected]


def test_whole_partition_needs_no_repair(data_dir, killed_dir):
    for path in (data_dir, killed_dir):
        plan = plan_of(path)
        assert (plan.derived, plan.loss, plan.others) == ([], None, [])


def damage_the_last_segment(path):
    """Rot what was whole, so that it cannot pass for a torn write: it lies before the high watermark."""
    flip(path / ORDERS / f"{66:020d}.log")
    (path / ORDERS / "segment-bookmark").unlink(missing_ok=True)


def test_loss_is_accepted_only_by_a_person_and_the_node_cuts_at_that_offset(killed_dir):
    damage_the_last_segment(killed_dir)
    before, records = state_of(killed_dir), log_bytes(killed_dir)
    plan = plan_of(killed_dir)
    assert 66 <= plan.loss.offset < 88
    assert plan.loss.end_offset == plan.loss.offset
    assert plan.loss.kept_files == (f"{plan.loss.offset:020d}.cut",)
    assert not plan.loss.is_accepted
    assert state_of(killed_dir) == before

    accept(plan)
    assert plan_of(killed_dir).loss is None
    assert log_bytes(killed_dir) == records

    async def opened():
        async with LocalCluster(killed_dir, COLOCATED, SETTINGS) as nodes:
            cluster = nodes.connect()
            async with cluster.producer(acks="all") as producer:
                await (await producer.send("orders", b"more", partition=0))
            described = [node.describe() for node in nodes.nodes.values()]
            await cluster.close()
            return described

    described = asyncio.run(opened())
    assert sum(sum(each["cuts"].values()) for each in described) == 1
    (kept,) = (killed_dir / ORDERS).glob("*.cut")
    assert kept.name == plan.loss.kept_files[0]
    assert records.endswith(kept.read_bytes())
    assert not (killed_dir / ORDERS / "accept-loss").exists()


def test_log_without_a_checkpoint_is_given_up_only_by_a_person(data_dir):
    for name in ("partition-checkpoint", "partition-checkpoint.2"):
        flip(data_dir / ORDERS / name)
    plan = plan_of(data_dir)
    assert (plan.loss.offset, plan.loss.end_offset, plan.loss.cut_bytes) == (None, 88, 0)
    accept(plan)
    assert (data_dir / ORDERS / "accept-loss").read_text() == "checkpoint\n"


def test_damage_that_other_replicas_can_mend_is_left_to_them(data_dir, monkeypatch):
    monkeypatch.setattr(KnownMetadata, "surroundings_of", lambda *_: Surroundings(others_in_sync=True))
    for name in ("partition-checkpoint", "partition-checkpoint.2"):
        flip(data_dir / ORDERS / name)
    assert any("start the node" in finding.help for finding in plan_of(data_dir).others)


LOCKER = """
import sys
from eagleray.actors.storage.disk import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def test_nothing_is_written_while_a_process_has_the_partition_open(data_dir):
    flip(data_dir / ORDERS / f"{22:020d}.index")
    plan = plan_of(data_dir)
    lock_path = str(data_dir / "locks/orders-0.lock")
    command = [sys.executable, "-c", LOCKER, lock_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        before = state_of(data_dir)
        with pytest.raises(DirectoryInUse, match="a running node has orders-0 open"):
            rebuild(plan)
        assert state_of(data_dir) == before
        process.stdin.close()
        process.wait(60)
    rebuild(plan)


def test_nothing_is_written_while_a_node_has_the_partition_open(data_dir):
    flip(data_dir / ORDERS / f"{22:020d}.index")
    plan = plan_of(data_dir)

    async def try_while_it_runs():
        async with LocalCluster(data_dir, COLOCATED, SETTINGS):
            assert verify(str(data_dir))[0].in_use
            with pytest.raises(DirectoryInUse):
                rebuild(plan)

    asyncio.run(try_while_it_runs())
    lock_partition(str(data_dir), "orders-0").release()
