"""A question that is repeated, without a loop: the test is the peers, the timers and the clock."""

import pytest

from eagleray.actors.lanes.messages import Malformed
from eagleray.broker.metadata.nodes import NO_NODE
from eagleray.broker.transactions.events import InitProducerId, Reply
from eagleray.client.calls import Question, RepeatedCall
from eagleray.client.errors import InvalidArgument, NodeUnreachable, NotConnected, ProducerFenced, RetriableError
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.errors import ErrorCode

POLICY = RetryPolicy(total_ms=1000, request_ms=300, backoff_ms=10, backoff_max_ms=40)


class World:
    """All that a repeated call needs of its runtime, its view and its peers."""

    def __init__(self, retry_policy=POLICY):
        self.time_ms = self.node_id = self.refreshes = 0
        self.unreachable = None
        self.asked, self.pauses, self.outcomes = [], [], []
        self.peers = self.view = self
        self.call = RepeatedCall(self, lambda: self.node_id, "asking", self.outcomes.append, retry_policy=retry_policy)
        self.call.ask(Question(InitProducerId, "billing", 60_000))

    def now_ms(self):
        return self.time_ms

    def ask(self, node_id, on_reply, message_type, *fields):
        assert (message_type, fields) == (InitProducerId, ("billing", 60_000))
        self.asked.append((node_id, on_reply))

    def later(self, delay_ms, callback):
        self.pauses.append((delay_ms, callback))

    def refresh(self):
        self.refreshes += 1

    def why_unreachable(self, _node_id):
        return self.unreachable

    def answer(self, error_code):
        self.asked[-1][1](Reply(1, error_code))

    def pause_over(self):
        delay_ms, go_on = self.pauses[-1]
        self.time_ms += delay_ms
        go_on()


def test_answer_is_told_once():
    world = World()
    world.answer(ErrorCode.NONE)
    world.answer(ErrorCode.NONE)
    assert world.outcomes == [Reply(1, ErrorCode.NONE)]
    assert not world.call.tick(10_000)


def test_pauses_grow_up_to_the_longest_and_begin_anew_with_the_next_question():
    world = World()
    for _ in range(4):
        world.answer(ErrorCode.NOT_COORDINATOR)
        world.pause_over()
    world.call.ask(Question(InitProducerId, "billing", 60_000))
    world.answer(ErrorCode.NOT_COORDINATOR)
    assert [delay_ms for delay_ms, _ in world.pauses] == [10, 20, 40, 40, 10]


@pytest.mark.parametrize(
    ("error_code", "refreshes"), [(ErrorCode.CONCURRENT_TRANSACTIONS, 0), (ErrorCode.NOT_COORDINATOR, 1)]
)
def test_metadata_are_asked_for_where_the_wrong_node_was_asked(error_code, refreshes):
    world = World()
    world.answer(error_code)
    assert world.refreshes == refreshes


def test_node_that_is_responsible_by_then_is_asked():
    world = World()
    world.answer(ErrorCode.NOT_COORDINATOR)
    world.node_id = 7
    world.pause_over()
    assert [node_id for node_id, _ in world.asked] == [0, 7]


def test_silent_attempt_is_given_up_and_its_late_answer_is_ignored():
    world = World()
    assert world.call.tick(299)
    assert not world.pauses
    world.time_ms = 300
    assert world.call.tick(300)
    world.answer(ErrorCode.NONE)
    assert not world.outcomes
    world.pause_over()
    world.answer(ErrorCode.NONE)
    assert len(world.outcomes) == 1


def test_pause_is_not_taken_for_a_silent_attempt():
    world = World(RetryPolicy(total_ms=1000, request_ms=5, backoff_ms=50))
    world.answer(ErrorCode.NOT_COORDINATOR)
    world.call.tick(40)
    assert len(world.pauses) == 1


@pytest.mark.parametrize(
    ("unreachable", "error"), [(None, NotConnected), ("node 0 cannot be reached", NodeUnreachable)]
)
def test_last_problem_is_told_when_the_time_is_over(unreachable, error):
    world = World()
    world.unreachable = unreachable
    world.answer(ErrorCode.NOT_COORDINATOR)
    world.pause_over()
    world.time_ms = 1000
    world.call.tick(1000)
    assert [type(outcome) for outcome in world.outcomes] == [error]


def test_no_time_is_left_for_a_pause_beyond_the_end():
    world = World()
    world.time_ms = 995
    world.answer(ErrorCode.NOT_COORDINATOR)
    assert world.pauses[0][0] == 5
    world.pause_over()
    world.answer(ErrorCode.NOT_COORDINATOR)
    assert isinstance(world.outcomes[0], RetriableError)


def test_unknown_node_is_looked_for():
    world = World()
    world.node_id = NO_NODE
    world.call.ask(Question(InitProducerId, "billing", 60_000))
    assert (len(world.asked), len(world.pauses), world.refreshes) == (1, 1, 1)


@pytest.mark.parametrize(
    ("reply", "error"),
    [(Reply(1, ErrorCode.PRODUCER_FENCED), ProducerFenced), (Malformed(1, "a text is no number"), InvalidArgument)],
)
def test_refusal_for_good_is_told_at_once(reply, error):
    world = World()
    world.asked[0][1](reply)
    assert [type(outcome) for outcome in world.outcomes] == [error]
    assert not world.pauses


def test_cancelled_call_tells_nothing_and_asks_no_more():
    world = World()
    world.call.cancel()
    world.answer(ErrorCode.NONE)
    world.call.ask(Question(InitProducerId, "billing", 60_000))
    world.answer(ErrorCode.NOT_COORDINATOR)
    world.call.cancel()
    world.pause_over()
    assert (world.outcomes, len(world.asked)) == ([], 2)
