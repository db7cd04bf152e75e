"""A coordinator loads its partition once all that it holds is replicated, and not at all if it leads no longer."""

import asyncio
from types import SimpleNamespace

import pytest

from eagleray.actors.storage import coordinator_log
from eagleray.actors.storage.coordinator_log import CoordinatorLog
from eagleray.broker.log import LogConfig, PartitionLog
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.lease import Lease
from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded, PartitionResigned
from tests.support.batches import NOW_MS
from tests.support.replicas import (
    CONFIG,
    INCARNATIONS,
    PARTITION,
    has_all,
    held_lease,
    leader_of,
    metadata,
    open_log,
    pushes_in,
    write,
)
from tests.support.simulated_disk import SimulatedDisk

STATE = PartitionImage(1, 1, (1, 2, 3), (1, 2, 3))


class OneReplica:
    """The replicas of a node that leads one partition, or has just stopped to."""

    def __init__(self, leader):
        self.leading = leader
        self.loading = set()
        self.lease = Lease(CONFIG)
        self.damaged_partitions = []
        self.damaged = lambda partition, error: self.damaged_partitions.append(partition)

    def serve(self, role, name):
        assert name == PARTITION.topic

    def leader(self, partition):
        return self.leading

    lead = leader


class Coordinator:
    """What a coordinator is told, and by `admit` its state machine."""

    def __init__(self, leader, lease=None):
        self.posted, self.failures = [], []
        self.replicas = OneReplica(leader)
        if lease is not None:
            self.replicas.lease = lease
        context = SimpleNamespace(
            spec=SimpleNamespace(node_id=1),
            loop=asyncio.get_running_loop(),
            image=metadata(STATE),
            is_registered=True,
            replica_manager=self.replicas,
            fail=self.failures.append,
            steady_ms=lambda: NOW_MS,
        )
        self.topic = CoordinatorLog(
            context,
            PARTITION.topic,
            post=self.posted.append,
            replay=lambda batches: len(list(batches)),
        )
        self.topic.metadata_changed()

    def told(self):
        """What its state machine knows after a turn."""
        posted, self.posted[:] = [*self.posted], []
        return self.topic.admit(posted)


@pytest.fixture
def leader():
    """A leader that does not know yet how much of its log is replicated."""
    return leader_of(write(open_log(), 0, 0), STATE)


def replicated(leader):
    """Let all followers have what the leader has."""
    for node_id, push in pushes_in(leader.learn(STATE, INCARNATIONS, NOW_MS)).items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    return leader


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0)


async def test_replicated_records_are_loaded(leader):
    coordinator = Coordinator(leader, held_lease())
    await asyncio.sleep(0.05)
    assert coordinator.told() == [PartitionAssigned(0, 1)]
    replicated(leader)
    await until(lambda: coordinator.posted)
    coordinator.topic.close()
    assert coordinator.told() == [PartitionLoaded(0, 1, 2)]
    assert not coordinator.failures


async def test_a_leader_that_resigns_before_it_knows_what_is_replicated_loads_nothing_and_goes_on(leader):
    coordinator = Coordinator(leader, held_lease())
    await asyncio.sleep(0.05)
    assert coordinator.told() == [PartitionAssigned(0, 1)]
    leader.resign()
    coordinator.replicas.leading = None
    await asyncio.sleep(0.05)
    coordinator.topic.resigned(PARTITION, leader)
    await asyncio.sleep(0.15)
    coordinator.topic.close()
    assert coordinator.told() == [PartitionResigned(0, 1)]
    assert not coordinator.failures


async def test_a_log_that_its_disk_has_damaged_is_given_up_and_the_process_goes_on():
    disk = SimulatedDisk()
    log = write(PartitionLog.open(disk, "/log", LogConfig(), now_ms=NOW_MS), 0, 0)
    log.advance_high_watermark(2)
    disk.rot(f"/log/{0:020}.log", log.size_bytes - 1, 1)

    coordinator = Coordinator(leader_of(log, STATE))
    await until(lambda: coordinator.replicas.damaged_partitions)
    coordinator.topic.close()
    assert coordinator.replicas.damaged_partitions == [PARTITION]
    assert not coordinator.failures


async def test_nothing_reaches_a_coordinator_while_another_may_have_taken_over(leader):
    coordinator = Coordinator(leader)
    topic, admitted = coordinator.topic, [coordinator.told()]
    admitted.append(topic.admit(["first"]))
    coordinator.replicas.lease = held_lease()
    admitted.append(topic.admit(["second"]))
    topic.close()
    assert admitted == [[], [], [PartitionAssigned(0, 1), "first", "second"]]


async def test_a_partition_that_is_lost_before_the_lease_holds_is_not_begun_with_afterwards(leader):
    coordinator = Coordinator(leader)
    topic, told = coordinator.topic, [coordinator.told()]
    topic.admit(["question"])
    topic.resigned(PARTITION, leader)
    coordinator.replicas.lease = held_lease()
    told.append(coordinator.told())
    topic.close()
    assert told == [[], [PartitionResigned(0, 1), "question"]]


async def test_a_partition_that_is_lost_while_its_beginning_waits_for_a_turn_is_not_begun_with(leader):
    coordinator = Coordinator(leader)
    topic = coordinator.topic
    topic.admit(["question"])
    topic.resigned(PARTITION, leader)
    coordinator.replicas.lease = held_lease()
    told = coordinator.told()
    topic.close()
    assert told == [PartitionResigned(0, 1), "question"]


async def test_question_from_before_a_partition_was_lost_is_not_answered_when_the_lease_holds_again(leader):
    coordinator = Coordinator(leader, held_lease())
    topic = coordinator.topic
    coordinator.told()
    coordinator.replicas.lease = Lease(CONFIG)
    # It is asked and has not had its turn yet.
    coordinator.posted.append("question")
    topic.resigned(PARTITION, leader)
    told = [coordinator.told()]
    coordinator.replicas.lease = held_lease()
    told.append(coordinator.told())
    topic.close()
    assert told == [[], [PartitionResigned(0, 1), "question"]]


async def test_partition_is_loaded_again_once_all_that_it_holds_is_replicated(leader, monkeypatch):
    monkeypatch.setattr(coordinator_log, "_RETRY_S", 0)
    monkeypatch.setattr(coordinator_log, "_REPLICATED_S", 0)
    replicated(leader)

    coordinator = Coordinator(leader, held_lease())
    await until(lambda: len(coordinator.posted) == 2)
    told = [coordinator.told()]
    write(leader.log, 1)
    coordinator.topic.load_again(0, 1)
    for _ in range(100):
        await asyncio.sleep(0)
    told.append(coordinator.told())
    for node_id, push in pushes_in(leader.replicate(NOW_MS)).items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    await until(lambda: coordinator.posted)
    told.append(coordinator.told())
    coordinator.topic.close()
    assert told == [
        [PartitionAssigned(0, 1), PartitionLoaded(0, 1, 2)],
        [],
        [PartitionLoaded(0, 1, 3)],
    ]
