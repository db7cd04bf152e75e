"""Heartbeats that make no sense are refused, and nothing comes of them."""

import pytest

from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_groups import GROUP, GroupWorld, parts, wire

INVALID = ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"group_id": ""}, INVALID),
        ({"member_id": ""}, INVALID),
        ({"instance_id": ""}, INVALID),
        ({"rack_id": ""}, INVALID),
        ({"member_id": "x" * 9000}, INVALID),
        ({"group_id": "x" * 9000}, INVALID),
        ({"rebalance_timeout_ms": -1}, INVALID),
        ({"topic_partitions": None}, INVALID),
        ({"topic_partitions": wire(parts("orders", 0))}, INVALID),
        ({"subscribed_topic_names": None}, INVALID),
        ({"member_epoch": -3}, INVALID),
        ({"member_epoch": -2}, INVALID),
        ({"member_epoch": 1, "rebalance_timeout_ms": -2}, INVALID),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -2, "instance_id": "one"}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_bad_request_changes_nothing(fields: dict, error_code: ErrorCode):
    world = GroupWorld()
    response = world.join("a", **fields)
    assert response.error_code == error_code
    assert response.error_message
    assert response.assignment is None
    assert not world.log
    assert not world.groups.groups


def test_the_refusal_of_an_assignor_names_those_that_there_are():
    response = GroupWorld(group_consumer_assignors=("range",)).join("a", server_assignor="uniform")
    assert response.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "range" in response.error_message


def test_the_first_version_lets_the_coordinator_choose_the_member_id():
    world = GroupWorld()
    assert world.join("", version=0).member_id == "made-1"
    assert world.join("", version=0).member_id == "made-2"
    assert set(world.state.members) == {"made-1", "made-2"}
    # Later heartbeats have to name it.
    assert world.send(version=0, member_id="", member_epoch=1).error_code == INVALID


def test_a_group_has_no_more_members_than_it_may():
    world = GroupWorld(group_consumer_max_size=2)
    world.join("a")
    world.join("b")
    assert world.join("c").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("b").error_code == ErrorCode.NONE


def test_a_full_group_still_lets_a_static_member_return():
    world = GroupWorld(group_consumer_max_size=1)
    world.join("a", instance_id="one")
    world.send(member_id="a", member_epoch=-2, instance_id="one")
    assert world.join("b", instance_id="one").error_code == ErrorCode.NONE
    assert set(world.state.members) == {"b"}


def test_a_member_may_join_without_any_topics():
    world = GroupWorld()
    response = world.join("a", subscribed_topic_names=())
    assert (response.member_epoch, response.assignment.topic_partitions) == (1, ())
    assert world.groups.describe(GROUP).group_state == "Stable"
