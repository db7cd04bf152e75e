"""Which requests count as sent by a client that has heard a coordinator's question: those read after it was written."""

import asyncio

import pytest

from eagleray.actors.kafka_server.guard_questions import MOST_HEARD, GuardQuestions
from eagleray.broker.groups.events import OffsetsCommitted
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.broker.metadata.topics import CONSUMER_OFFSETS, PartitionImage, TopicImage
from eagleray.broker.runtime.connection_bindings import NO_QUESTION
from eagleray.broker.transactions.events import Reply
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from eagleray.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from eagleray.protocol.messages.end_txn import EndTxnRequest
from eagleray.protocol.messages.init_producer_id import InitProducerIdRequest
from eagleray.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.kafka_peer import Peer
from tests.unit.actors.kafka_server.fakes import make_listener

COORDINATOR = ProcessRole.COORDINATOR
END = EndTxnRequest("checkout", 7, 0, True)
OTHER_END = EndTxnRequest("billing", 8, 0, True)
REFUSED = ErrorCode.CONCURRENT_TRANSACTIONS


class Coordinator:
    """The role that is asked: a test says when it answers what."""

    def __init__(self):
        self.asked = []

    def ask(self, node_id, on_reply, message_type, *fields, **named):
        self.asked.append((message_type(len(self.asked), *fields, **named), on_reply))

    @property
    def heard(self):
        return [message.client.heard for message, _ in self.asked]

    def refuse(self, number, question):
        self.asked[number][1](Reply(number, REFUSED, question=question))


def connected():
    listener = make_listener(roles=("coordinator", "groups"))
    listener.context.peers = coordinator = Coordinator()
    return Peer(listener), coordinator


async def written():
    """Let what is ready be written."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_request_that_is_read_after_the_question_was_written_has_heard_it():
    peer, coordinator = connected()
    peer.send(END, 3)
    coordinator.refuse(0, 41)
    await written()
    peer.send(END, 3)
    coordinator.refuse(1, 42)
    await written()
    peer.send(END, 3)

    assert coordinator.heard == [NO_QUESTION, 41, 42]


async def test_request_that_is_read_before_the_question_is_written_has_not_heard_it():
    peer, coordinator = connected()
    peer.send(END, 3)
    coordinator.refuse(0, 41)
    peer.send(END, 3)
    await written()

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION]


async def test_requests_that_are_read_together_have_heard_nothing_of_each_other():
    peer, coordinator = connected()
    peer.send_bytes(peer.encode(END, 3) + peer.encode(END, 3))

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION]


@pytest.mark.parametrize("read_before", [1, 4, 20, -1])
async def test_request_that_had_come_in_part_when_the_question_was_written_has_not_heard_it(read_before):
    peer, coordinator = connected()
    copy = peer.encode(END, 3)
    peer.send(END, 3, correlation_id=0)
    peer.send_bytes(copy[:read_before])
    coordinator.refuse(0, 41)
    await written()
    peer.send_bytes(copy[read_before:])
    peer.send(END, 3)

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION, 41]


async def test_question_is_not_heard_before_the_responses_of_earlier_requests_are_written():
    peer, coordinator = connected()
    peer.send(OTHER_END, 3)
    peer.send(END, 3)
    coordinator.refuse(1, 41)
    await written()
    assert peer.transport.written == []
    peer.send(END, 3)
    coordinator.refuse(0, 40)
    await written()
    peer.send(END, 3)

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION, NO_QUESTION, 41]


async def test_question_to_a_peer_that_does_not_read_is_not_heard():
    peer, coordinator = connected()
    peer.send(END, 3)
    peer.connection.pause_writing()
    coordinator.refuse(0, 41)
    await written()
    peer.send(END, 3)
    peer.connection.resume_writing()
    peer.send(END, 3)

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION, 41]


async def test_questions_are_heard_for_each_transactional_id():
    peer, coordinator = connected()
    peer.send(END, 3)
    coordinator.refuse(0, 41)
    await written()
    peer.send(OTHER_END, 3)

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION]


async def test_refusal_that_is_not_the_guards_is_no_question():
    peer, coordinator = connected()
    peer.send(END, 3)
    coordinator.refuse(0, NO_QUESTION)
    await written()
    peer.send(END, 3)

    assert coordinator.heard == [NO_QUESTION, NO_QUESTION]


def questions_of(role, about, numbers):
    questions, call = GuardQuestions(), object()
    for number in numbers:
        questions.asked(call, role, about(number), number)
        questions.is_leaving(call)
        questions.written(has_read_part=False)
    return questions


def test_coordinators_of_transactions_and_of_groups_ask_apart():
    questions = questions_of(COORDINATOR, lambda number: "checkout", [41])

    assert questions.heard(COORDINATOR, "checkout") == 41
    assert questions.heard(ProcessRole.GROUPS, "checkout") == NO_QUESTION


def test_memory_of_a_connection_is_bounded():
    questions = questions_of(COORDINATOR, str, range(1, MOST_HEARD + 2))

    assert questions.heard(COORDINATOR, "1") == NO_QUESTION
    assert questions.heard(COORDINATOR, str(MOST_HEARD + 1)) == MOST_HEARD + 1


# Which requests say by which connection they come

TOPICS = [TopicImage(name, bytes(16), {}, (PartitionImage(1, 0, (1,), (1,)),)) for name in ("orders", CONSUMER_OFFSETS)]
OFFSETS = (TxnOffsetCommitRequestTopic("orders", bytes(16), (TxnOffsetCommitRequestPartition(0, 5),)),)
ADD = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="checkout",
    v3_and_below_producer_id=7,
    v3_and_below_producer_epoch=0,
    v3_and_below_topics=(AddPartitionsToTxnTopic("orders", (0,)),),
)


@pytest.mark.parametrize(
    ("request_sent", "version"),
    [
        (InitProducerIdRequest("checkout", 60_000), 4),
        (ADD, 3),
        (AddOffsetsToTxnRequest("checkout", 7, 0, "billing"), 3),
        (END, 3),
        (END, 5),
        (TxnOffsetCommitRequest("checkout", "billing", 7, 0, topics=OFFSETS), 3),
        (TxnOffsetCommitRequest("checkout", "billing", 7, 0, topics=OFFSETS), 5),
    ],
    ids=["init", "add partitions", "add offsets", "end", "end in version 2", "offsets", "offsets in version 2"],
)
async def test_request_says_by_which_connection_it_comes_until_that_is_closed(request_sent, version):
    listener = make_listener(roles=("coordinator", "groups"), topics=TOPICS)
    listener.context.peers = coordinator = Coordinator()
    peers = [Peer(listener), Peer(listener), Peer(listener)]
    for peer in peers[:2]:
        peer.send(request_sent, version)
    first, second = (message.client.number for message, _ in coordinator.asked)
    assert first != second

    for peer in peers:
        peer.connection.connection_lost(None)

    assert listener.context.closed_connections == [first, second], (
        "of a connection without such requests nothing is said"
    )
    # An answer that comes too late for its client is dropped.
    kind = OffsetsCommitted if isinstance(request_sent, TxnOffsetCommitRequest) else Reply
    coordinator.asked[0][1](kind(0, REFUSED, question=41))


async def test_producer_without_transactions_says_no_connection():
    listener = make_listener(roles=("coordinator",))
    listener.context.peers = coordinator = Coordinator()

    Peer(listener).send(InitProducerIdRequest(None, 60_000), 4)

    assert coordinator.asked[0][0].client is None
