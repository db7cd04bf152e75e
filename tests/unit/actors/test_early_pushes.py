"""Pushes that come before the metadata that say what they are about."""

import pytest

from eagleray.actors.lanes.messages import ReplicationBatch
from eagleray.actors.storage.replica_manager import ReplicaManager
from eagleray.broker.identities import TopicPartition
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import Push
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import data_batch
from tests.support.hand_context import HandContext
from tests.support.replicas import INCARNATIONS, PARTITION, metadata

STATE = PartitionImage(1, 1, (1, 2, 3), (1, 2, 3))


class Follower(HandContext):
    """A node that may keep one partition, and has not heard of it yet."""

    def answers(self):
        """What the leader is told at the end of the turn."""
        sent = self.peers.end()
        assert all((node_id, type(message), message.pushes) == (1, ReplicationBatch, ()) for node_id, message in sent)
        return [answer for _, message in sent for answer in message.answers]


@pytest.fixture
def context():
    return Follower(2, incarnation=INCARNATIONS[2], machine="two")


@pytest.fixture
def replicas(context):
    return ReplicaManager(context, is_lazy=lambda topic: False)


def a_push(partition=PARTITION):
    records = bytes(data_batch(leader_epoch=1).view)
    return Push(partition, 1, 1, 5, INCARNATIONS[2], 0, -1, records, 1, 0, 0)


def test_an_early_push_is_taken_and_answered_as_soon_as_the_metadata_come(context, replicas):
    replicas.receive(ReplicationBatch(1, (a_push(),), ()))
    assert context.answers() == []
    replicas.metadata_changed(context.learn(metadata(STATE)))
    (answer,) = context.answers()
    assert (answer.partition, answer.push_id, answer.error_code, answer.end_offset) == (PARTITION, 5, ErrorCode.NONE, 1)
    assert replicas.logs[PARTITION].log_end_offset == 1


def test_an_early_push_does_not_hold_up_the_others_of_its_message(context, replicas):
    replicas.metadata_changed(context.learn(metadata(STATE)))
    unknown = TopicPartition("unknown", 0)
    replicas.receive(ReplicationBatch(1, (a_push(unknown), a_push()), ()))
    assert [answer.partition for answer in context.answers()] == [PARTITION]


def test_an_early_push_is_forgotten_after_a_while(context, replicas):
    replicas.receive(ReplicationBatch(1, (a_push(),), ()))
    context.time_ms += 1000
    replicas.chores.on_due()
    replicas.metadata_changed(context.learn(metadata(STATE)))
    assert context.answers() == []
    assert replicas.logs[PARTITION].log_end_offset == 0
