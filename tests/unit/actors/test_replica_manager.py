"""What a node says that it has lost when its logs fail, or its disk has damaged them."""

import pytest
from msgspec.structs import replace

from eagleray.actors.lanes.messages import ReplicationBatch
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogDamaged
from eagleray.broker.metadata.changes import (
    NodeJoined,
    NodesPlanned,
    ReplicasChange,
    ReplicasChanged,
    TopicCreated,
    TopicDeleted,
)
from eagleray.broker.metadata.image import EMPTY_IMAGE
from eagleray.broker.metadata.losses import NO_LOSS, Fate, Loss
from eagleray.broker.metadata.nodes import NodeRegistration, PlannedNode
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import Push
from tests.support.batches import NOW_MS, data_batch, placed
from tests.support.faults import Fault, Operation, Outcome
from tests.support.hand_context import HandContext

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def host():
    # It follows in both partitions, so that nothing has to be pushed from here.
    states = tuple(PartitionImage(2, 0, (1, 2), (1, 2)) for _ in range(2))
    image = EMPTY_IMAGE.apply(
        [
            NodesPlanned(tuple(PlannedNode(node_id, ("leader",)) for node_id in (1, 2))),
            *(NodeJoined(NodeRegistration(node_id, 7, "", 0, ("leader",))) for node_id in (1, 2)),
            TopicCreated("orders", bytes(16), {}, states),
        ]
    )
    return HandContext(1, image)


@pytest.fixture
def replicas(host):
    replicas = ReplicaManager(host, is_lazy=lambda topic: False)
    replicas.metadata_changed(EMPTY_IMAGE)
    for partition in (A, B):
        replicas.logs[partition].append([data_batch()], leader_epoch=0, now_ms=NOW_MS)
    return replicas


def fail(host, replicas, partition):
    """Have a log go offline in the middle of something, as its disk fails."""
    log = replicas.logs[partition]
    with host.disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".log")), pytest.raises(Exception):  # noqa: B017, PT011
        log.flush()
    assert not log.is_online
    replicas.failed(partition)


def test_a_log_that_failed_and_is_whole_again_is_in_doubt_and_no_other(host, replicas):
    fail(host, replicas, A)
    assert host.incarnations == 1
    assert replicas.start_incarnation() == Loss((), (A,))
    assert replicas.logs[A].log_end_offset == 1
    assert replicas.logs[A].is_online


def test_a_log_that_cannot_be_opened_again_is_lost_and_no_other(host, replicas):
    fail(host, replicas, A)
    with host.disk.injected(Fault(Outcome.FAIL, is_lasting=True)):
        assert replicas.start_incarnation() == Loss((A,))
    assert A not in replicas.logs


def test_a_log_that_ends_before_it_did_is_lost(host, replicas):
    replicas.failed(A)
    directory = replicas.logs.directory_of(A)
    for name in host.disk.list_directory(directory):
        host.disk.remove(f"{directory}/{name}")
    assert replicas.start_incarnation().of(A) is Fate.LOST


def test_log_that_fails_unnoticed_is_found_when_the_next_incarnation_begins(host, replicas):
    replicas.logs[B]._availability.end()
    assert replicas.failures.are_more_than(NO_LOSS)
    assert replicas.start_incarnation() == Loss((), (B,))
    assert not replicas.failures.are_more_than(NO_LOSS)


def test_logs_that_fail_at_once_are_told_together(host, replicas):
    fail(host, replicas, A)
    fail(host, replicas, B)
    assert replicas.start_incarnation() == Loss((), (A, B))


def test_a_damaged_log_is_lost_and_no_other(host, replicas):
    replicas.damaged(A, LogDamaged("a bit has changed"))
    assert host.incarnations == 1
    assert replicas.start_incarnation() == Loss((A,))


def test_log_damaged_while_an_incarnation_registers_wants_another(host, replicas):
    told = replicas.start_incarnation()
    assert told == NO_LOSS
    replicas.damaged(A, LogDamaged("a bit has changed"))
    assert replicas.failures.are_more_than(told)
    assert not replicas.failures.are_more_than(replicas.start_incarnation())


def test_a_log_that_only_this_node_has_in_sync_is_not_given_up_because_it_is_damaged(host, replicas):
    alone = PartitionImage(2, 0, (1, 2), (1,))
    host.image = host.image.apply([TopicCreated("orders", bytes(16), {}, (alone, alone))])
    replicas.damaged(A, LogDamaged("a bit has changed"))
    assert (host.incarnations, replicas.start_incarnation()) == (0, NO_LOSS)


@pytest.mark.parametrize("has_jumped", [False, True], ids=["by single changes", "as a whole"])
def test_files_of_a_replica_that_has_moved_away_go_only_where_the_node_has_seen_it_move(host, replicas, has_jumped):
    machines = NodesPlanned(tuple(PlannedNode(node_id, ("leader",), None, str(node_id)) for node_id in (1, 2)))
    host.spec = replace(host.spec, machine="1")
    moved = ReplicasChanged((ReplicasChange(A, 2, 1, (2,), (2,)),))
    previous = host.learn(host.image.apply([machines, moved]))
    replicas.metadata_changed(previous, has_jumped=has_jumped)
    assert A not in replicas.logs
    assert replicas.logs.has_files(A) is has_jumped


def push_of(topic_id):
    return Push(A, 2, 0, 5, 7, 1, 0, bytes(placed(data_batch(), 1, 0).view), 2, 1, 0, topic_id=topic_id)


@pytest.mark.parametrize("topic_id", [b"", bytes(16), b"another topic id"])
def test_push_of_another_topic_of_the_name_waits(host, replicas, topic_id):
    """Its leader has not heard of a deletion, or this node has not: what it brings belongs to another log."""
    replicas.receive(ReplicationBatch(0, (push_of(topic_id),), ()))
    assert replicas.logs[A].log_end_offset == (1 if topic_id == b"another topic id" else 2)


def test_push_that_comes_before_the_metadata_is_taken_when_they_are_there(host, replicas):
    newer, epoch = b"another topic id", 1
    states = tuple(PartitionImage(2, epoch, (1, 2), (1, 2)) for _ in range(2))
    records = bytes(placed(data_batch(value=b"pushed"), 0, epoch).view)
    replicas.receive(ReplicationBatch(0, (Push(A, 2, epoch, 5, 7, 0, -1, records, 1, 0, 0, topic_id=newer),), ()))
    assert replicas.logs[A].log_end_offset == 1
    again = [TopicDeleted("orders", bytes(16), NOW_MS), TopicCreated("orders", newer, {}, states)]
    replicas.metadata_changed(host.learn(host.image.apply(again)))
    (batch,) = replicas.logs[A].batches()
    assert bytes(batch.records()[0].value) == b"pushed"


def test_push_of_an_epoch_that_the_node_has_not_heard_of_waits(host, replicas):
    """The replica may have moved away and back since: then its log goes as soon as the node hears of that."""
    epoch = 1
    records = bytes(placed(data_batch(value=b"pushed"), 1, epoch).view)
    replicas.receive(ReplicationBatch(0, (Push(A, 2, epoch, 5, 7, 1, 0, records, 2, 1, 0),), ()))
    assert replicas.logs[A].log_end_offset == 1
    replicas.metadata_changed(
        host.learn(host.image.apply([ReplicasChanged((ReplicasChange(A, 2, epoch, (1, 2), (1, 2)),))]))
    )
    assert replicas.logs[A].log_end_offset == 2
