"""A cluster whose disk is full, read-only or stuck: clients wait, the broker makes room, and all goes on by itself."""

import asyncio
import errno
import os

import pytest

from eagleray.actors.common.storage_config import StorageConfig
from eagleray.actors.storage.disk import LocalDisk
from eagleray.actors.storage.disk_guard import DiskGuard
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.partitions.events import Produce
from eagleray.broker.runtime.disk_watch import DiskState
from tests.support.batches import NOW_MS, data_batch
from tests.support.client_helpers import a_transactional, settled
from tests.support.cluster_in_memory import client_of, entered
from tests.support.faults import Fault, Operation, Outcome
from tests.support.hand_context import HandContext
from tests.support.hanging_loop import HangingLoop
from tests.support.node_disk import NodeDisk
from tests.support.replicas import INCARNATIONS, PARTITION, metadata

MIB = 1024**2


@pytest.fixture
def world(virtual_time, runner):
    with runner.entered(entered()) as world:
        yield world


@pytest.fixture
def runtime(world, runner):
    with runner.entered(client_of(world)) as runtime:
        yield runtime


def states(world):
    return {node.disk_guard.watch.state for node in world.nodes.values()}


def reserves(world):
    return [path for path in world.disk.tree() if path.endswith(".reserve")]


async def transaction(producer, value):
    producer.begin()
    await producer.send("orders", value, partition=0)
    await producer.commit()


async def until_full(world, free_bytes=MIB):
    world.disk.free_bytes = free_bytes
    await world.until(lambda: states(world) == {DiskState.FULL})


async def test_producers_wait_while_the_disk_is_full(world, runtime):
    producer = await a_transactional(runtime)
    await transaction(producer, b"before")
    assert len(reserves(world)) == len(world.nodes)
    await until_full(world)
    assert reserves(world) == []
    sizes = {path: data for path, data in world.disk.tree().items() if "/orders-" in path and path.endswith(".log")}
    waiting = [asyncio.create_task(transaction(producer, b"after")), asyncio.create_task(a_transactional(runtime, "2"))]
    await asyncio.sleep(5)
    assert not any(task.done() for task in waiting)
    assert world.asked(Produce), "the producers try again and again"
    assert sizes.items() <= world.disk.tree().items(), "nothing of a client was written"
    world.disk.free_bytes = 1024 * MIB
    _, second = await asyncio.gather(*waiting)
    await settled()
    assert world.committed("orders") == [b"before", b"after"]
    assert len(reserves(world)) == len(world.nodes)
    await asyncio.gather(producer.close(), second.close())


async def test_read_only_disk_goes_on_by_itself_when_it_can_be_written_again(world, runtime):
    producer = await a_transactional(runtime)
    world.disk.is_read_only = True
    await world.until(lambda: states(world) == {DiskState.READ_ONLY})
    waiting = asyncio.create_task(transaction(producer, b"after"))
    await asyncio.sleep(2)
    assert not waiting.done()
    world.disk.is_read_only = False
    await waiting
    await settled()
    assert world.committed("orders") == [b"after"]
    await producer.close()


async def test_coordinator_whose_log_cannot_be_begun_answers_and_tries_again(world, runtime):
    """Its first write makes the log, in the middle of a decision."""
    full = Fault(
        Outcome.FAIL,
        on=Operation.CREATE,
        path_ending="partition.metadata.tmp",
        error_number=errno.ENOSPC,
        is_lasting=True,
    )
    with world.disk.injected(full):
        waiting = asyncio.create_task(a_transactional(runtime))
        await asyncio.sleep(3)
        assert not waiting.done()
    producer = await waiting
    await transaction(producer, b"after")
    await settled()
    assert world.committed("orders") == [b"after"]
    await producer.close()


async def test_metadata_are_taken_even_where_the_disk_has_no_room_to_note_how_new_they_are(world):
    full = Fault(
        Outcome.FAIL, on=Operation.WRITE, path_ending=".position.tmp", error_number=errno.ENOSPC, is_lasting=True
    )
    with world.disk.injected(full):
        await world.create_topics({"late": 1})
    await world.create_topics({"later": 1})


# The replicas of one node


def node_with_replica(disk=None):
    """A node that leads one partition, alone."""
    host = HandContext(1, metadata(PartitionImage(1, 1, (1,), (1,))), incarnation=INCARNATIONS[1], disk=disk)
    host.loop = HangingLoop()
    host.disk.make_directories("/data/nodes")
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    return host, replicas


def let_time_pass(host, replicas, passed_ms):
    host.time_ms += passed_ms
    replicas.chores.on_due()


def test_flush_that_hangs_holds_clients_back_until_it_returns():
    host, replicas = node_with_replica()
    replicas.logs[PARTITION].append([data_batch()], leader_epoch=1, now_ms=NOW_MS)
    let_time_pass(host, replicas, 10_000)
    assert len(host.loop.waiting) == 1
    let_time_pass(host, replicas, 29_000)
    assert host.disk_guard.watch.state is DiskState.OK
    let_time_pass(host, replicas, 10_000)
    assert host.disk_guard.watch.state is DiskState.STUCK
    host.loop.run_waiting()
    let_time_pass(host, replicas, 10_000)
    assert host.disk_guard.watch.state is DiskState.OK
    assert host.incarnations == 0


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOSPC])
def test_log_that_its_disk_does_not_let_open_is_offline_and_tried_again_ever_more_rarely(number):
    disk = NodeDisk()
    failing = Fault(Outcome.FAIL, on=Operation.CREATE, error_number=number, is_lasting=True)
    with disk.injected(failing):
        host, replicas = node_with_replica(disk)
        assert os.strerror(number) in replicas.offline.reason(PARTITION)
        waits_ms = []
        for _ in range(6):
            waits_ms.append(replicas.offline.next_due_ms - host.time_ms)
            let_time_pass(host, replicas, waits_ms[-1])
            host.loop.run_waiting()
    assert waits_ms == [1000, 2000, 4000, 5000, 5000, 5000]
    let_time_pass(host, replicas, 5000)
    host.loop.run_waiting()
    assert PARTITION not in replicas.offline
    assert replicas.logs[PARTITION].is_online


def test_retention_is_hurried_once_when_a_disk_runs_short_of_room(monkeypatch):
    host, replicas = node_with_replica()
    hurries = []
    monkeypatch.setattr(replicas.logs, "hurry_retention", lambda: hurries.append(host.disk_guard.watch.state))
    let_time_pass(host, replicas, 10_000)
    host.disk.free_bytes = 512 * MIB
    for _ in range(3):
        let_time_pass(host, replicas, 10_000)
    host.disk_guard.refused(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    for _ in range(3):
        let_time_pass(host, replicas, 100)
    assert hurries == [DiskState.LOW, DiskState.FULL]


# The guard of one node


def guard_on(disk, data_dir="/data", **settings):
    config = StorageConfig(**settings)
    return DiskGuard(disk, data_dir, 7, config, lambda: 0)


def test_reserve_is_found_again_by_the_next_process():
    disk = NodeDisk()
    disk.make_directories("/data/nodes")
    disk.free_bytes = 1024 * MIB
    guard_on(disk).look()
    assert disk.free_bytes == 1016 * MIB
    disk.free_bytes = 0
    disk.crash_process()
    guard = guard_on(disk)
    guard.look()
    assert disk.free_bytes == 8 * MIB, "a start on a full disk has the room of the reserve"
    assert guard.describe()["state"] == "full"
    assert guard.is_full


def test_disk_that_cannot_be_looked_at_changes_nothing():
    class Unknown(NodeDisk):
        def space(self, path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    guard = guard_on(Unknown())
    guard.look()
    assert (guard.watch.state, guard.watch.refusal) == (DiskState.OK, "")
    assert guard.next_due_ms > 0


def test_reserve_takes_room_on_a_real_disk(tmp_path):
    disk = LocalDisk()
    (tmp_path / "nodes").mkdir()
    guard_on(disk, str(tmp_path), storage_reserve_bytes=MIB).look()
    found = (tmp_path / "nodes" / "7.reserve").stat()
    assert found.st_size == MIB
    assert found.st_blocks * 512 >= MIB


def test_reserve_for_which_there_is_no_room_is_not_there(tmp_path):
    with pytest.raises(OSError, match=r"No space left|File too large"):
        LocalDisk().allocate(str(tmp_path / "reserve"), 2**62)
    assert not (tmp_path / "reserve").exists()
