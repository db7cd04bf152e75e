"""A member of a group as a machine: what it says, and what it does about the answers."""

import pytest

from eagleray.broker.groups.consumer.events import ConsumerHeartbeatAnswered, PartitionsOfTopic
from eagleray.broker.groups.consumer.partitions import NO_PARTITIONS, TopicIdPartition
from eagleray.client.consumer.membership import (
    NEXT_STATES,
    ChangeKind,
    GroupMembership,
    MemberSettings,
    MemberState,
    Subscription,
)
from eagleray.client.retry_policy import RetryPolicy
from eagleray.protocol.errors import ErrorCode

TOPIC = bytes(15) + b"\x01"
INTERVAL_MS = 5_000
POLL_MS = 60_000
WANTED = Subscription(("orders",))


def partitions(*numbers):
    return frozenset(TopicIdPartition(TOPIC, number) for number in numbers)


class Driver:
    """A membership, its time, and a coordinator that says what a test wants."""

    def __init__(self, **settings):
        settings = {"member_id": "m", "max_poll_interval_ms": POLL_MS} | settings
        self.member = GroupMembership(MemberSettings(**settings), 0)
        self.now_ms = 0

    def subscribe(self, subscription=WANTED):
        self.member.subscribe(subscription, self.now_ms)
        return self

    def beat(self):
        return self.member.heartbeat(self.now_ms)

    def answer(self, heartbeat, epoch=1, assigned=None, error_code=ErrorCode.NONE):
        topics = None if assigned is None else (PartitionsOfTopic(TOPIC, assigned),) if assigned else ()
        answer = ConsumerHeartbeatAnswered(1, error_code, None, "m", epoch, INTERVAL_MS, topics)
        self.member.answered(heartbeat.number, answer, self.now_ms)

    def take(self, is_known=True):
        change = self.member.next_change(lambda _: is_known)
        if change is not None:
            self.member.change_done(change, self.now_ms)
        return change

    def joined(self, *assigned):
        self.subscribe()
        self.answer(self.beat(), 1, assigned)
        self.take()
        self.answer(self.beat(), 1)
        assert self.member.state is MemberState.STABLE
        return self

    def past_poll(self):
        self.now_ms += POLL_MS
        return self.beat()


def test_member_joins_with_all_about_itself_and_acknowledges_at_once():
    driver = Driver(assignor="range", group_instance_id="i").subscribe()
    first = driver.beat()
    assert (first.member_epoch, first.subscription, first.assignor) == (0, WANTED, "range")
    assert (first.rebalance_timeout_ms, first.owned, first.instance_id) == (POLL_MS, (), "i")
    driver.answer(first, 3, (0, 1))
    change = driver.take()
    assert (change.kind, change.partitions) == (ChangeKind.ASSIGNED, partitions(0, 1))
    second = driver.beat()
    assert (second.member_epoch, second.owned) == (3, (PartitionsOfTopic(TOPIC, (0, 1)),))
    assert (second.subscription, second.rebalance_timeout_ms, second.assignor) == (None, -1, None)
    driver.answer(second, 3)
    assert (driver.member.state, driver.beat()) == (MemberState.STABLE, None)
    driver.now_ms += INTERVAL_MS
    assert driver.beat() is not None


def test_partitions_are_given_up_before_others_are_taken_and_each_is_acknowledged():
    driver = Driver().joined(0, 1)
    driver.now_ms += INTERVAL_MS
    driver.answer(driver.beat(), 2, (1, 2))
    assert driver.member.state is MemberState.RECONCILING
    assert driver.take().partitions == partitions(0)
    assert driver.beat().owned == (PartitionsOfTopic(TOPIC, (1,)),)
    assert driver.take().partitions == partitions(2)
    assert driver.member.state is MemberState.ACKNOWLEDGING


def test_change_during_a_heartbeat_is_sent_right_after_it():
    driver = Driver().joined(0, 1)
    driver.now_ms += INTERVAL_MS
    driver.answer(driver.beat(), 2, (1,))
    driver.now_ms += INTERVAL_MS
    on_its_way = driver.beat()
    assert on_its_way.owned == (PartitionsOfTopic(TOPIC, (0, 1)),)
    assert driver.take().kind is ChangeKind.REVOKED
    driver.subscribe(Subscription(pattern="or.*"))
    driver.answer(on_its_way, 2)
    told = driver.beat()
    assert (told.owned, told.subscription) == ((PartitionsOfTopic(TOPIC, (1,)),), Subscription(pattern="or.*"))


def test_partitions_of_topics_that_are_not_known_yet_can_wait():
    driver = Driver().subscribe()
    driver.answer(driver.beat(), 1, (0,))
    assert driver.take(is_known=False) is None
    assert driver.member.is_missing_topics
    assert driver.take().partitions == partitions(0)


def test_heartbeat_without_an_answer_is_followed_by_one_that_tells_everything():
    driver = Driver(retry_policy=RetryPolicy(request_ms=1_000, backoff_ms=20)).joined(0)
    driver.now_ms += INTERVAL_MS
    lost = driver.beat()
    assert (lost.subscription, driver.beat()) == (None, None)
    driver.now_ms += 1_000
    assert driver.beat() is None
    driver.now_ms += 20
    again = driver.beat()
    assert (again.member_epoch, again.subscription) == (1, WANTED)
    assert again.owned == (PartitionsOfTopic(TOPIC, (0,)),)
    driver.answer(lost, 9, ())
    assert driver.member.epoch == 1, "the answer to a heartbeat that was given up counts no more"
    driver.answer(again, 2)
    assert driver.member.epoch == 2


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_coordinator_that_cannot_answer_yet_is_asked_again_after_a_pause(code):
    driver = Driver(retry_policy=RetryPolicy(backoff_ms=20)).subscribe()
    driver.answer(driver.beat(), error_code=code)
    assert (driver.member.state, driver.beat(), driver.member.next_due_ms()) == (MemberState.JOINING, None, 20)
    driver.now_ms = 20
    assert driver.beat().subscription == WANTED


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_fenced_member_keeps_its_old_epoch_until_its_loss_is_told_and_joins_again(code):
    driver = Driver().joined(0, 1)
    driver.now_ms += INTERVAL_MS
    driver.answer(driver.beat(), error_code=code)
    assert (driver.member.state, driver.member.epoch, driver.beat()) == (MemberState.FENCED, 1, None)
    driver.member.rejoin(driver.now_ms)
    assert driver.member.state is MemberState.FENCED, "the application still has partitions"
    change = driver.take()
    assert (change.kind, change.partitions) == (ChangeKind.LOST, partitions(0, 1))
    driver.member.rejoin(driver.now_ms)
    again = driver.beat()
    assert (again.member_epoch, again.owned, again.subscription) == (0, (), WANTED)
    driver.answer(again, 5, (1,))
    assert driver.take().partitions == partitions(1)


def test_member_that_was_fenced_during_a_callback_loses_what_the_callback_was_about():
    driver = Driver().subscribe()
    driver.answer(driver.beat(), 1, (0,))
    change = driver.member.next_change(lambda _: True)
    driver.now_ms += INTERVAL_MS
    driver.answer(driver.beat(), error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    driver.member.change_done(change, driver.now_ms)
    assert driver.take() == driver.member.last_change().__class__(ChangeKind.LOST, partitions(0))


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_member_whose_application_does_not_poll_leaves_and_joins_again(instance_id, epoch):
    driver = Driver(group_instance_id=instance_id).joined(0)
    goodbye = driver.past_poll()
    assert (driver.member.state, goodbye.member_epoch) == (MemberState.STALE, epoch)
    assert driver.take().kind is ChangeKind.LOST
    driver.member.rejoin(driver.now_ms)
    assert driver.member.state is MemberState.STALE, "it says goodbye before it joins again"
    driver.answer(goodbye, epoch)
    driver.member.rejoin(driver.now_ms)
    assert driver.beat().member_epoch == 0


def test_time_until_the_next_poll_does_not_run_during_one():
    driver = Driver().joined(0)
    driver.member.poll_begins()
    assert driver.past_poll().member_epoch == 1
    driver.member.poll_ends(driver.now_ms)
    assert driver.member.next_due_ms() is not None
    driver.now_ms += POLL_MS - 1
    driver.beat()
    assert driver.member.state is MemberState.STABLE
    driver.now_ms += 1
    driver.beat()
    assert driver.member.state is MemberState.STALE


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ],
)
def test_refusal_for_good_ends_the_membership_and_what_it_had_is_lost(code):
    driver = Driver().joined(0)
    driver.now_ms += INTERVAL_MS
    driver.answer(driver.beat(), error_code=code)
    assert driver.member.error == (code, None)
    assert driver.take().kind is ChangeKind.LOST
    driver.member.rejoin(driver.now_ms)
    driver.now_ms += INTERVAL_MS
    assert (driver.member.state, driver.beat(), driver.member.next_due_ms()) == (MemberState.FATAL, None, None)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_leaving_member_says_so_at_once_even_while_a_heartbeat_is_on_its_way(instance_id, epoch):
    driver = Driver(group_instance_id=instance_id).joined(0)
    driver.now_ms += INTERVAL_MS
    before = driver.beat()
    driver.member.leave(driver.now_ms)
    goodbye = driver.beat()
    assert (goodbye.member_epoch, driver.member.owned) == (epoch, NO_PARTITIONS)
    driver.answer(before, 4, (0, 1))
    assert driver.member.state is MemberState.LEAVING
    driver.answer(goodbye, epoch)
    assert (driver.member.state, driver.member.next_due_ms()) == (MemberState.UNSUBSCRIBED, None)


def test_goodbye_that_is_not_answered_is_not_repeated():
    driver = Driver().joined(0)
    driver.member.leave(driver.now_ms)
    driver.member.unanswered(driver.beat().number, driver.now_ms)
    assert (driver.member.state, driver.beat()) == (MemberState.UNSUBSCRIBED, None)


@pytest.mark.parametrize("state", MemberState)
def test_member_can_leave_in_every_state(state):
    driver = Driver().subscribe()
    driver.member.state = state
    driver.member.owned = partitions(0)
    driver.member.leave(driver.now_ms)
    heartbeat = driver.beat()
    if heartbeat is not None:
        driver.answer(heartbeat, -1)
    assert driver.member.state in {MemberState.UNSUBSCRIBED, MemberState.LEAVING}
    assert driver.member.next_due_ms() is None


@pytest.mark.parametrize("state", MemberState)
@pytest.mark.parametrize("following", MemberState)
def test_only_transitions_of_the_table_happen(state, following):
    driver = Driver()
    driver.member.state = state
    if following is state or following in NEXT_STATES[state]:
        driver.member._go(following)
        assert driver.member.state is following
    else:
        with pytest.raises(AssertionError, match="does not lead to"):
            driver.member._go(following)
