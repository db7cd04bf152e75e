"""Members that are not heard from, or do not give up what they have to, are out."""

import pytest

from eagleray.broker.groups.consumer.config import ConsumerGroupConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import GROUP, REBALANCE_TIMEOUT_MS, Consumer, GroupWorld, parts, settle

SESSION_MS = 45_000
ALL = parts("orders", 0, 1, 2, 3)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def test_a_member_is_out_when_its_session_ends(world: GroupWorld):
    consumer = Consumer(world, "a")
    settle(consumer)
    assert world.pass_time(SESSION_MS - 1) == []
    (decision,) = world.pass_time(1)
    assert (decision.group_id, decision.response) == (GROUP, None)
    assert world.state.status == "Empty"
    assert world.state.epoch == 2
    assert consumer.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert consumer.beat() is ErrorCode.NONE


def test_every_heartbeat_begins_a_new_session(world: GroupWorld):
    consumer = Consumer(world, "a")
    for _ in range(3):
        settle(consumer, rounds=1)
        assert world.pass_time(SESSION_MS - 1) == []
    # So does joining again.
    world.join("a")
    assert world.pass_time(SESSION_MS - 1) == []
    # A heartbeat that is refused does not.
    world.send(member_id="a", member_epoch=9)
    assert len(world.pass_time(1)) == 1


def test_all_that_are_late_go_in_one_decision(world: GroupWorld):
    first, second, third = (Consumer(world, name) for name in "abc")
    settle(first, second, third)
    world.pass_time(SESSION_MS - 1)
    settle(third, rounds=1)
    assert len(world.pass_time(1)) == 1
    assert set(world.state.members) == {"c"}
    settle(third)
    assert third.owned == ALL


def test_a_member_that_does_not_give_up_partitions_is_out(world: GroupWorld):
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    waited_ms = 0
    while waited_ms < REBALANCE_TIMEOUT_MS - 10_000:
        assert world.pass_time(10_000) == []
        waited_ms += 10_000
        # Nothing that it says about itself gives it more time.
        world.send(member_id="a", member_epoch=1, rack_id=f"rack-{waited_ms}")
        second.beat()
    world.pass_time(9_999)
    assert set(world.state.members) == {"a", "b"}
    world.pass_time(1)
    assert set(world.state.members) == {"b"}
    settle(second)
    assert second.owned == ALL


def test_a_member_that_gives_up_in_time_stays(world: GroupWorld):
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    settle(first, second)
    for _ in range(3):
        world.pass_time(REBALANCE_TIMEOUT_MS // 2)
        settle(first, second, rounds=1)
    assert set(world.state.members) == {"a", "b"}


def test_members_have_their_full_time_after_a_restart(world: GroupWorld):
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    world.now_ms += 10 * SESSION_MS
    world.restart()
    assert world.pass_time(SESSION_MS - 1) == []
    settle(first, second)
    assert (first.owned, second.owned) == (parts("orders", 0, 1), parts("orders", 2, 3))


def test_after_a_restart_a_revocation_still_has_an_end(world: GroupWorld):
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    # The order in which compaction may leave the records of a member: what it was told before who it is.
    world.log.sort(key=lambda record: -record[0][1])
    world.restart()
    for _ in range(5):
        world.pass_time(10_000)
        first.beat(gives_up=False)
        second.beat()
    assert set(world.state.members) == {"a", "b"}
    world.pass_time(10_000)
    assert set(world.state.members) == {"b"}


def test_members_whose_removal_the_log_refuses_are_found_again(world: GroupWorld):
    settle(Consumer(world, "a"))
    world.now_ms += 2 * SESSION_MS
    assert world.groups.expire(GROUP, world.now_ms).records
    assert len(world.pass_time(0)) == 1
    assert world.pass_time(0) == []


def test_settings_are_checked():
    assert ConsumerGroupConfig().group_consumer_assignors == ("uniform", "range")
    for bad in (
        {"group_consumer_max_size": 0},
        {"group_consumer_heartbeat_interval_ms": 0},
        {"group_consumer_session_timeout_ms": 5_000},
        {"group_consumer_assignors": ()},
        {"group_consumer_assignors": ("sticky",)},
    ):
        with pytest.raises(ValueError, match=r"group\.consumer"):
            ConsumerGroupConfig(**bad)


def test_the_interval_is_the_one_of_the_settings():
    world = GroupWorld(group_consumer_heartbeat_interval_ms=1_234)
    assert world.join("a").heartbeat_interval_ms == 1_234
