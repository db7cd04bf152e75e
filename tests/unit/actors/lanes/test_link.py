"""A link: what is asked in one turn goes out together, and every question is answered once."""

import asyncio

import pytest

from eagleray.actors.lanes.link import SESSION_SHIFT, Link
from eagleray.actors.messages import Misdirected
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
    return Link(asyncio.get_running_loop(), SESSION, sent.append, timeout_s=timeout_s)


def answer_to(question):
    return BlockAllocated(question.request_id, ErrorCode.NONE, 0, 1000)


def test_what_is_asked_in_one_turn_goes_out_together(run):
    async def scenario():
        sent = Sent()
        link = open_link(sent)
        link.ask(lambda _: None, AllocateBlock)
        link.ask(lambda _: None, AllocateBlock)
        assert sent == []
        await a_turn()
        link.ask(lambda _: None, AllocateBlock)
        await a_turn()
        assert [len(frame) for frame in sent] == [2, 1]

    run(scenario())


def test_whoever_gathers_asks_last_and_together_with_the_others(run):
    async def scenario():
        sent = Sent()
        link = open_link(sent)
        wanted = []
        link.gather(lambda: [link.ask(None, AllocateBlock) for _ in wanted])
        link.ask(lambda _: None, AllocateBlock)
        wanted += [1, 2]
        await a_turn()
        await a_turn()
        assert [len(frame) for frame in sent] == [3]

    run(scenario())


def test_whoever_gathers_is_called_once_even_where_the_link_has_broken(run):
    async def scenario():
        sent, called = Sent(), []
        link = open_link(sent)
        link.gather(lambda: called.append("once"))
        link.break_off()
        await a_turn()
        link.gather(lambda: called.append("again"))
        await a_turn()
        assert (sent, called) == ([], ["once", "again"])

    run(scenario())


def test_request_ids_carry_the_session_and_are_never_used_twice(run):
    async def scenario():
        sent = Sent()
        link = open_link(sent)
        for _ in range(3):
            link.ask(lambda _: None, AllocateBlock)
        await a_turn()
        ids = [message.request_id for message in sent[0]]
        assert len(set(ids)) == 3
        assert {request_id >> SESSION_SHIFT for request_id in ids} == {SESSION}

    run(scenario())


def test_answers_find_whoever_asked_in_any_order(run):
    async def scenario():
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

    run(scenario())


def test_a_second_answer_to_the_same_question_is_dropped(run):
    async def scenario():
        sent, got = Sent(), []
        link = open_link(sent)
        link.ask(got.append, AllocateBlock)
        await a_turn()
        link.received([answer_to(sent[0][0]), answer_to(sent[0][0])])
        assert len(got) == 1

    run(scenario())


def test_a_misdirected_question_counts_as_unanswered(run):
    async def scenario():
        sent, got = Sent(), []
        link = open_link(sent)
        link.ask(got.append, AllocateBlock)
        await a_turn()
        link.received([Misdirected(sent[0][0].request_id)])
        assert got == [None]

    run(scenario())


def test_breaking_off_answers_every_open_question_with_none_but_not_at_once(run):
    async def scenario():
        got = []
        link = open_link(Sent())
        link.ask(got.append, AllocateBlock)
        await a_turn()
        link.ask(got.append, AllocateBlock)
        link.break_off()
        assert got == []
        await a_turn()
        assert got == [None, None]

    run(scenario())


def test_a_broken_link_sends_nothing_and_answers_none(run):
    async def scenario():
        sent, got = Sent(), []
        link = open_link(sent)
        link.ask(got.append, AllocateBlock)
        link.break_off()
        link.ask(got.append, AllocateBlock)
        assert got == []
        await a_turn()
        assert (got, sent) == ([None, None], [])

    run(scenario())


def test_what_is_open_for_too_long_is_answered_with_none_and_the_rest_is_not(run):
    async def scenario():
        sent, got = Sent(), []
        link = open_link(sent, timeout_s=0.0)
        link.ask(lambda reply: got.append(("old", reply)), AllocateBlock)
        await a_turn()
        link.ask(lambda reply: got.append(("new", reply)), AllocateBlock)
        # The second question has not even gone out.
        link.expire()
        await a_turn()
        assert got == [("old", None)]

    run(scenario())


def test_an_answer_in_time_is_not_followed_by_the_expiry(run):
    async def scenario():
        sent, got = Sent(), []
        link = open_link(sent, timeout_s=0.0)
        link.ask(got.append, AllocateBlock)
        await a_turn()
        link.received([answer_to(sent[0][0])])
        link.expire()
        await a_turn()
        assert [type(reply) for reply in got] == [BlockAllocated]

    run(scenario())


def test_what_is_told_without_waiting_leaves_nothing_open(run):
    async def scenario():
        sent = Sent()
        link = open_link(sent)
        link.ask(None, AllocateBlock)
        await a_turn()
        assert (len(sent[0]), len(link)) == (1, 0)
        link.received([answer_to(sent[0][0])])
        link.break_off()
        link.ask(None, AllocateBlock)
        await a_turn()

    run(scenario())


def test_a_link_is_silent_while_somebody_waits_and_nobody_is_answered(run):
    async def scenario():
        sent = Sent()
        link = open_link(sent)
        await asyncio.sleep(0.02)
        assert not link.is_silent(0.01), "nobody waits"
        link.ask(lambda _: None, AllocateBlock)
        link.ask(lambda _: None, AllocateBlock)
        assert not link.is_silent(0.01), "it has only just been asked"
        await asyncio.sleep(0.02)
        assert link.is_silent(0.01)
        link.received([answer_to(sent[0][0])])
        assert not link.is_silent(0.01), "it has answered somebody"
        await asyncio.sleep(0.02)
        assert link.is_silent(0.01)
        link.break_off()
        assert not link.is_silent(0.01), "nothing more is expected of it"

    run(scenario())
