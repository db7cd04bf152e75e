"""Offsets in transactions: verified before, pending until the marker, decided by it."""

import pytest

from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import LogConfig
from eagleray.broker.log.producer_limit import IDLE_MS
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import (
    GROUP,
    OFFSETS_0,
    ORDERS_0,
    ORDERS_1,
    PRODUCER,
    TRANSACTIONAL_ID,
    GroupDriver,
    marker,
    offset,
)
from tests.support.leading import verified

NEXT_EPOCH = ProducerIdentity(PRODUCER.producer_id, PRODUCER.epoch + 1)
OTHER = ProducerIdentity(8, 0)


def commit_error(driver: GroupDriver, producer: ProducerIdentity) -> ErrorCode:
    request_id = driver.commit_in_transaction(offset(ORDERS_1, 6), producer=producer)
    driver.settle()
    return driver.error_of(request_id)


# Pending offsets


def test_offsets_are_pending_until_the_marker_commits_them():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    driver.pending(offset(ORDERS_0, 5), offset(ORDERS_1, 6))
    assert driver.offsets() == {ORDERS_0: 1}
    assert driver.unstable() == {ORDERS_0, ORDERS_1}

    driver.ended(marker(PRODUCER))
    assert driver.offsets() == {ORDERS_0: 5, ORDERS_1: 6}
    assert driver.unstable() == set()


def test_commit_of_a_producer_beyond_the_limit_is_refused_and_leaves_nothing():
    driver = GroupDriver()
    driver.log_config = LogConfig(max_producer_ids=1)
    driver.restart()
    driver.pending(offset(ORDERS_0, 5))

    assert commit_error(driver, OTHER) is ErrorCode.POLICY_VIOLATION
    assert driver.logs[0].producers.get(OTHER.producer_id) is None
    driver.now_ms += IDLE_MS
    assert commit_error(driver, OTHER) is ErrorCode.POLICY_VIOLATION
    driver.ended(marker(PRODUCER))
    driver.now_ms += IDLE_MS
    assert commit_error(driver, OTHER) is ErrorCode.NONE


def test_offsets_vanish_with_an_abort():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))

    driver.pending(offset(ORDERS_0, 5), offset(ORDERS_1, 6))
    driver.ended(marker(PRODUCER, commit=False))

    assert driver.offsets() == {ORDERS_0: 1}
    assert driver.unstable() == set()


def test_a_group_that_had_only_aborted_offsets_does_not_exist():
    driver = GroupDriver()

    driver.pending(offset(ORDERS_0, 5))
    assert driver.groups() == (GROUP,)
    driver.ended(marker(PRODUCER, commit=False))

    assert driver.groups() == ()


def test_a_restart_changes_nothing_about_what_is_pending():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.pending(offset(ORDERS_0, 5))

    driver.restart()
    assert driver.offsets() == {ORDERS_0: 1}
    assert driver.unstable() == {ORDERS_0}
    driver.ended(marker(PRODUCER))
    assert driver.offsets() == {ORDERS_0: 5}

    driver.restart()
    assert driver.offsets() == {ORDERS_0: 5}
    assert driver.unstable() == set()


def test_a_commit_after_the_transactions_own_is_not_undone_by_its_marker():
    driver = GroupDriver()

    driver.pending(offset(ORDERS_0, 5))
    driver.committed(offset(ORDERS_0, 9))
    driver.ended(marker(PRODUCER))
    assert driver.offsets() == {ORDERS_0: 9}

    driver.restart()
    assert driver.offsets() == {ORDERS_0: 9}


def test_pending_offset_does_not_replace_a_later_commit_after_a_restart():
    driver = GroupDriver()

    for value in range(5):
        driver.committed(offset(ORDERS_1, value))
    driver.pending(offset(ORDERS_0, 5))
    driver.restart()
    driver.committed(offset(ORDERS_0, 9))
    driver.ended(marker(PRODUCER))

    assert driver.offsets()[ORDERS_0] == 9


def test_of_two_transactions_the_later_commit_wins_not_the_later_marker():
    driver = GroupDriver()

    driver.pending(offset(ORDERS_0, 5))
    driver.pending(offset(ORDERS_0, 6), producer=OTHER)
    driver.ended(marker(OTHER))
    assert driver.unstable() == {ORDERS_0}
    driver.ended(marker(PRODUCER))

    assert driver.offsets() == {ORDERS_0: 6}


def test_one_marker_decides_over_all_groups_of_a_producer():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 1), group="a")
    driver.pending(offset(ORDERS_0, 2), group="b")

    driver.ended(marker(PRODUCER))

    assert driver.offsets("a") == {ORDERS_0: 1}
    assert driver.offsets("b") == {ORDERS_0: 2}


@pytest.mark.parametrize("is_lost", [False, True])
def test_offsets_on_their_way_to_the_log_are_unstable_once_the_log_is_committed(is_lost: bool):
    driver = GroupDriver()
    driver.commit_in_transaction(offset(ORDERS_0, 5))
    driver.answer_question()

    reading = driver.request(FetchOffsets, GROUP, (ORDERS_0,), True)
    assert reading not in driver.replies
    if is_lost:
        driver.lose()
        assert driver.error_of(reading) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        driver.append()
        (found,) = driver.replies[reading].offsets
        assert found.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert driver.unstable() == (set() if is_lost else {ORDERS_0})


def test_an_answer_is_of_when_it_was_asked_for_though_a_transaction_commits_while_it_waits():
    driver = GroupDriver()
    driver.commit(offset(ORDERS_1, 1))

    reading = driver.request(FetchOffsets, GROUP, (ORDERS_0,), True)
    driver.commit_in_transaction(offset(ORDERS_0, 5))
    driver.answer_question()
    reading_again = driver.request(FetchOffsets, GROUP, (ORDERS_0,), True)
    driver.settle()

    (found,), (found_again,) = driver.replies[reading].offsets, driver.replies[reading_again].offsets
    assert (found.error_code, found.offset) == (ErrorCode.NONE, -1)
    assert found_again.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_other_partitions_of_the_group_are_stable():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_1, 1))
    driver.pending(offset(ORDERS_0, 5))

    unstable, stable = driver.fetch(ORDERS_0, ORDERS_1, require_stable=True)

    assert (unstable.error_code, unstable.offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (stable.error_code, stable.offset) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("require_stable", [True, False])
def test_producers_that_hold_offsets_are_named_to_those_who_ask_for_stable_ones(require_stable):
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    def named() -> tuple[int, ...]:
        return driver.answer_to(driver.request(FetchOffsets, GROUP, None, require_stable)).pending

    assert named() == ((PRODUCER.producer_id,) if require_stable else ())
    driver.ended(marker(PRODUCER))
    assert named() == ()


def test_a_deletion_takes_pending_offsets_with_it():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5), offset(ORDERS_1, 6))
    driver.delete_offsets(ORDERS_0)
    driver.settle()
    assert driver.unstable() == {ORDERS_1}

    driver.delete_group()
    driver.settle()
    assert driver.groups() == ()
    driver.ended(marker(PRODUCER))

    assert driver.offsets() == {}
    driver.restart()
    assert driver.groups() == ()


def test_the_batch_in_the_log_is_the_producers():
    driver = GroupDriver()

    driver.commit_in_transaction(offset(ORDERS_0, 5))
    driver.answer_question()
    ((producer_id, batch),) = driver.append().records

    assert (producer_id, batch.producer) == (PRODUCER.producer_id, PRODUCER)
    entry = driver.logs[0].producers.get(PRODUCER.producer_id)
    assert (entry.epoch, entry.open_since_offset, entry.last_sequence) == (0, 0, -1)


def test_many_commits_of_one_transaction_and_of_the_next_need_no_sequence():
    driver = GroupDriver()

    for value in range(7):
        driver.pending(offset(ORDERS_0, value))
    driver.ended(marker(PRODUCER))
    driver.pending(offset(ORDERS_0, 10))
    driver.ended(marker(PRODUCER))

    assert driver.offsets() == {ORDERS_0: 10}
    assert driver.logs[0].last_stable_offset == driver.logs[0].log_end_offset


# Verification


@pytest.mark.parametrize(("version", "adds_partition"), [(1, False), (2, True)])
def test_the_first_commit_of_a_transaction_waits_for_its_coordinator(version: int, adds_partition: bool):
    driver = GroupDriver()

    request = driver.commit_in_transaction(offset(ORDERS_0, 5), version=version)
    assert not driver.appends
    question = driver.answer_question()

    assert question.partition == OFFSETS_0
    assert question.transactional_id == TRANSACTIONAL_ID
    assert question.producer == PRODUCER
    assert question.adds_partition is adds_partition
    driver.append()
    assert driver.error_of(request) is ErrorCode.NONE


def test_the_question_names_the_partition_that_keeps_the_group():
    driver = GroupDriver(partitions=50)

    driver.commit_in_transaction(offset(ORDERS_0, 5))

    assert driver.questions[0].partition == TopicPartition("__consumer_offsets", java_partition("billing", 50))


def java_partition(name: str, partitions: int) -> int:
    """The absolute value of Java's `hashCode`, modulo the number of partitions."""
    value = 0
    for character in name:
        value = (31 * value + ord(character)) % 2**32
    return abs(value - 2**32 if value >= 2**31 else value) % partitions


def test_the_commits_that_follow_do_not_ask_again():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    driver.commit_in_transaction(offset(ORDERS_0, 6))
    driver.commit_in_transaction(offset(ORDERS_1, 6), group="another")

    assert not driver.questions
    assert len(driver.appends) == 2


def test_commits_that_come_before_the_answer_wait_in_order_behind_one_question():
    driver = GroupDriver()
    requests = [driver.commit_in_transaction(offset(ORDERS_0, value)) for value in (1, 2)]

    assert len(driver.questions) == 1
    driver.settle()
    driver.ended(marker(PRODUCER))

    assert [driver.error_of(request).name for request in requests] == ["NONE", "NONE"]
    assert driver.offsets() == {ORDERS_0: 2}


@pytest.mark.parametrize(
    ("answer", "for_the_client"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_commit_that_the_coordinator_does_not_confirm_is_refused(answer: ErrorCode, for_the_client: ErrorCode):
    driver = GroupDriver()
    request = driver.commit_in_transaction(offset(ORDERS_0, 1))

    driver.answer_question(answer)

    assert driver.error_of(request) is for_the_client
    assert not driver.appends
    driver.commit_in_transaction(offset(ORDERS_0, 1))
    assert len(driver.questions) == 1, "the next one asks again"


def test_after_a_marker_the_same_producer_is_asked_about_again():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    driver.write_markers(marker(PRODUCER))
    driver.commit_in_transaction(offset(ORDERS_0, 6))

    assert len(driver.questions) == 1, "even before the marker is in the log"


def test_after_a_restart_only_open_transactions_go_on_without_a_question():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))
    driver.pending(offset(ORDERS_0, 5), producer=OTHER)
    driver.ended(marker(OTHER))
    driver.restart()

    driver.commit_in_transaction(offset(ORDERS_0, 6))
    assert not driver.questions
    driver.commit_in_transaction(offset(ORDERS_0, 6), producer=OTHER)
    assert len(driver.questions) == 1


def test_a_marker_makes_the_question_void():
    driver = GroupDriver()
    request = driver.commit_in_transaction(offset(ORDERS_0, 5))
    question = driver.questions.popleft()

    driver.write_markers(marker(PRODUCER, commit=False))
    assert driver.error_of(request) is ErrorCode.INVALID_TXN_STATE
    driver.send(verified(question))
    driver.settle()

    assert driver.unstable() == set()


def test_a_marker_that_is_refused_does_not():
    driver = GroupDriver()
    driver.ended(marker(NEXT_EPOCH, coordinator_epoch=5))
    request = driver.commit_in_transaction(offset(ORDERS_0, 5), producer=NEXT_EPOCH)

    driver.write_markers(marker(NEXT_EPOCH, coordinator_epoch=4))
    driver.settle()

    assert driver.error_of(request) is ErrorCode.NONE


def test_an_answer_for_a_partition_that_was_led_before_is_not_taken():
    driver = GroupDriver()
    driver.commit_in_transaction(offset(ORDERS_0, 5))
    old = driver.questions.popleft()
    driver.resign()
    driver.lead()
    request = driver.commit_in_transaction(offset(ORDERS_0, 6))

    driver.send(verified(old))
    assert not driver.appends
    driver.settle()
    assert driver.error_of(request) is ErrorCode.NONE


def test_after_a_lost_append_the_transaction_is_verified_again():
    driver = GroupDriver()
    driver.commit_in_transaction(offset(ORDERS_0, 5))
    driver.answer_question()
    driver.lose()

    driver.commit_in_transaction(offset(ORDERS_0, 5))

    assert len(driver.questions) == 1


@pytest.mark.parametrize("fields", [{"transactional_id": ""}, {"producer": ProducerIdentity(-1, -1)}])
def test_commit_in_a_transaction_without_a_producer_is_refused(fields: dict[str, object]):
    driver = GroupDriver()

    request = driver.commit_in_transaction(offset(ORDERS_0, 1), **fields)

    assert driver.error_of(request) is ErrorCode.INVALID_REQUEST


# Epochs


def test_an_older_epoch_is_fenced_by_a_commit_of_a_newer():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5), producer=NEXT_EPOCH)

    assert driver.error_of(driver.commit_in_transaction(offset(ORDERS_0, 1))) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_older_epoch_is_fenced_by_a_marker_of_a_newer_also_after_a_restart():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))
    driver.ended(marker(NEXT_EPOCH, version=2))

    assert driver.error_of(driver.commit_in_transaction(offset(ORDERS_0, 1))) is ErrorCode.INVALID_PRODUCER_EPOCH
    driver.restart()
    assert driver.error_of(driver.commit_in_transaction(offset(ORDERS_0, 1))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.offsets() == {ORDERS_0: 5}


def test_an_older_epoch_is_fenced_by_a_question_about_a_newer():
    driver = GroupDriver()
    old = driver.commit_in_transaction(offset(ORDERS_0, 1))

    new = driver.commit_in_transaction(offset(ORDERS_0, 2), producer=NEXT_EPOCH)
    assert driver.error_of(old) is ErrorCode.INVALID_PRODUCER_EPOCH
    late = driver.commit_in_transaction(offset(ORDERS_0, 1))
    assert driver.error_of(late) is ErrorCode.INVALID_PRODUCER_EPOCH
    driver.settle()

    assert driver.error_of(new) is ErrorCode.NONE


def test_a_newer_epoch_is_asked_about_although_the_older_was_confirmed():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 1))

    driver.commit_in_transaction(offset(ORDERS_0, 2), producer=NEXT_EPOCH)

    assert not driver.appends
    assert driver.questions[0].producer == NEXT_EPOCH


def test_the_log_fences_what_the_coordinator_could_not_know():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 1))
    driver.write_markers(marker(NEXT_EPOCH, commit=False))
    request = driver.commit_in_transaction(offset(ORDERS_0, 2))

    driver.settle()

    assert driver.error_of(request) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.unstable() == set()
