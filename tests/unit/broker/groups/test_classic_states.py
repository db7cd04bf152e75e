"""Every state of a classic group, and what every request means in it."""

from collections.abc import Callable
from itertools import count, product

import pytest

from eagleray.broker.groups.classic.events import GroupJoined, GroupLeft
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.states import VALID_PREVIOUS, GroupState, may_follow
from eagleray.broker.groups.shards import Shard
from eagleray.broker.runtime.deadlines import Deadlines
from eagleray.protocol.errors import ErrorCode
from tests.support.classic_groups import ClassicDriver, reads
from tests.support.groups import ORDERS_0, offset

WAITS = "waits"
Members = tuple[GroupJoined, GroupJoined]


# How to get there, with a leader and a follower that are members, or were


def stable(driver: ClassicDriver) -> Members:
    leader, follower = driver.stable(2)
    return leader, follower


def preparing(driver: ClassicDriver) -> Members:
    members = stable(driver)
    driver.come()
    return members


def completing(driver: ClassicDriver) -> Members:
    leader, follower = (driver.join(member.member_id) for member in stable(driver))
    return driver.joined(leader), driver.joined(follower)


def empty(driver: ClassicDriver) -> Members:
    leader, follower = stable(driver)
    driver.leave(leader.member_id, follower.member_id)
    driver.settle()
    return leader, follower


def dead(driver: ClassicDriver) -> Members:
    members = empty(driver)
    driver.delete_group()
    driver.settle()
    return members


WAYS = {
    GroupState.EMPTY: empty,
    GroupState.PREPARING_REBALANCE: preparing,
    GroupState.COMPLETING_REBALANCE: completing,
    GroupState.STABLE: stable,
    GroupState.DEAD: dead,
}

# What everybody is told, in the order of the states above; once what goes to the log is there.

TOLD = {
    "join_as_new": ("MEMBER_ID_REQUIRED",) * 5,
    "join_in_one_step": ("NONE", WAITS, WAITS, WAITS, "NONE"),
    "join_as_stranger": ("UNKNOWN_MEMBER_ID",) * 5,
    "join_with_nothing_in_common": ("MEMBER_ID_REQUIRED", *("INCONSISTENT_GROUP_PROTOCOL",) * 3, "MEMBER_ID_REQUIRED"),
    "leader_joins": ("UNKNOWN_MEMBER_ID", WAITS, "NONE", WAITS, "UNKNOWN_MEMBER_ID"),
    "follower_joins": ("UNKNOWN_MEMBER_ID", WAITS, "NONE", "NONE", "UNKNOWN_MEMBER_ID"),
    "follower_wants_something_else": ("UNKNOWN_MEMBER_ID", WAITS, WAITS, WAITS, "UNKNOWN_MEMBER_ID"),
    "leader_syncs": ("UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "NONE", "NONE", "UNKNOWN_MEMBER_ID"),
    "follower_syncs": ("UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", WAITS, "NONE", "UNKNOWN_MEMBER_ID"),
    "stranger_syncs": ("UNKNOWN_MEMBER_ID",) * 5,
    "past_syncs": ("UNKNOWN_MEMBER_ID", *("ILLEGAL_GENERATION",) * 3, "UNKNOWN_MEMBER_ID"),
    "heartbeat": ("UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "NONE", "NONE", "UNKNOWN_MEMBER_ID"),
    "past_heartbeat": ("UNKNOWN_MEMBER_ID", *("ILLEGAL_GENERATION",) * 3, "UNKNOWN_MEMBER_ID"),
    "stranger_heartbeat": ("UNKNOWN_MEMBER_ID",) * 5,
    "leave": ("UNKNOWN_MEMBER_ID", "NONE", "NONE", "NONE", "UNKNOWN_MEMBER_ID"),
    "stranger_leaves": ("UNKNOWN_MEMBER_ID",) * 5,
    "member_commits": ("UNKNOWN_MEMBER_ID", "NONE", "REBALANCE_IN_PROGRESS", "NONE", "ILLEGAL_GENERATION"),
    "member_commits_in_transaction": ("UNKNOWN_MEMBER_ID", "NONE", "NONE", "NONE", "ILLEGAL_GENERATION"),
    "nobody_commits": ("NONE", *("UNKNOWN_MEMBER_ID",) * 3, "NONE"),
    "past_commits": ("UNKNOWN_MEMBER_ID", *("ILLEGAL_GENERATION",) * 3, "ILLEGAL_GENERATION"),
    "delete_group": ("NONE", *("NON_EMPTY_GROUP",) * 3, "GROUP_ID_NOT_FOUND"),
    "delete_offsets": ("NONE", *("GROUP_SUBSCRIBED_TO_TOPIC",) * 3, "GROUP_ID_NOT_FOUND"),
}
STRANGER = GroupJoined(0, ErrorCode.NONE, "stranger", 2)


def ask(driver: ClassicDriver, leader: GroupJoined, follower: GroupJoined) -> dict[str, Callable[[], int]]:
    commit = {"generation": leader.generation, "member_id": leader.member_id}
    past = {"generation": leader.generation - 1}
    one = offset(ORDERS_0, 1)
    return {
        "join_as_new": driver.join,
        "join_in_one_step": lambda: driver.join(requires_known_member_id=False),
        "join_as_stranger": lambda: driver.join("stranger"),
        "join_with_nothing_in_common": lambda: driver.join(protocols=reads("orders", protocol="another")),
        "leader_joins": lambda: driver.join(leader.member_id),
        "follower_joins": lambda: driver.join(follower.member_id),
        "follower_wants_something_else": lambda: driver.join(follower.member_id, protocols=reads("payments")),
        "leader_syncs": lambda: driver.sync(leader),
        "follower_syncs": lambda: driver.sync(follower),
        "stranger_syncs": lambda: driver.sync(STRANGER),
        "past_syncs": lambda: driver.sync(GroupJoined(0, ErrorCode.NONE, leader.member_id, leader.generation - 1)),
        "heartbeat": lambda: driver.send_beat(leader),
        "past_heartbeat": lambda: driver.send_beat(leader, **past),
        "stranger_heartbeat": lambda: driver.send_beat(STRANGER),
        "leave": lambda: driver.leave(follower.member_id),
        "stranger_leaves": lambda: driver.leave("stranger"),
        "member_commits": lambda: driver.commit(one, **commit),
        "member_commits_in_transaction": lambda: driver.commit_in_transaction(one, **commit),
        "nobody_commits": lambda: driver.commit(one),
        "past_commits": lambda: driver.commit(one, **(commit | past)),
        "delete_group": driver.delete_group,
        "delete_offsets": lambda: driver.delete_offsets(ORDERS_0),
    }


def told(driver: ClassicDriver, request_id: int) -> str:
    if driver.is_waiting(request_id):
        return WAITS
    reply = driver.replies[request_id]
    errors = [member.error_code for member in reply.members] if isinstance(reply, GroupLeft) else []
    errors += getattr(reply, "partition_errors", ())
    return next((code.name for code in errors if code is not ErrorCode.NONE), reply.error_code.name)


@pytest.mark.parametrize(("name", "state"), [*product(TOLD, WAYS)], ids=lambda value: getattr(value, "name", value))
def test_every_request_in_every_state(name: str, state: GroupState):
    driver = ClassicDriver()
    leader, follower = WAYS[state](driver)
    assert driver.state() == state.value

    request_id = ask(driver, leader, follower)[name]()
    driver.settle()

    assert told(driver, request_id) == TOLD[name][[*WAYS].index(state)]


@pytest.mark.parametrize(("state", "previous"), [*product(GroupState, GroupState)])
def test_a_group_goes_only_where_the_table_says(state: GroupState, previous: GroupState):
    group = ClassicGroup("billing", Shard(0, 1, count(), count(1)), Deadlines())
    group.state = previous

    if state in VALID_PREVIOUS and previous in VALID_PREVIOUS[state]:
        assert may_follow(state, previous)
        group.enter(state, 5)
        assert (group.state, group.previous_state, group.state_since_ms) == (state, previous, 5)
    else:
        with pytest.raises(AssertionError, match="cannot go from"):
            group.enter(state, 5)
