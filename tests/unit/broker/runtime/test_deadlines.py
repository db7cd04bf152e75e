"""Deadlines: what is due when, and what it costs to change one's mind."""

import random

from eagleray.broker.runtime.deadlines import NEVER_MS, Deadlines


def test_deadlines_are_taken_in_their_order_once_they_are_due():
    deadlines = Deadlines()
    for key, due_ms in (("late", 30), ("first", 10), ("second", 20)):
        deadlines.set(key, due_ms)
    assert deadlines.next_due_ms == 10
    assert deadlines.take_due(9) == []
    assert deadlines.take_due(20) == ["first", "second"]
    assert deadlines.next_due_ms == 30
    assert deadlines.take_due(100) == ["late"]
    assert deadlines.next_due_ms == NEVER_MS
    assert not deadlines


def test_deadlines_at_one_time_are_taken_in_the_order_in_which_they_were_set():
    deadlines = Deadlines()
    for key in ("b", "a", "c"):
        deadlines.set(key, 10)
    assert deadlines.take_due(10, limit=1) == ["b"]
    assert deadlines.take_due(10) == ["a", "c"]


def test_a_deadline_is_moved_both_ways_and_cancelled():
    deadlines = Deadlines()
    deadlines.set("key", 10)
    deadlines.set("key", 30)
    assert (deadlines.next_due_ms, deadlines.due_ms("key")) == (30, 30)
    assert deadlines.take_due(29) == []
    deadlines.set("key", 20)
    assert deadlines.next_due_ms == 20
    deadlines.cancel("key")
    assert "key" not in deadlines
    assert deadlines.due_ms("key") == NEVER_MS
    assert deadlines.take_due(100) == []
    deadlines.set("key", 10)
    deadlines.set("key", NEVER_MS)
    assert deadlines.next_due_ms == NEVER_MS
    deadlines.set("key", 10)
    deadlines.clear()
    assert deadlines.take_due(100) == []


def test_a_deadline_that_was_moved_away_and_back_is_taken_once():
    deadlines = Deadlines()
    for due_ms in (10, 20, 10):
        deadlines.set("key", due_ms)
    assert deadlines.take_due(100) == ["key"]
    assert deadlines.take_due(100) == []


def test_set_by_moves_a_deadline_only_forward():
    deadlines = Deadlines()
    deadlines.set_by("key", 20)
    deadlines.set_by("key", 30)
    assert deadlines.next_due_ms == 20
    deadlines.set_by("key", 10)
    assert deadlines.next_due_ms == 10


def test_a_key_that_is_set_while_others_are_taken_waits_for_the_next_time():
    """Also if its deadline lies in the past: taking what is due always ends."""
    deadlines = Deadlines()
    deadlines.set("key", 10)
    for key in deadlines.take_due(10):
        deadlines.set(key, 5)
    assert deadlines.take_due(10) == ["key"]


def test_the_heap_does_not_grow_with_what_was_moved_or_cancelled():
    deadlines = Deadlines()
    for due_ms in range(10_000):
        deadlines.set("moved", due_ms)
        deadlines.set(due_ms, 10**6)
        deadlines.cancel(due_ms)
    assert len(deadlines) == 1
    assert len(deadlines._heap) < 40


def test_waiter_for_the_first_deadline_hears_when_there_is_an_earlier_one():
    heard = []
    deadlines = Deadlines(heard.append)
    for key, due_ms in (("a", 20), ("b", 30), ("c", 10), ("c", 40), ("d", 20), ("d", 15)):
        deadlines.set(key, due_ms)
    assert heard == [20, 10, 15]


def test_deadlines_are_what_a_dictionary_says_whatever_is_done():
    chance = random.Random(7)
    deadlines, model, now_ms = Deadlines(), {}, 0
    for _ in range(5_000):
        key, due_ms = chance.randrange(20), now_ms + chance.randrange(-5, 50)
        match chance.randrange(4):
            case 0:
                deadlines.cancel(key)
                model.pop(key, None)
            case 1:
                deadlines.set_by(key, due_ms)
                model[key] = min(model.get(key, due_ms), due_ms)
            case 2:
                deadlines.set(key, due_ms)
                model[key] = due_ms
            case 3:
                now_ms += chance.randrange(10)
                due = deadlines.take_due(now_ms)
                assert sorted(due) == sorted(key for key, each_ms in model.items() if each_ms <= now_ms)
                assert [model[key] for key in due] == sorted(model.pop(key) for key in due)
        assert deadlines.next_due_ms == min(model.values(), default=NEVER_MS)
        assert len(deadlines) == len(model)
