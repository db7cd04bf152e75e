"""Pushes that come before the metadata that say what they are about."""

from types import SimpleNamespace

import pytest

from eagleray.actors.messages import ReplicasTold
from eagleray.actors.replicas import Replicas
from eagleray.broker.controller.image import EMPTY_IMAGE
from eagleray.broker.controller.topics import PartitionImage
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import Push
from eagleray.protocol.errors import ErrorCode
from tests.simulation.cluster.ports import MachineDisk
from tests.support.batches import NOW_MS, data_batch
from tests.support.gathering_peers import GatheringPeers
from tests.support.replicas import LIVES, PARTITION, metadata
from tests.support.timers import HandTimer

STATE = PartitionImage(1, 1, (1, 2, 3), (1, 2, 3))


class Host:
    """A node that may keep one partition, and has not heard of it yet."""

    def __init__(self):
        self.disk = MachineDisk()
        self.spec = SimpleNamespace(node_id=2, data_dir="/data", settings={}, machine="two")
        self.image = EMPTY_IMAGE
        self.incarnation = LIVES[2]
        self.is_registered = True
        self.controller = SimpleNamespace(ask=lambda *question: None, ask_within=lambda *question: None)
        self.peers = GatheringPeers()
        self.timer = HandTimer()
        self.time_ms = NOW_MS

    def now_ms(self):
        return self.time_ms

    steady_ms = now_ms

    def answers(self):
        """What the leader is told at the end of the turn."""
        sent = self.peers.end()
        assert all((node_id, type(message), message.pushes) == (1, ReplicasTold, ()) for node_id, message in sent)
        return [answer for _, message in sent for answer in message.answers]

    def learn(self, image):
        previous, self.image = self.image, image
        return previous


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def replicas(host):
    return Replicas(host, is_lazy=lambda topic: False)


def a_push(partition=PARTITION):
    records = bytes(data_batch(leader_epoch=1).view)
    return Push(partition, 1, 1, 5, LIVES[2], 0, -1, records, 1, 0, 0)


def test_an_early_push_is_taken_and_answered_as_soon_as_the_metadata_come(host, replicas):
    replicas.receive(ReplicasTold(1, (a_push(),), ()))
    assert host.answers() == []
    replicas.metadata_changed(host.learn(metadata(STATE)))
    (answer,) = host.answers()
    assert (answer.partition, answer.push_id, answer.error_code, answer.end_offset) == (PARTITION, 5, ErrorCode.NONE, 1)
    assert replicas.logs[PARTITION].log_end_offset == 1


def test_an_early_push_does_not_hold_up_the_others_of_its_message(host, replicas):
    replicas.metadata_changed(host.learn(metadata(STATE)))
    unknown = TopicPartition("unknown", 0)
    replicas.receive(ReplicasTold(1, (a_push(unknown), a_push()), ()))
    assert [answer.partition for answer in host.answers()] == [PARTITION]


def test_an_early_push_is_forgotten_after_a_while(host, replicas):
    replicas.receive(ReplicasTold(1, (a_push(),), ()))
    host.time_ms += 1000
    replicas.chores.on_due()
    replicas.metadata_changed(host.learn(metadata(STATE)))
    assert host.answers() == []
    assert replicas.logs[PARTITION].log_end_offset == 0
