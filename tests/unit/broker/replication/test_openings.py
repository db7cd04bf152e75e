"""Which log is opened next, and which opening has come to nothing because the metadata have changed meanwhile."""

import pytest

from eagleray.broker.identities import TopicPartition
from eagleray.broker.replication.openings import Openings, Urgency

A, B, C, D = (TopicPartition("orders", number) for number in range(4))
ID, LATER_ID = b"1" * 16, b"2" * 16


def openings(most_at_once=1, **wanted):
    """Logs that wait, by the names of their partitions."""
    waiting = Openings(most_at_once)
    for name, urgency in wanted.items():
        waiting.want(TopicPartition("orders", "abcd".index(name)), ID, urgency)
    return waiting


def open_all(waiting):
    """Open one after the other; return in which order."""
    order = []
    while (following := waiting.take()) is not None:
        order.append(following.partition)
        waiting.ended(following.partition)
    return order


def test_what_is_asked_for_goes_before_what_is_led_and_that_before_what_is_followed():
    waiting = openings(a=Urgency.FOLLOWED, b=Urgency.LED, c=Urgency.ASKED_FOR, d=Urgency.LED)
    assert open_all(waiting) == [C, B, D, A]


def test_partition_that_a_client_asks_for_while_it_waits_goes_first():
    waiting = openings(a=Urgency.LED, b=Urgency.FOLLOWED)
    waiting.asked_for(B)
    assert open_all(waiting) == [B, A]


def test_partition_that_was_asked_for_stays_so_when_the_metadata_come_again():
    waiting = openings(a=Urgency.LED, b=Urgency.LED)
    waiting.asked_for(B)
    waiting.want(B, ID, Urgency.FOLLOWED)
    assert open_all(waiting) == [B, A]


def test_follower_that_becomes_the_leader_while_it_waits_is_more_urgent():
    waiting = openings(a=Urgency.FOLLOWED, b=Urgency.FOLLOWED)
    waiting.want(B, ID, Urgency.LED)
    assert open_all(waiting) == [B, A]


def test_partition_that_does_not_wait_is_not_opened_because_it_is_asked_for():
    waiting = openings()
    waiting.asked_for(A)
    assert waiting.take() is None
    assert A not in waiting


def test_only_so_many_are_opened_at_a_time():
    waiting = openings(2, a=Urgency.LED, b=Urgency.LED, c=Urgency.LED)
    assert [waiting.take().partition, waiting.take().partition] == [A, B]
    assert waiting.take() is None
    waiting.ended(A)
    assert waiting.take().partition == C
    assert len(waiting) == 2


def test_log_is_not_opened_twice():
    waiting = openings(2, a=Urgency.LED)
    waiting.take()
    waiting.want(A, ID, Urgency.ASKED_FOR)
    assert waiting.take() is None
    waiting.ended(A)
    assert A not in waiting


def test_logs_that_the_node_keeps_no_longer_are_not_opened():
    waiting = openings(a=Urgency.LED, b=Urgency.ASKED_FOR, c=Urgency.FOLLOWED)
    waiting.keep_only({A: ID, C: LATER_ID})
    assert open_all(waiting) == [A]


@pytest.mark.parametrize(
    ("topic_id", "is_of_use"), [(ID, True), (LATER_ID, False), (None, False)], ids=["kept", "made anew", "moved away"]
)
def test_log_is_of_use_where_the_node_still_keeps_it_for_the_same_topic(topic_id, is_of_use):
    waiting = openings(a=Urgency.LED)
    waiting.take()
    assert waiting.is_of_use(A, topic_id) is is_of_use


def test_log_of_a_topic_made_anew_waits_until_the_opening_of_the_old_one_has_ended():
    waiting = openings(2, a=Urgency.LED)
    waiting.take()
    waiting.keep_only({A: LATER_ID})
    waiting.want(A, LATER_ID, Urgency.LED)
    assert waiting.take() is None
    waiting.ended(A)
    assert waiting.take() == (A, LATER_ID)


def test_log_that_waits_behind_an_opening_holds_up_no_other():
    waiting = openings(2, a=Urgency.LED)
    waiting.take()
    waiting.want(A, LATER_ID, Urgency.ASKED_FOR)
    waiting.want(B, ID, Urgency.FOLLOWED)
    assert waiting.take().partition == B


def test_nothing_is_opened_after_the_end_and_what_is_under_way_is_of_no_use():
    waiting = openings(2, a=Urgency.LED, b=Urgency.LED)
    waiting.take()
    waiting.close()
    waiting.want(C, ID, Urgency.ASKED_FOR)
    assert waiting.take() is None
    assert not waiting.is_of_use(A, ID)
