"""What a node says that it has lost when its logs fail, or its disk has damaged them."""

import pytest

from eagleray.actors.replicas import Replicas
from eagleray.actors.spec import NodeSpec
from eagleray.broker.controller.changes import NodeJoined, NodesPlanned, TopicCreated
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.losses import NO_LOSS, Fate, Loss
from eagleray.broker.controller.nodes import NodeRegistration, PlannedNode
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.identities import TopicPartition
from tests.simulation.cluster.ports import MachineDisk
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.timers import HandTimer

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Host:
    """A node that counts how often it is to begin another life."""

    def __init__(self):
        self.spec = NodeSpec(
            cluster="test", node_id=1, roles=("leader",), data_dir="/data", host="", token=b"", settings={}
        )
        self.disk = MachineDisk()
        self.incarnation = 7
        self.is_registered = True
        self.lives = 0
        self.timer = HandTimer()
        # It follows in both partitions, so that nothing has to be pushed from here.
        states = tuple(PartitionImage(2, 0, (1, 2), (1, 2)) for _ in range(2))
        self.image = EMPTY_IMAGE.apply(
            [
                NodesPlanned(tuple(PlannedNode(node_id, ("leader",)) for node_id in (1, 2))),
                *(NodeJoined(NodeRegistration(node_id, 7, "", 0, ("leader",))) for node_id in (1, 2)),
                TopicCreated("orders", bytes(16), {}, states),
            ]
        )

    def now_ms(self):
        return NOW_MS

    def steady_ms(self):
        return 0

    def begin_life(self):
        self.lives += 1


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def replicas(host):
    replicas = Replicas(host, is_lazy=lambda topic: False)
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
    assert host.lives == 1
    assert replicas.begin_life() == Loss((), (A,))
    assert replicas.logs[A].log_end_offset == 1
    assert replicas.logs[A].is_online


def test_a_log_that_cannot_be_opened_again_is_lost_and_no_other(host, replicas):
    fail(host, replicas, A)
    with host.disk.injected(Fault(Outcome.FAIL, is_lasting=True)):
        assert replicas.begin_life() == Loss((A,))
    assert A not in replicas.logs


def test_a_log_that_ends_before_it_did_is_lost(host, replicas):
    replicas.failed(A)
    directory = replicas.logs.directory_of(A)
    for name in host.disk.list_directory(directory):
        host.disk.remove(f"{directory}/{name}")
    assert replicas.begin_life().of(A) is Fate.LOST


def test_a_log_that_fails_without_anybody_being_told_is_found_when_the_next_life_begins(host, replicas):
    replicas.logs[B]._availability.end()
    assert replicas.failures.are_more_than(NO_LOSS)
    assert replicas.begin_life() == Loss((), (B,))
    assert not replicas.failures.are_more_than(NO_LOSS)


def test_logs_that_fail_at_once_are_told_together(host, replicas):
    fail(host, replicas, A)
    fail(host, replicas, B)
    assert replicas.begin_life() == Loss((), (A, B))


def test_a_damaged_log_is_lost_and_no_other(host, replicas):
    replicas.damaged(A)
    assert host.lives == 1
    assert replicas.begin_life() == Loss((A,))


def test_what_is_damaged_while_a_life_registers_wants_another(host, replicas):
    told = replicas.begin_life()
    assert told == NO_LOSS
    replicas.damaged(A)
    assert replicas.failures.are_more_than(told)
    assert not replicas.failures.are_more_than(replicas.begin_life())


def test_a_log_that_only_this_node_has_in_sync_is_not_given_up_because_it_is_damaged(host, replicas):
    alone = PartitionImage(2, 0, (1, 2), (1,))
    host.image = host.image.apply([TopicCreated("orders", bytes(16), {}, (alone, alone))])
    replicas.damaged(A)
    assert (host.lives, replicas.begin_life()) == (0, NO_LOSS)
