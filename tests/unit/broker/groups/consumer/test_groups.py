"""KIP-848 groups at a coordinator: with its log, beside classic groups, and with the offsets of both."""

import pytest

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.events import OffsetToCommit
from eagleray.broker.log import LogConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.consumer_driver import SESSION_MS, ConsumerDriver, held
from tests.support.groups import GROUP, ORDERS_0, ORDERS_1, PAYMENTS_0, offset

NONE = ErrorCode.NONE
WEEK_MS = 7 * 24 * 60 * 60 * 1000


@pytest.fixture
def driver() -> ConsumerDriver:
    return ConsumerDriver()


# Members and the log


def test_member_that_joins_is_answered_when_the_log_has_it(driver):
    request = driver.enter("a")
    assert request not in driver.replies
    driver.append()
    answer = driver.replies[request]
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (NONE, "a", 1)
    assert answer.assignment == held("orders", 0, 1, 2, 3)
    assert answer.heartbeat_interval_ms == 5000


def test_member_without_an_id_is_given_one_where_the_version_has_none(driver):
    assert driver.entered("", brings_member_id=False).member_id == "id-1"
    assert driver.entered("").error_code is ErrorCode.INVALID_REQUEST


def test_a_heartbeat_that_changes_nothing_is_answered_at_once(driver):
    driver.entered("a")
    request = driver.stay("a", 1)
    assert not driver.appends
    assert driver.replies[request].assignment is None


def test_decisions_before_the_log_is_committed_build_on_one_another(driver):
    requests = [driver.enter("a"), driver.enter("b"), driver.stay("c", 3)]
    assert len(driver.appends) == 2
    driver.append()
    assert [request in driver.replies for request in requests] == [True, False, False]
    driver.append()
    assert driver.error_of(requests[1]) is NONE
    assert driver.error_of(requests[2]) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.consumers() == {"a": 1, "b": 2}


def test_two_members_come_to_share(driver):
    driver.entered("a")
    assert driver.entered("b").assignment == ()
    assert driver.stayed("a", 1).assignment == held("orders", 0, 1)
    assert driver.stayed("a", 1, owned=held("orders", 0, 1)).member_epoch == 2
    assert driver.stayed("b", 2).assignment == held("orders", 2, 3)


def test_a_decision_that_is_lost_was_never_made(driver):
    first, second = driver.enter("a"), driver.enter("b")
    driver.lose()
    assert {driver.error_of(first), driver.error_of(second)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.consumers() == {"a": 1}, "the log had the first"
    assert driver.entered("b").error_code is NONE


def test_a_log_that_takes_nothing_lets_members_stay_and_no_member_come_or_go(driver):
    driver.entered("a")
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = driver.enter("b"), driver.leave_consumers("a")
    assert {driver.error_of(request) for request in refused} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.stayed("a", 1).error_code is NONE
    driver.tick(2 * SESSION_MS)
    driver.refusal = NONE
    assert driver.consumers() == {"a": 1}
    driver.tick(1000)
    driver.settle()
    assert driver.consumers() == {}


def test_a_group_of_which_the_log_has_nothing_is_forgotten(driver):
    driver.enter("a")
    assert driver.is_live()
    driver.lose()
    assert not driver.is_live()
    assert driver.describe_consumers().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_record_too_large_for_the_log_is_no_matter_of_trying_again(driver):
    driver.log_config = LogConfig(max_message_bytes=100)
    driver.restart()
    assert driver.error_of(driver.enter("a")) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not driver.appends
    assert driver.consumers() == {}


def test_a_group_without_a_name_and_one_that_is_elsewhere(driver):
    assert driver.entered("a", group="").error_code is ErrorCode.INVALID_REQUEST
    assert driver.describe_consumers("").error_code is ErrorCode.INVALID_GROUP_ID
    driver.resign()
    assert driver.entered("a").error_code is ErrorCode.NOT_COORDINATOR
    assert driver.describe_consumers().error_code is ErrorCode.NOT_COORDINATOR


def test_all_who_wait_are_told_when_the_partition_is_given_up(driver):
    requests = [driver.enter(member) for member in "abc"]
    driver.resign()
    assert {driver.error_of(request) for request in requests} == {ErrorCode.NOT_COORDINATOR}


# Time


def test_members_are_there_after_a_restart_with_their_full_time(driver):
    driver.entered("a")
    driver.tick(SESSION_MS - 1)
    driver.restart()
    driver.tick(SESSION_MS - 1)
    assert not driver.appends
    answer = driver.stayed("a", 1, owned=held("orders", 0, 1, 2, 3))
    assert (answer.error_code, answer.assignment) == (NONE, None)
    driver.tick(SESSION_MS - 1)
    driver.tick(1)
    driver.settle()
    assert driver.consumers() == {}
    assert driver.stayed("a", 1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_session_of_a_member_begins_when_it_joins(driver):
    driver.tick(WEEK_MS)
    driver.entered("a")
    driver.tick(SESSION_MS - 1)
    assert not driver.appends
    driver.tick(1)
    assert driver.appends


def test_members_that_expire_while_the_log_is_slow_expire_once(driver):
    driver.entered("a")
    driver.tick(SESSION_MS)
    driver.tick(SESSION_MS)
    assert len(driver.appends) == 1
    request = driver.stay("a", 1)
    driver.settle()
    assert driver.error_of(request) is ErrorCode.UNKNOWN_MEMBER_ID


def test_new_topics_reach_members_by_heartbeats(driver):
    driver.entered("a", "orders", "payments")
    driver.tell_topics(orders=4, payments=1)
    answer = driver.stayed("a", 1)
    assert answer.member_epoch == 2
    assert set(answer.assignment) == {*held("orders", 0, 1, 2, 3), *held("payments", 0)}


def test_topics_are_known_to_a_partition_that_is_loaded_later(driver):
    driver.resign()
    driver.epoch += 1
    driver.lead()
    assert driver.entered("a").assignment == held("orders", 0, 1, 2, 3)


# Offsets


@pytest.mark.parametrize("in_transaction", [False, True])
def test_members_commit_at_their_epoch(driver, in_transaction):
    driver.entered("a")
    commit = driver.commit_in_transaction if in_transaction else driver.commit
    requests = {
        commit(offset(ORDERS_0, 5), generation=1, member_id="a"): NONE,
        commit(offset(PAYMENTS_0, 5), generation=0, member_id="a"): ErrorCode.STALE_MEMBER_EPOCH,
        commit(offset(ORDERS_0, 5), generation=1, member_id="b"): ErrorCode.UNKNOWN_MEMBER_ID,
        commit(offset(ORDERS_0, 5)): ErrorCode.UNKNOWN_MEMBER_ID,
    }
    driver.settle()
    assert {request: driver.error_of(request) for request in requests} == requests


def test_offset_read_at_an_earlier_epoch_may_be_committed(driver):
    driver.entered("a")
    driver.tell_topics(orders=4, payments=1)
    driver.stayed("a", 1, subscribed_topic_names=("orders", "payments"))
    assert driver.consumers() == {"a": 2}
    driver.committed(offset(ORDERS_0, 5), offset(ORDERS_1, 6), generation=1, member_id="a")
    late = driver.commit(offset(ORDERS_0, 7), offset(PAYMENTS_0, 1), generation=1, member_id="a")
    assert driver.error_of(late) is ErrorCode.STALE_MEMBER_EPOCH
    assert driver.offsets() == {ORDERS_0: 5, ORDERS_1: 6}


def test_admin_commits_while_the_group_is_empty(driver):
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    driver.committed(offset(ORDERS_0, 5))


def test_a_member_commits_and_an_admin_does_not_while_the_first_is_on_its_way(driver):
    driver.enter("a")
    admin = driver.commit(offset(ORDERS_0, 5))
    member = driver.commit(offset(ORDERS_0, 6), generation=1, member_id="a")
    assert driver.replies.keys().isdisjoint({admin, member})
    driver.settle()
    assert (driver.error_of(admin), driver.error_of(member)) == (ErrorCode.UNKNOWN_MEMBER_ID, NONE)


def test_members_fetch_at_their_epoch(driver):
    assert driver.fetch_as("a", 1) is NONE, "of a group that there is not"
    driver.entered("a")
    assert driver.fetch_as("a", 1) is NONE
    assert driver.fetch_as(None, -1) is NONE
    assert driver.fetch_as("a", 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert driver.fetch_as("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_members_read_stay(driver):
    driver.entered("a")
    driver.committed(offset(ORDERS_0, 5), offset(PAYMENTS_0, 6), generation=1, member_id="a")
    deletion = driver.delete_offsets(ORDERS_0, PAYMENTS_0)
    driver.settle()
    assert driver.replies[deletion].partition_errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE)
    assert driver.offsets() == {ORDERS_0: 5}


def test_offsets_do_not_expire_while_there_are_members(driver):
    driver.entered("a")
    driver.committed(offset(ORDERS_0, 5), generation=1, member_id="a")
    for _ in range(20):
        driver.tick(WEEK_MS // 10)
        driver.settle()
        driver.entered("a")
    assert driver.offsets() == {ORDERS_0: 5}


def test_a_group_without_members_and_offsets_goes_in_the_end(driver):
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    driver.tick(WEEK_MS)
    driver.settle()
    driver.tick(WEEK_MS)
    driver.settle()
    assert driver.groups() == ()
    driver.restart()
    assert driver.groups() == ()


# Admins


def test_groups_are_listed_and_described(driver):
    driver.entered("a")
    (listed,) = driver.listed(kinds=("Consumer",), states=("stable",))
    assert (listed.name, listed.kind, listed.state, listed.protocol_type) == (GROUP, "consumer", "Stable", "consumer")
    assert driver.listed(kinds=("classic",)) == ()
    described = driver.describe_consumers()
    assert (described.state, described.epoch, described.assignment_epoch, described.assignor) == (
        "Stable",
        1,
        1,
        "uniform",
    )
    (member,) = described.members
    assert (member.client_id, member.client_host, member.member_type) == ("client", "/127.0.0.1", 1)
    assert member.assignment == member.target_assignment
    assert [(part.topic, part.partitions) for part in member.assignment] == [("orders", (0, 1, 2, 3))]
    assert driver.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_is_deleted_when_it_has_no_members(driver):
    driver.entered("a")
    driver.committed(offset(ORDERS_0, 5), generation=1, member_id="a")
    assert driver.error_of(driver.delete_group()) is ErrorCode.NON_EMPTY_GROUP
    driver.settled(driver.leave_consumers("a"))
    deletion = driver.delete_group()
    driver.settle()
    assert driver.error_of(deletion) is NONE
    assert driver.groups() == ()
    assert driver.describe_consumers().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    driver.restart()
    assert driver.groups() == ()
    assert driver.entered("b").member_epoch == 1


def test_group_that_a_member_is_about_to_join_is_not_deleted(driver):
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    request = driver.enter("b")
    assert driver.answer_to(driver.delete_group()).error_code is ErrorCode.NON_EMPTY_GROUP
    assert driver.settled(request).error_code is NONE


def test_member_that_joins_a_group_that_is_being_deleted_begins_a_new_one(driver):
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    deletion, early = driver.delete_group(), driver.enter("b")
    assert driver.settled(early).member_epoch == 1
    assert driver.error_of(deletion) is NONE
    driver.restart()
    assert driver.consumers() == {"b": 1}


# Beside classic groups


def test_a_group_that_has_only_offsets_can_be_joined(driver):
    driver.committed(offset(ORDERS_0, 5))
    driver.entered("a")
    assert driver.offsets() == {ORDERS_0: 5}


def test_a_classic_group_with_members_is_not_taken_over(driver):
    driver.stable()
    assert driver.entered("a").error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.describe().state == "Stable"


def test_a_classic_group_without_members_is_taken_over(driver):
    (member,) = driver.stable()
    driver.leave(member.member_id)
    driver.settle()
    driver.committed(offset(ORDERS_0, 5))
    assert driver.entered("a").error_code is NONE
    driver.restart()
    assert driver.consumers() == {"a": 1}
    assert driver.describe().error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.offsets() == {ORDERS_0: 5}


def test_a_group_with_members_is_none_that_classic_members_join(driver):
    request = driver.enter("a")
    assert driver.error_of(driver.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    driver.settled(request)
    assert driver.error_of(driver.join()) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_without_members_is_one_that_classic_members_join(driver):
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    driver.stable()
    driver.restart()
    assert driver.describe().state == "Stable"
    assert driver.describe_consumers().error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_of_which_the_log_has_both_protocols_is_the_one_with_members(driver):
    """An earlier version could lose the tombstones of the one and log the other."""
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    other = ConsumerDriver()
    (member,) = other.stable()
    records = [(record.key, record.value) for batch in other.logs[0].batches() for record in batch.records()]
    driver.logs[0].append_records(records, leader_epoch=driver.epoch, now_ms=driver.now_ms)
    driver.restart()
    assert driver.describe().state == "Stable"
    driver.leave(member.member_id)
    driver.settle()
    assert driver.entered("b").error_code is NONE


def test_a_lost_change_of_protocol_leaves_the_group_as_it_was(driver):
    driver.entered("a")
    driver.settled(driver.leave_consumers("a"))
    driver.join(requires_known_member_id=False)
    driver.lose()
    assert driver.describe_consumers().state == "Empty"
    assert driver.joined(driver.join(requires_known_member_id=False)).error_code is NONE


def test_settings_of_the_cluster_count():
    config = GroupConfig(
        offsets_topic_num_partitions=1,
        group_consumer_max_size=1,
        group_consumer_heartbeat_interval_ms=6000,
        group_consumer_assignors=("range",),
    )
    driver = ConsumerDriver(config)
    assert driver.entered("a").heartbeat_interval_ms == 6000
    assert driver.entered("b").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.entered("a", server_assignor="uniform").error_code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert driver.describe_consumers().assignor == "range"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("heartbeat_interval_ms", 4999),
        ("heartbeat_interval_ms", 15_001),
        ("session_timeout_ms", 44_999),
        ("session_timeout_ms", 60_001),
        ("max_size", 0),
        ("assignors", ()),
        ("assignors", ("sticky",)),
    ],
)
def test_settings_out_of_range_are_refused(field, value):
    with pytest.raises(ValueError, match=f"group.consumer.{field.replace('_', '.')}"):
        GroupConfig(**{f"group_consumer_{field}": value})


def test_offset_that_a_client_commits_beside_it_is_unharmed(driver):
    """A batch of another group in between changes nothing of who waits for what."""
    first = driver.enter("a")
    other = driver.commit(OffsetToCommit(ORDERS_0, 3), group="other")
    second = driver.enter("b")
    driver.settle()
    assert [driver.error_of(request) for request in (first, other, second)] == [NONE, NONE, NONE]
    assert driver.offsets("other") == {ORDERS_0: 3}
