"""A link: what is asked in one turn goes out together, and every question is answered once."""

import asyncio

import pytest

from eagleray.actors.lanes.link import SESSION_SHIFT, Link
from eagleray.actors.lanes.messages import Misdirected
from eagleray.actors.lanes.turn import Turn
from eagleray.broker.transactions.producer_ids import AllocateBlock, BlockAllocated
from eagleray.protocol.errors import ErrorCode

SESSION = 7


class Sent(list):
    """What went out, one entry a frame."""


@pytest.fixture
def run():
    return asyncio.run


async def a_turn():
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def open_link(sent, timeout_s=30.0):
    return Link(Turn(asyncio.get_running_loop()), SESSION, sent.append, timeout_s=timeout_s)


def answer_to(question):
    return BlockAllocated(question.request_id, ErrorCode.NONE, 0, 1000)


async def test_questions_of_one_turn_go_out_together():
    sent = Sent()
    link = open_link(sent)
    link.ask(lambda _: None, AllocateBlock)
    link.ask(lambda _: None, AllocateBlock)
    assert sent == []
    await a_turn()
    link.ask(lambda _: None, AllocateBlock)
    await a_turn()
    assert [len(frame) for frame in sent] == [2, 1]


async def test_gatherer_asks_last_and_together_with_the_others():
    sent = Sent()
    link = open_link(sent)
    wanted = []
    link.gather(lambda: [link.ask(None, AllocateBlock) for _ in wanted])
    link.ask(lambda _: None, AllocateBlock)
    wanted += [1, 2]
    await a_turn()
    await a_turn()
    assert [len(frame) for frame in sent] == [3]


async def test_gatherer_is_called_once_even_where_the_link_has_broken():
    sent, called = Sent(), []
    link = open_link(sent)
    link.gather(lambda: called.append("once"))
    link.break_off()
    await a_turn()
    link.gather(lambda: called.append("again"))
    await a_turn()
    assert (sent, called) == ([], ["once", "again"])


async def test_request_ids_carry_the_session_and_are_never_used_twice():
    sent = Sent()
    link = open_link(sent)
    for _ in range(3):
        link.ask(lambda _: None, AllocateBlock)
    await a_turn()
    ids = [message.request_id for message in sent[0]]
    assert len(set(ids)) == 3
    assert {request_id >> SESSION_SHIFT for request_id in ids} == {SESSION}


async def test_answers_find_their_questions_in_any_order():
    sent, got = Sent(), []
    link = open_link(sent)
    link.ask(lambda reply: got.append(("first", reply.request_id)), AllocateBlock)
    link.ask(lambda reply: got.append(("second", reply.request_id)), AllocateBlock)
    await a_turn()
    first, second = sent[0]
    link.received([answer_to(second)])
    link.received([answer_to(first)])
    assert got == [("second", second.request_id), ("first", first.request_id)]
    assert len(link) == 0


async def test_a_second_answer_to_the_same_question_is_dropped():
    sent, got = Sent(), []
    link = open_link(sent)
    link.ask(got.append, AllocateBlock)
    await a_turn()
    link.received([answer_to(sent[0][0]), answer_to(sent[0][0])])
    assert len(got) == 1


async def test_a_misdirected_question_counts_as_unanswered():
    sent, got = Sent(), []
    link = open_link(sent)
    link.ask(got.append, AllocateBlock)
    await a_turn()
    link.received([Misdirected(sent[0][0].request_id)])
    assert got == [None]


async def test_breaking_off_answers_every_open_question_with_none_but_not_at_once():
    got = []
    link = open_link(Sent())
    link.ask(got.append, AllocateBlock)
    await a_turn()
    link.ask(got.append, AllocateBlock)
    link.break_off()
    assert got == []
    await a_turn()
    assert got == [None, None]


async def test_a_broken_link_sends_nothing_and_answers_none():
    sent, got = Sent(), []
    link = open_link(sent)
    link.ask(got.append, AllocateBlock)
    link.break_off()
    link.ask(got.append, AllocateBlock)
    assert got == []
    await a_turn()
    assert (got, sent) == ([None, None], [])


async def test_overdue_questions_are_answered_with_none_and_the_rest_are_not():
    sent, got = Sent(), []
    link = open_link(sent, timeout_s=0.0)
    link.ask(lambda reply: got.append(("old", reply)), AllocateBlock)
    await a_turn()
    link.ask(lambda reply: got.append(("new", reply)), AllocateBlock)
    # The second question has not even gone out.
    link.expire()
    await a_turn()
    assert got == [("old", None)]


async def test_an_answer_in_time_is_not_followed_by_the_expiry():
    sent, got = Sent(), []
    link = open_link(sent, timeout_s=0.0)
    link.ask(got.append, AllocateBlock)
    await a_turn()
    link.received([answer_to(sent[0][0])])
    link.expire()
    await a_turn()
    assert [type(reply) for reply in got] == [BlockAllocated]


async def test_link_expires_when_its_oldest_open_question_does_and_not_where_none_is_open():
    sent = Sent()
    link, loop = open_link(sent, timeout_s=60.0), asyncio.get_running_loop()
    assert link.expires_at is None
    asked_at = loop.time()
    link.ask(lambda _: None, AllocateBlock)
    assert link.expires_at >= asked_at + 60, "it has not gone out"
    await a_turn()
    first = link.expires_at
    # It shares its deadline with whatever goes out within a second.
    assert asked_at + 60 <= first <= loop.time() + 61
    link.ask(lambda _: None, AllocateBlock)
    await a_turn()
    assert link.expires_at == first
    link.received([answer_to(sent[0][0])])
    assert link.expires_at == first
    link.received([answer_to(sent[1][0])])
    assert link.expires_at is None
    link.ask(lambda _: None, AllocateBlock)
    await a_turn()
    assert link.expires_at >= first
    link.break_off()
    assert link.expires_at is None


async def test_answered_questions_leave_no_deadlines_behind():
    sent = Sent()
    link = open_link(sent, timeout_s=0.0)
    for number in range(100):
        link.ask(lambda _: None, AllocateBlock)
        await a_turn()
        link.received([answer_to(sent[number][0])])
    link.ask(lambda _: None, AllocateBlock)
    await a_turn()
    link.expires_at  # noqa: B018 - it looks at the oldest
    assert len(link._deadlines) == 1


async def test_message_without_a_callback_leaves_nothing_open():
    sent = Sent()
    link = open_link(sent)
    link.ask(None, AllocateBlock)
    await a_turn()
    assert (len(sent[0]), len(link)) == (1, 0)
    link.received([answer_to(sent[0][0])])
    link.break_off()
    link.ask(None, AllocateBlock)
    await a_turn()


async def test_link_says_since_when_an_asker_waits_and_none_is_answered():
    sent, loop = Sent(), asyncio.get_running_loop()
    link = open_link(sent)
    await asyncio.sleep(0.02)
    assert link.waiting_since is None, "nobody waits"
    asked_at = loop.time()
    link.ask(lambda _: None, AllocateBlock)
    assert asked_at <= link.waiting_since <= loop.time(), "it has only just been asked"
    since = link.waiting_since
    await asyncio.sleep(0.02)
    link.ask(lambda _: None, AllocateBlock)
    await a_turn()
    assert link.waiting_since == since
    answered_at = loop.time()
    link.received([answer_to(sent[0][0])])
    assert answered_at <= link.waiting_since <= loop.time(), "it has answered somebody"
    await asyncio.sleep(0.02)
    assert link.waiting_since < loop.time() - 0.01
    link.break_off()
    assert link.waiting_since is None, "nothing more is expected of it"
