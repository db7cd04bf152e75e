"""Commits outside of transactions, and what is asked about them."""

import pytest

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.events import CommitOffsets, FetchOffsets, OffsetToCommit
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import LogConfig
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GROUP, ORDERS_0, ORDERS_1, PAYMENTS_0, GroupDriver, offset


def test_an_offset_is_answered_and_told_when_the_log_is_committed():
    driver = GroupDriver()

    request, reading = driver.commit(offset(ORDERS_0, 5)), driver.request(FetchOffsets, GROUP)
    assert driver.replies.keys().isdisjoint({request, reading})

    driver.append()
    assert driver.replies[request].error_code is ErrorCode.NONE
    assert driver.replies[request].partition_errors == ()
    (found,) = driver.replies[reading].offsets
    assert (found.partition, found.offset) == (ORDERS_0, 5)


def test_everything_about_an_offset_is_kept():
    driver = GroupDriver()

    driver.committed(OffsetToCommit(ORDERS_0, 5, 3, "näher"))
    driver.restart()

    (found,) = driver.fetch(ORDERS_0)
    assert (found.offset, found.leader_epoch, found.metadata) == (5, 3, "näher")


def test_an_offset_that_the_log_lost_changes_nothing():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 5))

    request = driver.commit(offset(ORDERS_0, 6))
    driver.lose()

    assert driver.error_of(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.offsets() == {ORDERS_0: 5}


@pytest.mark.parametrize(
    ("of_the_coordinator", "for_the_client"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_clients_are_told_in_words_that_they_understand(of_the_coordinator: ErrorCode, for_the_client: ErrorCode):
    driver = GroupDriver()

    request = driver.commit_in_transaction(offset(ORDERS_0, 6))
    driver.answer_question(of_the_coordinator)

    assert driver.error_of(request) is for_the_client


def test_a_log_that_takes_nothing_refuses_before_anything_changes():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 5))

    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    requests = driver.commit(offset(ORDERS_0, 6)), driver.delete_offsets(ORDERS_0), driver.delete_group()
    assert {driver.error_of(request) for request in requests} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    driver.refusal = ErrorCode.NONE

    assert driver.offsets() == {ORDERS_0: 5}


def test_a_commit_that_no_batch_can_hold_is_refused_before_it_is_logged():
    driver = GroupDriver()
    driver.log_config = LogConfig(max_message_bytes=1000)
    driver.restart()
    large = [offset(TopicPartition("orders", number), 1, "x" * 90) for number in range(8)]

    request = driver.commit(*large)
    assert driver.error_of(request) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert not driver.appends

    for each in large:
        driver.commit(each)
    assert len(driver.appends) == 8
    driver.settle()
    assert len(driver.offsets()) == 8


def test_commits_of_one_turn_are_appended_together_in_batches_that_the_log_takes():
    driver = GroupDriver()
    driver.log_config = LogConfig(max_message_bytes=1000)
    driver.restart()
    offsets = [offset(TopicPartition("orders", number), 1, "x" * 90) for number in range(20)]

    driver.send(*(CommitOffsets(driver.next_request_id(), GROUP, (each,)) for each in offsets))

    assert len(driver.appends) == 1
    driver.settle()
    assert len(driver.replies) == 20
    assert len(driver.offsets()) == 20
    driver.restart()
    assert len(driver.offsets()) == 20


def test_several_commits_are_under_way_and_the_last_one_stands():
    driver = GroupDriver()
    requests = [driver.commit(offset(ORDERS_0, value)) for value in (1, 2, 3)]

    driver.append()
    assert [request in driver.replies for request in requests] == [True, False, False]
    driver.append()
    driver.append()

    assert {driver.error_of(request) for request in requests} == {ErrorCode.NONE}
    assert driver.offsets() == {ORDERS_0: 3}


def test_a_commit_of_the_log_covers_all_before_it():
    driver = GroupDriver()
    first, second = driver.commit(offset(ORDERS_0, 1)), driver.commit(offset(ORDERS_0, 2))

    driver.appends.popleft()
    driver.append()

    assert driver.error_of(first) is driver.error_of(second) is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_0: 2}


def test_an_offset_may_go_back_and_be_negative():
    driver = GroupDriver()

    driver.committed(offset(ORDERS_0, 5))
    driver.committed(offset(ORDERS_0, 2), offset(ORDERS_1, -7))

    assert driver.offsets() == {ORDERS_0: 2, ORDERS_1: -7}


def test_the_last_of_a_request_wins_where_it_names_a_partition_twice():
    driver = GroupDriver()

    driver.committed(offset(ORDERS_0, 5), offset(ORDERS_0, 2))
    assert driver.offsets() == {ORDERS_0: 2}
    driver.restart()
    assert driver.offsets() == {ORDERS_0: 2}


def test_metadata_that_is_too_long_costs_only_its_own_partition():
    driver = GroupDriver()

    request = driver.commit(offset(ORDERS_0, 1, "x" * 4097), offset(ORDERS_1, 2, "ü" * 4096))
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE
    assert driver.replies[request].partition_errors == (ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE)
    assert driver.offsets() == {ORDERS_1: 2}


def test_nothing_is_logged_where_no_partition_is_left():
    driver = GroupDriver()

    request = driver.commit(offset(ORDERS_0, 1, "x" * 4097))

    assert not driver.appends
    assert driver.replies[request].partition_errors == (ErrorCode.OFFSET_METADATA_TOO_LARGE,)
    assert driver.error_of(driver.commit()) is ErrorCode.NONE


def test_offset_that_no_record_can_hold_is_refused_for_its_partition():
    driver = GroupDriver()

    request = driver.commit(
        offset(TopicPartition("t" * 40_000, 0), 1),
        offset(TopicPartition("orders", 2**31), 1),
        offset(ORDERS_0, 2**63),
        offset(ORDERS_1, 3),
    )
    driver.settle()

    assert [error.name for error in driver.replies[request].partition_errors] == ["INVALID_REQUEST"] * 3 + ["NONE"]


def test_a_group_needs_a_name():
    driver = GroupDriver()

    requests = [
        driver.commit(offset(ORDERS_0, 1), group=""),
        driver.commit_in_transaction(offset(ORDERS_0, 1), group=""),
        driver.delete_group(""),
        driver.delete_offsets(ORDERS_0, group=""),
    ]

    assert {driver.error_of(request) for request in requests} == {ErrorCode.INVALID_GROUP_ID}


# Fetching


def test_a_partition_without_an_offset_is_answered_with_none():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    found = driver.fetch(ORDERS_1, ORDERS_0)

    assert [(answer.partition, answer.error_code, answer.offset) for answer in found] == [
        (ORDERS_1, ErrorCode.NONE, -1),
        (ORDERS_0, ErrorCode.NONE, 1),
    ]
    assert [answer.offset for answer in driver.fetch(ORDERS_0, group="nobody")] == [-1]
    assert driver.fetch(group="nobody") == ()


def test_groups_do_not_see_each_other():
    driver = GroupDriver(partitions=4)

    driver.committed(offset(ORDERS_0, 1), group="a")
    driver.committed(offset(ORDERS_0, 2), offset(PAYMENTS_0, 9), group="b")

    assert driver.offsets("a") == {ORDERS_0: 1}
    assert driver.offsets("b") == {ORDERS_0: 2, PAYMENTS_0: 9}
    assert driver.groups() == ("a", "b")


# Deleting


def test_deleted_offsets_stay_deleted():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1), offset(ORDERS_1, 2))

    request = driver.delete_offsets(ORDERS_0, PAYMENTS_0, ORDERS_0)
    assert [value for _, batch in driver.appends[0].records for _, value in batch.records] == [None]
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_1: 2}
    driver.restart()
    assert driver.offsets() == {ORDERS_1: 2}


def test_to_delete_what_a_group_does_not_have_needs_no_record():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    assert driver.error_of(driver.delete_offsets(ORDERS_1)) is ErrorCode.NONE
    assert not driver.appends


def test_a_group_without_offsets_is_gone():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1), offset(ORDERS_1, 2))

    request = driver.delete_group()
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE
    assert driver.groups() == ()
    driver.restart()
    assert driver.groups() == ()
    assert driver.error_of(driver.delete_group()) is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.error_of(driver.delete_offsets(ORDERS_0)) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_takes_what_is_on_its_way_to_the_log_with_it():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    driver.commit(offset(ORDERS_1, 2))
    driver.delete_group()
    driver.commit(offset(PAYMENTS_0, 3))
    driver.settle()

    assert driver.offsets() == {PAYMENTS_0: 3}


def test_a_lost_deletion_changes_nothing():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    request = driver.delete_group()
    driver.lose()

    assert driver.error_of(request) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.offsets() == {ORDERS_0: 1}
    assert driver.groups() == (GROUP,)


def test_a_deletion_that_is_lost_leaves_the_group():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    lost, repeated = driver.delete_group(), driver.delete_group()

    driver.lose()

    assert {driver.error_of(lost), driver.error_of(repeated)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert driver.groups() == (GROUP,)
    assert driver.answer_to(driver.delete_group()).error_code is ErrorCode.NONE
    assert driver.groups() == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"offset_metadata_max_bytes": -1},
        {"offset_metadata_max_bytes": 8192},
        {"offsets_topic_num_partitions": 0},
        {"group_initial_rebalance_delay_ms": -1},
        {"group_max_size": 0},
        {"group_max_session_timeout_ms": 2**31},
        {"group_min_session_timeout_ms": 7000, "group_max_session_timeout_ms": 6999},
    ],
)
def test_settings_have_ranges(fields: dict[str, int]):
    with pytest.raises(ValueError, match=next(iter(fields)).replace("_", ".")):
        GroupConfig(**fields)
