"""Static members leave for a while, and their successors find their partitions where they left them."""

import pytest

from eagleray.broker.groups.consumer.partitions import from_topics
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import Consumer, GroupWorld, parts, settle

ALL = parts("orders", 0, 1, 2, 3)


def static(world: GroupWorld, member_id: str, instance_id: str = "one") -> Consumer:
    return Consumer(world, member_id, instance_id=instance_id)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def test_a_successor_gets_the_same_partitions_without_a_new_epoch(world: GroupWorld):
    first, other = static(world, "a"), Consumer(world, "b")
    settle(first, other)
    epoch, owned = world.state.epoch, first.owned
    response = world.send(member_id="a", member_epoch=-2, instance_id="one")
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", -2)
    assert world.state.status == "Reconciling"
    settle(other)
    assert not other.owned & owned
    successor = static(world, "c")
    settle(successor, other)
    assert (successor.epoch, successor.owned) == (epoch, owned)
    assert set(world.state.members) == {"b", "c"}
    assert world.state.status == "Stable"


def test_a_static_member_may_come_back_under_its_old_member_id(world: GroupWorld):
    first = static(world, "a")
    settle(first)
    first.leave(-2)
    settle(first)
    assert (first.epoch, first.owned) == (1, ALL)


def test_a_static_member_that_was_fenced_joins_again(world: GroupWorld):
    first = static(world, "a")
    settle(first)
    first.abandon()
    settle(first)
    assert first.owned == ALL


def test_instance_id_with_a_holder_is_not_released(world: GroupWorld):
    settle(static(world, "a"))
    assert static(world, "b").beat() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert set(world.state.members) == {"a"}


def test_the_member_that_was_replaced_is_fenced(world: GroupWorld):
    first, successor = static(world, "a"), static(world, "b")
    settle(first)
    world.send(member_id="a", member_epoch=-2, instance_id="one")
    settle(successor)
    assert first.beat() is ErrorCode.FENCED_INSTANCE_ID
    assert first.leave() is ErrorCode.FENCED_INSTANCE_ID
    assert successor.beat() is ErrorCode.NONE


def test_instance_id_without_a_holder_is_unknown(world: GroupWorld):
    settle(static(world, "a"))
    response = world.send(member_id="b", member_epoch=1, instance_id="two")
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_of_a_member_that_has_left_for_a_while_are_fenced(world: GroupWorld):
    settle(static(world, "a"))
    world.send(member_id="a", member_epoch=-2, instance_id="one")
    response = world.send(member_id="a", member_epoch=1, instance_id="one")
    assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_successor_may_want_other_topics():
    world = GroupWorld({"orders": 1, "payments": 1})
    first = static(world, "a")
    settle(first)
    first.leave(-2)
    response = world.join("b", "payments", instance_id="one")
    assert response.member_epoch == world.state.epoch == 2
    assert from_topics(response.assignment.topic_partitions) == parts("payments", 0)


def test_partitions_that_a_leaving_static_member_was_to_give_up_are_free(world: GroupWorld):
    first, second = static(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    assert world.member("a").to_revoke
    world.send(member_id="a", member_epoch=-2, instance_id="one")
    second.beat()
    assert second.owned == parts("orders", 2, 3)
    successor = static(world, "c")
    settle(successor, second)
    assert successor.owned == parts("orders", 0, 1)


def test_a_static_member_may_leave_for_good(world: GroupWorld):
    first = static(world, "a")
    settle(first)
    first.leave(-1)
    assert (world.state.members, world.state.static_members) == ({}, {})


def test_one_that_does_not_come_back_is_out_when_its_session_ends(world: GroupWorld):
    first, other = static(world, "a"), Consumer(world, "b")
    settle(first, other)
    first.leave(-2)
    world.pass_time(44_999)
    settle(other)
    assert len(world.state.members) == 2
    world.pass_time(1)
    settle(other)
    assert other.owned == ALL


def test_commits_of_a_member_that_is_away_are_stale(world: GroupWorld):
    settle(static(world, "a"))
    world.send(member_id="a", member_epoch=-2, instance_id="one")
    group = world.groups.groups["billing"]
    assert group.check_commit(1, "a", "one", is_transactional=False) is ErrorCode.STALE_MEMBER_EPOCH
