"""Logs that have files are opened off the loop, and what comes of that when the metadata change meanwhile."""

import pytest

from eagleray.actors.lanes.messages import ReplicationBatch
from eagleray.actors.storage.disk import PartitionLocked
from eagleray.actors.storage.log_opener import MOST_AT_ONCE
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged
from eagleray.broker.metadata.changes import NodeJoined, NodesPlanned, TopicCreated, TopicDeleted
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import Push
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch
from tests.support.hand_context import HandContext
from tests.support.hanging_loop import HangingLoop
from tests.support.node_disk import NodeDisk

COUNT = 5
RECORDS = 3
PARTITIONS = [TopicPartition("orders", number) for number in range(COUNT)]
FIRST = PARTITIONS[0]
ID, LATER_ID = b"1" * 16, b"2" * 16
BEFORE, LED, AGAIN = (PartitionImage(1, epoch, (1,), (1,)) for epoch in (3, 4, 5))
FOLLOWED = PartitionImage(2, 4, (1, 2), (1, 2))


class Leading:
    """A role that leads whatever it is given."""

    def ignore(self, *told):
        pass

    led = resigned = replicated = advanced = ignore


class LockingDisk(NodeDisk):
    """A disk whose locks are held by one at a time."""

    def __init__(self):
        super().__init__()
        self.locked = set()

    def lock(self, path):
        if path in self.locked:
            raise PartitionLocked(path)
        self.locked.add(path)
        return HeldLock(self, path)


class HeldLock:
    def __init__(self, disk, path):
        self._disk = disk
        self._path = path

    def release(self):
        self._disk.locked.discard(self._path)


def image_of(*states, topic_id=ID):
    nodes = NodesPlanned(tuple(PlannedNode(node_id, ("leader",), None, str(node_id)) for node_id in (1, 2)))
    joined = (NodeJoined(NodeRegistration(node_id, 7, "", 0, ("leader",))) for node_id in (1, 2))
    return EMPTY_IMAGE.apply([nodes, *joined, TopicCreated("orders", topic_id, {}, states)])


def begin(host):
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.serve(Leading())
    replicas.metadata_changed(EMPTY_IMAGE)
    return replicas


@pytest.fixture
def disk():
    """A disk with logs, each with records."""
    disk = LockingDisk()
    host = HandContext(1, image_of(*[BEFORE] * COUNT), disk=disk, machine="1")
    replicas = begin(host)
    for partition in PARTITIONS:
        for _ in range(RECORDS):
            replicas.logs[partition].append([data_batch()], leader_epoch=3, now_ms=NOW_MS)
    # As kill -9 ends it.
    disk.locked.clear()
    return disk


def start(disk, *states):
    """Start a node on it, whose threads wait for the test."""
    host = HandContext(1, image_of(*(states or [LED] * COUNT)), disk=disk, machine="1")
    host.loop = HangingLoop()
    replicas = begin(host)
    return host, replicas


def learn(host, replicas, image):
    replicas.metadata_changed(host.learn(image))


def led(replicas):
    return [partition for partition in PARTITIONS if replicas.leader(partition) is not None]


def opened_one_after_the_other(host, replicas):
    """The partitions in the order in which they are opened."""
    order = []
    while host.loop.waiting:
        host.loop.run_next()
        order += [each for each in PARTITIONS if each in replicas.logs and each not in order]
    return order


def test_node_leads_a_partition_when_its_log_is_open_and_only_a_few_are_opened_at_a_time(disk):
    host, replicas = start(disk)
    assert (led(replicas), len(host.loop.waiting)) == ([], MOST_AT_ONCE)
    host.loop.run_next()
    assert (led(replicas), len(host.loop.waiting)) == ([FIRST], MOST_AT_ONCE)
    host.loop.run_waiting()
    assert led(replicas) == PARTITIONS
    assert {replicas.logs[each].log_end_offset for each in PARTITIONS} == {RECORDS}


def test_partition_that_is_asked_for_is_opened_next(disk):
    host, replicas = start(disk)
    replicas.opening.asked_for(PARTITIONS[4])
    assert replicas.lead(PARTITIONS[3]) is None
    order = opened_one_after_the_other(host, replicas)
    assert order == [PARTITIONS[number] for number in (0, 1, 4, 3, 2)]


def test_partitions_that_are_led_are_opened_before_those_that_are_followed(disk):
    host, replicas = start(disk, FOLLOWED, FOLLOWED, FOLLOWED, LED, LED)
    order = opened_one_after_the_other(host, replicas)
    assert order == [PARTITIONS[number] for number in (0, 1, 3, 4, 2)]


def test_new_log_is_made_at_once(disk):
    host, replicas = start(NodeDisk())
    assert (led(replicas), host.loop.waiting) == (PARTITIONS, [])


class SlowContext(HandContext):
    """A look at the clock takes ten milliseconds."""

    def steady_ms(self):
        self.time_ms += 10
        return self.time_ms


def test_many_new_logs_are_made_off_the_loop():
    host = SlowContext(1, image_of(*[LED] * COUNT))
    host.loop = HangingLoop()
    replicas = begin(host)
    assert 0 < len(led(replicas)) < COUNT
    host.loop.run_waiting()
    assert led(replicas) == PARTITIONS


def test_partition_is_led_at_the_epoch_that_it_has_when_its_log_is_open(disk):
    host, replicas = start(disk, LED)
    learn(host, replicas, image_of(AGAIN))
    host.loop.run_waiting()
    assert replicas.leader(FIRST).leader_epoch == 5


def test_log_of_a_topic_that_is_deleted_while_it_is_opened_is_closed_and_left_to_the_sweep(disk):
    host, replicas = start(disk, LED)
    learn(host, replicas, host.image.apply([TopicDeleted("orders", ID, NOW_MS)]))
    host.loop.run_waiting()
    assert FIRST not in replicas.logs
    assert not disk.locked
    assert replicas.logs.set_aside_unused([str(FIRST)]) == [str(FIRST)]


def test_topic_that_is_deleted_and_made_anew_while_a_log_is_opened_begins_empty(disk):
    host, replicas = start(disk, LED)
    deleted = host.image.apply([TopicDeleted("orders", ID, NOW_MS)])
    learn(host, replicas, deleted.apply([TopicCreated("orders", LATER_ID, {}, (LED,))]))
    assert FIRST not in replicas.logs
    host.loop.run_waiting()
    assert replicas.leader(FIRST) is not None
    assert replicas.logs[FIRST].log_end_offset == 0
    assert replicas.logs.topic_id_of(FIRST) == LATER_ID


def test_replica_that_moves_away_while_its_log_is_opened_is_not_kept_open(disk):
    host, replicas = start(disk, LED)
    learn(host, replicas, image_of(PartitionImage(2, 5, (2,), (2,))))
    host.loop.run_waiting()
    assert FIRST not in replicas.logs
    assert not disk.locked
    assert replicas.logs.has_files(FIRST)


def test_log_that_is_open_when_no_incarnation_is_registered_is_led_by_the_next_one(disk):
    host, replicas = start(disk, LED)
    replicas.start_incarnation()
    host.is_registered = False
    host.loop.run_waiting()
    assert (FIRST in replicas.logs, led(replicas)) == (True, [])
    host.is_registered = True
    learn(host, replicas, image_of(AGAIN))
    assert led(replicas) == [FIRST]


def test_replica_that_moves_away_while_no_incarnation_is_registered_is_not_opened(disk):
    host, replicas = start(disk, LED)
    host.is_registered = False
    host.learn(image_of(PartitionImage(2, 5, (2,), (2,))))
    host.loop.run_waiting()
    assert FIRST not in replicas.logs
    assert not disk.locked


def test_push_that_comes_while_a_log_is_opened_is_taken_when_that_is_open(disk):
    host, replicas = start(disk, FOLLOWED)
    records = bytes(data_batch(leader_epoch=3, base_offset=RECORDS).view)
    replicas.receive(ReplicationBatch(2, (Push(FIRST, 2, 4, 5, 7, RECORDS, 3, records, RECORDS + 1, 0, 0),), ()))
    assert host.peers.end() == []
    host.loop.run_waiting()
    ((node_id, message),) = host.peers.end()
    (answer,) = message.answers
    assert (node_id, answer.push_id, answer.error_code) == (2, 5, ErrorCode.NONE)


def test_damaged_log_is_told_of_when_it_was_opened_off_the_loop(disk):
    disk.rot(f"/data/logs/{FIRST}/00000000000000000000.log", 20, 1)
    host, replicas = start(disk, LED)
    assert FIRST not in replicas.offline
    host.loop.run_waiting()
    assert FIRST in replicas.offline
    assert not disk.locked


def test_mistake_of_ours_in_a_thread_ends_the_process(disk, monkeypatch):
    host, _ = start(disk, LED)
    failures = []
    host.fail = failures.append
    monkeypatch.setattr(disk, "list_directory", lambda path: 1 // 0)
    host.loop.run_waiting()
    assert [type(error) for error in failures] == [ZeroDivisionError]
    assert not isinstance(failures[0], LogDamaged)


def test_logs_that_were_opened_and_not_taken_are_closed_with_the_node(disk):
    host, replicas = start(disk)
    tell = host.loop.waiting.pop(0)()
    replicas.close()
    assert not disk.locked
    # The loop may run on for a while.
    tell()
    host.loop.run_waiting()
    assert [*replicas.logs] == []
    assert not disk.locked
    again, reopened = start(disk, LED)
    again.loop.run_waiting()
    assert reopened.logs[FIRST].recovery.scanned_bytes == 0


def test_node_that_is_killed_opens_nothing_more(disk):
    host, replicas = start(disk)
    replicas.stop()
    before = disk.tree()
    host.loop.run_waiting()
    assert disk.tree() == before
    assert [*replicas.logs] == []
