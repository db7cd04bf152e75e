"""The replicas of a node: what becomes of a log that fails, or cannot be opened."""

from types import SimpleNamespace

import pytest

from eagleray.actors.replicas import Replicas
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.topics import PartitionImage
from tests.simulation.cluster.ports import MachineDisk
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.replicas import LIVES, PARTITION, metadata
from tests.support.timers import HandTimer

FIRST = f"/data/logs/{PARTITION}/00000000000000000000"


class Host:
    """A node that has registered, and keeps one partition."""

    def __init__(self, disk, state):
        self.disk = disk
        self.spec = SimpleNamespace(node_id=2, data_dir="/data", settings={"segment.bytes": "1024"}, machine="two")
        self.image = metadata(state)
        self.incarnation = LIVES[2]
        self.is_registered = True
        self.lives_given_up = 0
        self.controller = SimpleNamespace(ask=lambda *question: None, ask_within=lambda *question: None)
        self.timer = HandTimer()
        self.time_ms = NOW_MS

    def now_ms(self):
        return self.time_ms

    steady_ms = now_ms

    def begin_life(self, **what_is_told):
        self.lives_given_up += 1


def damaged_disk():
    """A disk with a log that it has damaged, and with it what would lead past the damage."""
    disk = MachineDisk()
    host = Host(disk, PartitionImage(1, 1, (1, 2, 3), (1, 2, 3)))
    replicas = Replicas(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    log = replicas.logs[PARTITION]
    for _ in range(30):
        log.append([data_batch(value=b"v" * 100)], leader_epoch=1, now_ms=NOW_MS)
    replicas.close()
    disk.rot(f"{FIRST}.log", 100, 1)
    disk.remove(f"{FIRST}.index")
    return disk


@pytest.mark.parametrize("isr", [(1, 2, 3), (1, 3)], ids=["in sync", "out of sync"])
def test_a_log_that_is_too_damaged_to_be_opened_is_copied_anew_once_nobody_counts_on_it(isr):
    host = Host(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), isr))
    replicas = Replicas(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    assert PARTITION not in replicas.logs
    assert host.lives_given_up == 1
    previous, host.image = host.image, metadata(PartitionImage(1, 3, (1, 2, 3), (1, 3)))
    replicas.begin_life()
    replicas.metadata_changed(previous)
    assert replicas.logs[PARTITION].log_end_offset == 0


def test_the_only_replica_in_sync_is_not_thrown_away():
    host = Host(damaged_disk(), PartitionImage(2, 2, (1, 2, 3), (2,)))
    replicas = Replicas(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    host.time_ms += 50
    replicas.chores.on_due()
    assert PARTITION not in replicas.logs
    assert replicas.logs.has_files(PARTITION)
    assert not host.lives_given_up


def test_a_life_is_given_up_when_looking_after_a_log_has_taken_it_offline():
    """Nobody may write to it for long, and others count on it meanwhile."""
    disk = MachineDisk()
    host = Host(disk, PartitionImage(1, 1, (1, 2, 3), (1, 2, 3)))
    replicas = Replicas(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    log = replicas.logs[PARTITION]
    log.config = replicas.logs.config_of({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    for number in range(30):
        log.append([data_batch(value=b"v" * 100, keys=[b"%d" % (number % 3)])], leader_epoch=1, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".log")):
        for _ in range(5):
            host.time_ms += 50
            replicas.chores.on_due()
    assert not log.is_online
    assert host.lives_given_up
