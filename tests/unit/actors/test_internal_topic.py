"""A coordinator loads its partition once all that it holds is replicated, and not at all if it leads no longer."""

import asyncio
from types import SimpleNamespace

import pytest

from eagleray.actors import internal_topic
from eagleray.actors.internal_topic import InternalTopic
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.log import LogConfig, PartitionLog
from eagleray.broker.replication.lease import Lease
from tests.support.batches import NOW_MS
from tests.support.replicas import (
    CONFIG,
    LIVES,
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
        self.damaged = self.damaged_partitions.append

    def serve(self, role, name):
        assert name == PARTITION.topic

    def leader(self, partition):
        return self.leading

    lead = leader


class Coordinator:
    """What a coordinator's shell is told, and by `admit` its machine."""

    def __init__(self, leader, lease=None):
        self.posted, self.failures = [], []
        self.replicas = OneReplica(leader)
        if lease is not None:
            self.replicas.lease = lease
        host = SimpleNamespace(
            spec=SimpleNamespace(node_id=1),
            loop=asyncio.get_running_loop(),
            image=metadata(STATE),
            is_registered=True,
            replicas=self.replicas,
            fail=self.failures.append,
            steady_ms=lambda: NOW_MS,
        )
        self.topic = InternalTopic(
            host,
            PARTITION.topic,
            post=self.posted.append,
            assigned=lambda *event: ("assigned", *event),
            loaded=lambda *event: ("loaded", *event),
            resigned=lambda *event: ("resigned", *event),
            replay=lambda batches: len(list(batches)),
        )
        self.topic.metadata_changed()

    def told(self):
        """What its machine knows after a turn."""
        posted, self.posted[:] = [*self.posted], []
        return self.topic.admit(posted)


@pytest.fixture
def leader():
    """A leader of whose log nobody has told yet how much is replicated."""
    return leader_of(write(open_log(), 0, 0), STATE)


def replicated(leader):
    """Let all followers have what the leader has."""
    for node_id, push in pushes_in(leader.learn(STATE, LIVES, NOW_MS)).items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    return leader


def test_what_is_replicated_is_loaded(leader):
    async def load():
        coordinator = Coordinator(leader, held_lease())
        await asyncio.sleep(0.05)
        assert coordinator.told() == [("assigned", 0, 1)]
        replicated(leader)
        await asyncio.sleep(0.05)
        coordinator.topic.close()
        return coordinator

    coordinator = asyncio.run(load())
    assert coordinator.told() == [("loaded", 0, 1, 2)]
    assert not coordinator.failures


def test_a_leader_that_resigns_before_it_knows_what_is_replicated_loads_nothing_and_goes_on(leader):
    async def load():
        coordinator = Coordinator(leader, held_lease())
        await asyncio.sleep(0.05)
        assert coordinator.told() == [("assigned", 0, 1)]
        leader.resign()
        coordinator.replicas.leading = None
        await asyncio.sleep(0.05)
        coordinator.topic.resigned(PARTITION, leader)
        await asyncio.sleep(0.15)
        coordinator.topic.close()
        return coordinator

    coordinator = asyncio.run(load())
    assert coordinator.told() == [("resigned", 0, 1)]
    assert not coordinator.failures


def test_a_log_that_its_disk_has_damaged_is_given_up_and_the_process_goes_on():
    disk = SimulatedDisk()
    log = write(PartitionLog.open(disk, "/log", LogConfig(), now_ms=NOW_MS), 0, 0)
    log.advance_high_watermark(2)
    disk.rot(f"/log/{0:020}.log", log.size_bytes - 1, 1)

    async def load():
        coordinator = Coordinator(leader_of(log, STATE))
        await asyncio.sleep(0.05)
        coordinator.topic.close()
        return coordinator

    coordinator = asyncio.run(load())
    assert coordinator.replicas.damaged_partitions == [PARTITION]
    assert not coordinator.failures


def test_nothing_reaches_a_coordinator_while_another_may_have_taken_over(leader):
    async def ask():
        coordinator = Coordinator(leader)
        topic, admitted = coordinator.topic, [coordinator.told()]
        admitted.append(topic.admit(["first"]))
        coordinator.replicas.lease = held_lease()
        admitted.append(topic.admit(["second"]))
        topic.close()
        return admitted

    assert asyncio.run(ask()) == [[], [], [("assigned", 0, 1), "first", "second"]]


def test_a_partition_that_is_lost_before_the_lease_holds_is_not_begun_with_afterwards(leader):
    async def lose():
        coordinator = Coordinator(leader)
        topic, told = coordinator.topic, [coordinator.told()]
        topic.admit(["question"])
        topic.resigned(PARTITION, leader)
        coordinator.replicas.lease = held_lease()
        told.append(coordinator.told())
        topic.close()
        return told

    assert asyncio.run(lose()) == [[], [("resigned", 0, 1), "question"]]


def test_a_partition_that_is_lost_while_its_beginning_waits_for_a_turn_is_not_begun_with(leader):
    async def lose():
        coordinator = Coordinator(leader)
        topic = coordinator.topic
        topic.admit(["question"])
        topic.resigned(PARTITION, leader)
        coordinator.replicas.lease = held_lease()
        told = coordinator.told()
        topic.close()
        return told

    assert asyncio.run(lose()) == [("resigned", 0, 1), "question"]


def test_whoever_asked_before_a_partition_was_lost_is_not_answered_when_the_lease_holds_again(leader):
    async def lose():
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
        return told

    assert asyncio.run(lose()) == [[], [("resigned", 0, 1), "question"]]


def test_partition_is_loaded_again_once_all_that_it_holds_is_replicated(leader, monkeypatch):
    monkeypatch.setattr(internal_topic, "_RETRY_S", 0)
    monkeypatch.setattr(internal_topic, "_REPLICATED_S", 0)
    replicated(leader)

    async def until(is_so):
        while not is_so():
            await asyncio.sleep(0)

    async def load_again():
        coordinator = Coordinator(leader, held_lease())
        await until(lambda: len(coordinator.posted) == 2)
        told = [coordinator.told()]
        write(leader.log, 1)
        coordinator.topic.load_again(0, 1)
        for _ in range(100):
            await asyncio.sleep(0)
        told.append(coordinator.told())
        for node_id, push in pushes_in(leader.appended(NOW_MS)).items():
            leader.push_answered(has_all(push, node_id), NOW_MS)
        await until(lambda: coordinator.posted)
        told.append(coordinator.told())
        coordinator.topic.close()
        return told

    assert asyncio.run(load_again()) == [[("assigned", 0, 1), ("loaded", 0, 1, 2)], [], [("loaded", 0, 1, 3)]]
