"""What replicas tell those of other nodes: one message a turn for each of them, of a bounded size."""

import pytest

from eagleray.actors.lanes.messages import ReplicationBatch
from eagleray.actors.storage.replication_batcher import ReplicationBatcher
from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.events import Push, PushAnswered
from eagleray.protocol.errors import ErrorCode
from tests.support.gathering_peers import GatheringPeers

MAX_BYTES = 100


@pytest.fixture
def turn():
    return GatheringPeers()


@pytest.fixture
def post(turn):
    return ReplicationBatcher(turn, MAX_BYTES)


def a_push(number, size_bytes=0, producers=b""):
    partition = TopicPartition("orders", number)
    return Push(partition, 1, 1, number, 22, 0, -1, bytes(size_bytes), 0, 0, 0, bool(producers), producers)


def an_answer(number):
    return PushAnswered(TopicPartition("orders", number), 1, 11, number, 1, ErrorCode.NONE, 0)


def test_pushes_and_answers_of_a_turn_are_one_message_for_each_node(post, turn):
    post.push(2, a_push(1))
    post.answer(2, an_answer(5))
    post.push(3, a_push(1))
    post.push(2, a_push(2))
    assert turn.end() == [
        (2, ReplicationBatch(0, (a_push(1), a_push(2)), (an_answer(5),))),
        (3, ReplicationBatch(0, (a_push(1),), ())),
    ]
    assert turn.end() == []


def test_the_next_turn_has_its_own_message(post, turn):
    post.push(2, a_push(1))
    turn.end()
    post.answer(2, an_answer(6))
    assert turn.end() == [(2, ReplicationBatch(0, (), (an_answer(6),)))]


def test_many_large_pushes_are_divided_and_told_once_each(post, turn):
    pushes = [a_push(1, 60), a_push(2, 40), a_push(3, 1), a_push(4, 500), a_push(5, 50, bytes(50)), a_push(6)]
    post.answer(2, an_answer(7))
    for push in pushes:
        post.push(2, push)
    messages = [message for _, message in turn.end()]
    assert [len(message.pushes) for message in messages] == [2, 1, 1, 2]
    assert [push for message in messages for push in message.pushes] == pushes
    assert [answer for message in messages for answer in message.answers] == [an_answer(7)]
