"""Whether a heartbeat comes from the member as it is, as it was one answer ago, or as it has not been for long."""

import pytest

from eagleray.broker.groups.consumer.partitions import from_topics
from eagleray.broker.groups.consumer.records import encode_record
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from tests.support.consumer_groups import GROUP, Consumer, GroupWorld, parts, settle, wire

ALL = parts("orders", 0, 1, 2, 3)
FENCED = ErrorCode.FENCED_MEMBER_EPOCH


@pytest.fixture
def world() -> GroupWorld:
    """A group with one member that has come from epoch 1 to 2."""
    world = GroupWorld({"orders": 2})
    consumer = Consumer(world, "a")
    settle(consumer)
    world.set_topics({"orders": 4})
    settle(consumer, rounds=1)
    assert (world.member("a").epoch, world.member("a").previous_epoch) == (2, 1)
    return world


@pytest.mark.parametrize(
    ("epoch", "owned", "error_code"),
    [
        (2, None, ErrorCode.NONE),
        (2, ALL, ErrorCode.NONE),
        (3, ALL, FENCED),
        (1, parts("orders", 0, 1), ErrorCode.NONE),
        (1, frozenset(), ErrorCode.NONE),
        (1, ALL | parts("orders", 4), FENCED),
        (1, None, FENCED),
    ],
)
def test_epochs(world: GroupWorld, epoch: int, owned, error_code: ErrorCode):
    response = world.send(member_id="a", member_epoch=epoch, topic_partitions=None if owned is None else wire(owned))
    assert response.error_code == error_code
    assert response.member_epoch == (2 if error_code is ErrorCode.NONE else 0)


def test_an_epoch_before_the_last_is_fenced(world: GroupWorld):
    world.set_topics({"orders": 5})
    world.send(member_id="a", member_epoch=2, topic_partitions=wire(ALL))
    assert world.send(member_id="a", member_epoch=1, topic_partitions=()).error_code == FENCED


def test_a_fenced_member_joins_again_with_its_old_id(world: GroupWorld):
    world.send(member_id="a", member_epoch=7)
    response = world.join("a")
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert from_topics(response.assignment.topic_partitions) == ALL
    assert world.state.epoch == 2


def test_a_member_that_joins_again_has_given_up_what_it_was_to_give_up():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    first.abandon()
    first.beat()
    second.beat()
    assert (first.owned, second.owned) == (parts("orders", 0, 1), parts("orders", 2, 3))


def test_a_member_that_misses_answers_goes_on():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    first.beat(loses_answer=True)
    first.beat()
    assert first.owned == ALL
    second.beat(loses_answer=True)
    second.beat()
    first.beat(loses_answer=True)
    first.beat()
    first.beat(loses_answer=True)
    settle(first, second)
    assert (first.owned, second.owned) == (parts("orders", 0, 1), parts("orders", 2, 3))


def test_client_that_was_never_a_member_is_told_to_join(world: GroupWorld):
    assert world.send(member_id="b", member_epoch=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_in_a_state_of_the_future_begins_anew(world: GroupWorld):
    key = ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a")
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2, previous_member_epoch=2, state=9)
    world.groups.apply([encode_record(key, value)], world.now_ms)
    assert world.send(member_id="a", member_epoch=2).error_code == FENCED
    assert from_topics(world.join("a").assignment.topic_partitions) == ALL


# Commits and fetches


@pytest.mark.parametrize(
    ("member_id", "epoch", "error_code"),
    [
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("is_transactional", [True, False])
def test_members_may_commit_at_their_epoch(
    world: GroupWorld, member_id: str, epoch: int, error_code: ErrorCode, is_transactional: bool
):
    group = world.groups.groups[GROUP]
    assert group.check_commit(epoch, member_id, None, is_transactional=is_transactional) is error_code


@pytest.mark.parametrize(
    ("epoch", "numbers", "error_code"),
    [
        (2, (0, 2, 9), ErrorCode.NONE),
        (1, (0, 1), ErrorCode.NONE),
        (1, (0, 2), ErrorCode.STALE_MEMBER_EPOCH),
        (1, (0, 9), ErrorCode.STALE_MEMBER_EPOCH),
        (1, (), ErrorCode.STALE_MEMBER_EPOCH),
        (0, (0,), ErrorCode.STALE_MEMBER_EPOCH),
        (3, (0,), ErrorCode.STALE_MEMBER_EPOCH),
    ],
)
@pytest.mark.parametrize("restarts", [True, False])
def test_offsets_of_partitions_held_since_may_be_committed_at_an_earlier_epoch(
    world: GroupWorld, epoch: int, numbers: tuple[int, ...], error_code: ErrorCode, restarts: bool
):
    if restarts:
        world.restart()
    partitions = [TopicPartition("orders", number) for number in numbers]
    assert world.groups.check_commit(GROUP, epoch, "a", None, partitions, is_transactional=True) is error_code


def test_a_member_may_commit_what_it_is_about_to_give_up():
    world = GroupWorld()
    first, second = Consumer(world, "a"), Consumer(world, "b")
    settle(first)
    second.beat()
    first.beat()
    last = [TopicPartition("orders", 3)]
    assert world.member("a").to_revoke
    assert world.groups.check_commit(GROUP, 1, "a", None, last, is_transactional=False) is ErrorCode.NONE
    settle(first, second)
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert world.groups.check_commit(GROUP, 1, "a", None, last, is_transactional=False) is stale
    assert world.groups.check_commit(GROUP, 2, "b", None, last, is_transactional=False) is ErrorCode.NONE


def test_commits_of_partitions_that_do_not_exist_need_the_current_epoch(world: GroupWorld):
    nowhere = [TopicPartition("nowhere", 0)]
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert world.groups.check_commit(GROUP, 1, "a", None, nowhere, is_transactional=False) is stale
    assert world.groups.check_commit(GROUP, 2, "a", None, nowhere, is_transactional=False) is ErrorCode.NONE


def test_anybody_may_commit_while_there_are_no_members(world: GroupWorld):
    world.send(member_id="a", member_epoch=-1)
    group = world.groups.groups[GROUP]
    assert group.check_commit(-1, "", None, is_transactional=False) is ErrorCode.NONE
    assert group.check_commit(2, "a", None, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "epoch", "error_code"),
    [
        (None, -1, ErrorCode.NONE),
        ("", -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_members_may_fetch_at_their_epoch(world: GroupWorld, member_id: str | None, epoch: int, error_code: ErrorCode):
    assert world.groups.groups[GROUP].check_fetch(member_id, epoch) is error_code
