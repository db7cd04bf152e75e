"""The replicas of a node: what becomes of a log that fails, or cannot be opened."""

import pytest
from msgspec.structs import replace

from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.topics import PartitionImage
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.hand_context import HandContext
from tests.support.node_disk import NodeDisk
from tests.support.replicas import INCARNATIONS, PARTITION, metadata

FIRST = f"/data/logs/{PARTITION}/00000000000000000000"


class CountingDisk(NodeDisk):
    """Counts how often a log is opened."""

    def __init__(self):
        super().__init__()
        self.openings = []

    def lock(self, path):
        self.openings.append(path)
        return super().lock(path)


def node_with(disk, state):
    """A node that has registered, and keeps one partition."""
    settings = {"segment.bytes": "1024"}
    return HandContext(2, metadata(state), incarnation=INCARNATIONS[2], disk=disk, machine="two", settings=settings)


def damaged_disk():
    """A disk with a log that it has damaged, and with it what would lead past the damage."""
    disk = CountingDisk()
    host = node_with(disk, PartitionImage(1, 1, (1, 2, 3), (1, 2, 3)))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    log = replicas.logs[PARTITION]
    for _ in range(30):
        log.append([data_batch(value=b"v" * 100)], leader_epoch=1, now_ms=NOW_MS)
    replicas.close()
    disk.rot(f"{FIRST}.log", 100, 1)
    disk.remove(f"{FIRST}.index")
    return disk


@pytest.mark.parametrize("isr", [(1, 2, 3), (1, 3)], ids=["in sync", "out of sync"])
def test_log_too_damaged_to_be_opened_is_copied_anew_once_no_replica_counts_on_it(isr):
    host = node_with(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), isr))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    assert PARTITION not in replicas.logs
    assert host.incarnations == 1
    previous, host.image = host.image, metadata(PartitionImage(1, 3, (1, 2, 3), (1, 3)))
    replicas.start_incarnation()
    replicas.metadata_changed(previous)
    assert replicas.logs[PARTITION].log_end_offset == 0


def test_the_only_replica_in_sync_is_not_thrown_away():
    host = node_with(damaged_disk(), PartitionImage(2, 2, (1, 2, 3), (2,)))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    host.time_ms += 50
    replicas.chores.on_due()
    assert PARTITION not in replicas.logs
    assert replicas.logs.has_files(PARTITION)
    assert not host.incarnations


def test_incarnation_is_given_up_when_looking_after_a_log_has_taken_it_offline():
    """No client may write to it for long, and others count on it meanwhile."""
    disk = NodeDisk()
    host = node_with(disk, PartitionImage(1, 1, (1, 2, 3), (1, 2, 3)))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
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
    assert host.incarnations


# Where nobody else has it


def offline_host(replicas=(1, 2, 3)):
    host = node_with(damaged_disk(), PartitionImage(2, 2, replicas, (2,)))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    return host, replicas


def ring(host, replicas, ms):
    """Let time go on, in the steps in which a node's timer would ring; return how often the log was opened."""
    begun = len(opened(host))
    for _ in range(ms // 10):
        host.time_ms += 10
        if replicas.chores.next_due_ms <= host.time_ms:
            replicas.chores.on_due()
    return len(opened(host)) - begun


def opened(host):
    return host.disk.openings


def test_damaged_sole_replica_is_offline_and_nothing_of_it_changes():
    host, replicas = offline_host()
    assert [*replicas.offline] == [PARTITION]
    before = host.disk.tree()
    ring(host, replicas, 200_000)
    assert host.disk.tree() == before
    assert not host.incarnations
    assert "accept the loss of everything from offset 0 on" in replicas.offline.reason(PARTITION)


def test_damaged_sole_replica_is_tried_again_at_growing_distances():
    host, replicas = offline_host()
    assert ring(host, replicas, 10_000) == 3
    assert ring(host, replicas, 3_600_000) in range(58, 66)


def test_nothing_that_is_asked_opens_a_log_that_is_offline():
    host, replicas = offline_host()
    begun = len(opened(host))
    for _ in range(10):
        assert not replicas.opening.open(PARTITION)
        assert replicas.lead(PARTITION) is None
    assert len(opened(host)) == begun


def test_loss_that_a_person_accepts_brings_the_partition_back():
    host, replicas = offline_host(replicas=(2,))
    file = host.disk.open(f"/data/logs/{PARTITION}/accept-loss")
    file.write((b"0\n",))
    ring(host, replicas, 60_000)
    assert not [*replicas.offline]
    assert replicas.logs[PARTITION].log_end_offset == 0
    assert replicas.logs.cuts == {"offline": 1}
    assert host.disk.exists(f"{FIRST}.cut")


def test_another_replica_that_comes_in_sync_ends_the_wait():
    """An operator has had another one elected, which has not everything, so that this one follows it."""
    host, replicas = offline_host()
    ring(host, replicas, 100_000)
    previous, host.image = host.image, metadata(PartitionImage(1, 3, (1, 2, 3), (1,)))
    replicas.metadata_changed(previous)
    assert host.incarnations == 1
    assert not replicas.offline.is_waiting(PARTITION, host.time_ms)


# Where others have it


def copy_anew(host):
    """Have the damaged replica go through what follows from its damage."""
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    previous, host.image = host.image, metadata(PartitionImage(1, 3, (1, 2, 3), (1, 3)))
    replicas.start_incarnation()
    replicas.metadata_changed(previous)
    return replicas


def put_aside(disk):
    """The batches that were put aside; what was never flushed beside them may be gone."""
    found = {path: data for path, data in disk.tree().items() if path.startswith("/data/damaged/")}
    return {path: data for path, data in found.items() if path.endswith(".log")}


def test_damaged_log_is_there_until_its_replica_is_in_sync_again():
    host = node_with(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), (1, 2, 3)))
    before = {path: data for path, data in host.disk.tree().items() if path.endswith(".log")}
    replicas = copy_anew(host)
    assert replicas.logs[PARTITION].log_end_offset == 0
    kept = {path.replace("/damaged/", "/logs/"): data for path, data in put_aside(host.disk).items()}
    assert before.items() <= kept.items()
    previous, host.image = host.image, metadata(PartitionImage(1, 3, (1, 2, 3), (1, 2, 3)))
    replicas.metadata_changed(previous)
    assert not put_aside(host.disk)


def test_damaged_log_survives_the_next_process_and_every_loss_of_power():
    host = node_with(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), (1, 2, 3)))
    copy_anew(host)
    before = put_aside(host.disk)
    assert before
    host.disk.lose_power(lambda: False)
    host.image = metadata(PartitionImage(1, 3, (1, 2, 3), (1, 3)))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    assert put_aside(host.disk) == before
    previous, host.image = host.image, metadata(PartitionImage(1, 3, (1, 2, 3), (1, 2, 3)))
    replicas.metadata_changed(previous)
    assert not put_aside(host.disk)


def test_copy_that_is_damaged_too_does_not_take_the_place_of_what_was_put_aside():
    host = node_with(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), (1, 2, 3)))
    replicas = copy_anew(host)
    replicas.failures.damaged.add(PARTITION)
    replicas.start_incarnation()
    replicas.metadata_changed(host.image)
    assert {path.split("/")[3] for path in put_aside(host.disk)} == {str(PARTITION), f"{PARTITION}.1"}


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "unknown"])
def test_damaged_log_that_was_put_aside_goes_with_a_logged_deletion_alone(is_deleted):
    host = node_with(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), (1, 2, 3)))
    replicas = copy_anew(host)
    deleted = {host.image.topic_id(PARTITION.topic): NOW_MS} if is_deleted else {}
    replicas.metadata_changed(host.learn(replace(EMPTY_IMAGE, deleted_topics=deleted)))
    assert bool(put_aside(host.disk)) is not is_deleted


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "unknown"])
def test_damaged_log_goes_too_where_its_topic_was_deleted_while_the_node_was_down(is_deleted):
    host = node_with(damaged_disk(), PartitionImage(1, 2, (1, 2, 3), (1, 2, 3)))
    copy_anew(host)
    deleted = {host.image.topic_id(PARTITION.topic): NOW_MS} if is_deleted else {}
    host.disk.crash_process()
    host.image = replace(EMPTY_IMAGE, deleted_topics=deleted)
    ReplicaManager(host, is_lazy=lambda topic: False).metadata_changed(EMPTY_IMAGE)
    assert bool(put_aside(host.disk)) is not is_deleted


def test_damage_that_a_scrub_finds_in_the_only_replica_is_shown_while_it_goes_on_serving(caplog):
    disk = NodeDisk()
    host = node_with(disk, PartitionImage(2, 2, (1, 2, 3), (2,)))
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    for _ in range(30):
        replicas.logs[PARTITION].append([data_batch(value=b"v" * 100)], leader_epoch=2, now_ms=NOW_MS)
    disk.rot(f"{FIRST}.log", 100, 1)
    while PARTITION not in replicas.failures.served:
        host.time_ms += 100
        replicas.chores.on_due()
    assert PARTITION in replicas.logs
    assert not host.incarnations
    assert "is not what was written" in replicas.failures.served[PARTITION]
    assert "goes on serving, and no other replica is in sync" in caplog.text
    host.learn(EMPTY_IMAGE)
    replicas.metadata_changed(metadata(PartitionImage(2, 2, (1, 2, 3), (2,))))
    assert not replicas.failures.served
