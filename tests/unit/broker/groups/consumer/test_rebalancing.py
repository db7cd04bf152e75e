"""Members come and go, and partitions follow them: given up first, then given away."""

import pytest

from eagleray.broker.groups.consumer.member import MemberState
from eagleray.broker.groups.consumer.partitions import from_topics
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import GROUP, Consumer, GroupWorld, parts, settle, wire


def told(response) -> frozenset:
    return from_topics(response.assignment.topic_partitions)


def test_the_first_member_gets_everything_at_once():
    world = GroupWorld()
    response = world.join("a")
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("a", 1, 5000)
    assert told(response) == parts("orders", 0, 1, 2, 3)
    assert (world.state.epoch, world.state.assignment_epoch, world.state.status) == (1, 1, "Stable")


def test_a_heartbeat_without_news_writes_nothing_and_tells_nothing():
    world = GroupWorld()
    world.join("a")
    written = len(world.log)
    response = world.send(member_id="a", member_epoch=1)
    assert (response.error_code, response.member_epoch, response.assignment) == (0, 1, None)
    assert len(world.log) == written


def test_a_full_heartbeat_is_told_everything_again():
    world = GroupWorld()
    world.join("a")
    owned = wire(parts("orders", 0, 1, 2, 3))
    response = world.join("a", member_epoch=1, topic_partitions=owned)
    assert told(response) == parts("orders", 0, 1, 2, 3)


def test_a_partition_is_given_away_only_when_its_owner_has_given_it_up():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    first.beat()
    second.beat()
    # The second is at the new epoch, and waits; the first stays in its epoch until it has given something up.
    assert (second.epoch, second.owned) == (2, frozenset())
    assert world.member("b").state is MemberState.UNRELEASED_PARTITIONS
    first.beat()
    assert (first.epoch, first.owned) == (1, parts("orders", 0, 1))
    assert world.member("a").state is MemberState.UNREVOKED_PARTITIONS
    assert world.state.status == "Reconciling"
    # As long as it says that it still owns them, or says nothing, the other goes on waiting.
    first.beat(gives_up=False)
    world.send(member_id="a", member_epoch=1)
    second.beat()
    assert second.owned == frozenset()
    first.beat()
    assert (first.epoch, world.member("a").state) == (2, MemberState.STABLE)
    second.beat()
    assert second.owned == parts("orders", 2, 3)
    assert world.state.status == "Stable"


def test_partitions_of_a_leaving_member_go_to_the_others():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first, second)
    response = world.send(member_id="b", member_epoch=-1)
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "b", -1)
    assert world.state.status == "Assigning"
    first.beat()
    assert (first.epoch, first.owned) == (3, parts("orders", 0, 1, 2, 3))


def test_the_last_member_leaves_an_empty_group():
    world = GroupWorld()
    consumer = Consumer(world, "a")
    settle(consumer)
    assert consumer.leave() is ErrorCode.NONE
    assert world.state.status == "Empty"
    assert (world.state.members, world.state.targets, world.state.holders) == ({}, {}, {})
    assert consumer.beat() is ErrorCode.NONE
    assert consumer.epoch == world.state.epoch == 3


def test_client_that_leaves_without_being_a_member_is_told_so():
    world = GroupWorld()
    world.join("a")
    assert world.send(member_id="b", member_epoch=-1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_newer_target_overtakes_a_revocation():
    world = GroupWorld()
    first, second, third = (Consumer(world, name) for name in "abc")
    settle(first, second)
    third.beat()
    first.beat()
    third.leave()
    second.beat()
    settle(first, second)
    assert first.owned | second.owned == parts("orders", 0, 1, 2, 3)
    assert not first.owned & second.owned


def test_a_partition_that_is_given_up_may_come_back_at_once():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    assert world.member("a").to_revoke == parts("orders", 2, 3)
    second.leave()
    first.beat()
    assert (first.epoch, first.owned) == (3, parts("orders", 0, 1, 2, 3))
    assert first.beat() is ErrorCode.NONE


@pytest.mark.parametrize("is_new", [True, False])
def test_a_change_of_subscription_is_an_epoch(is_new: bool):
    world = GroupWorld({"orders": 2, "payments": 1})
    world.join("a")
    names = ("orders", "payments") if is_new else ("orders",)
    response = world.send(member_id="a", member_epoch=1, subscribed_topic_names=names)
    assert response.member_epoch == world.state.epoch == 1 + is_new
    assert (response.assignment is not None) == is_new


def test_other_changes_of_a_member_are_kept_without_an_epoch():
    world = GroupWorld()
    world.join("a")
    world.send(member_id="a", member_epoch=1, rack_id="r1", server_assignor="range", rebalance_timeout_ms=5)
    member = world.member("a")
    assert (member.rack_id, member.server_assignor, member.rebalance_timeout_ms) == ("r1", "range", 5)
    assert (member.client_id, member.client_host) == ("client-1", "/127.0.0.1")
    assert world.state.epoch == 1


def test_the_assignor_that_most_ask_for_assigns():
    world = GroupWorld({"orders": 2, "payments": 2})
    for name, assignor in (("a", "range"), ("b", "uniform"), ("c", "range")):
        settle(Consumer(world, name, "orders", "payments", server_assignor=assignor), rounds=1)
    assert world.groups.describe(GROUP).assignor_name == "range"
    assert world.state.targets["c"] == frozenset()


# Topics


def test_a_topic_that_appears_grows_or_goes_is_an_epoch():
    world = GroupWorld({})
    consumer = Consumer(world, "a", "orders")
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (1, frozenset())
    world.set_topics({"orders": 1})
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (2, parts("orders", 0))
    world.set_topics({"orders": 2})
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (3, parts("orders", 0, 1))
    world.set_topics({})
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (4, frozenset())


def test_a_topic_that_is_created_again_is_another():
    world = GroupWorld({"orders": 1})
    consumer = Consumer(world, "a")
    settle(consumer)
    world.set_topics({"orders": 1}, incarnation=1)
    settle(consumer)
    assert consumer.owned == parts("orders", 0, incarnation=1)


def test_topics_without_subscribers_change_nothing():
    world = GroupWorld()
    consumer = Consumer(world, "a")
    settle(consumer)
    written = len(world.log)
    world.set_topics({"orders": 4, "payments": 1})
    settle(consumer)
    assert (consumer.epoch, len(world.log)) == (1, written)


def test_change_of_topics_while_no_node_coordinated_is_noticed():
    world = GroupWorld({"orders": 1})
    consumer = Consumer(world, "a")
    settle(consumer)
    world.set_topics({"orders": 2})
    world.restart()
    settle(consumer)
    assert (consumer.epoch, consumer.owned) == (2, parts("orders", 0, 1))


def test_a_decision_that_the_log_refuses_changes_nothing_and_is_made_again():
    world = GroupWorld({"orders": 1})
    consumer = Consumer(world, "a")
    settle(consumer)
    world.set_topics({"orders": 2})
    before = world.state.copy()
    decision = world.decide(member_id="a", member_epoch=1)
    assert decision.records
    assert world.state == before
    settle(consumer)
    assert consumer.owned == parts("orders", 0, 1)
