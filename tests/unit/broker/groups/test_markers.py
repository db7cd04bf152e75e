"""What the leader of a partition of `__consumer_offsets` answers to markers."""

from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GROUP, OFFSETS_0, ORDERS_0, PRODUCER, GroupDriver, marker, offset

OFFSETS_1 = TopicPartition("__consumer_offsets", 1)
OFFSETS_2 = TopicPartition("__consumer_offsets", 2)
NEXT_EPOCH = ProducerIdentity(PRODUCER.producer_id, PRODUCER.epoch + 1)


def errors_of(driver: GroupDriver, request_id: int) -> list[str]:
    return [error_code.name for error_code in driver.replies[request_id].error_codes]


def test_marker_is_answered_when_the_log_has_it_and_its_offsets_are_read():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    request = driver.write_markers(marker(PRODUCER))
    reading = driver.request(FetchOffsets, GROUP)
    assert driver.replies.keys().isdisjoint({request, reading})
    driver.append()

    assert errors_of(driver, request) == ["NONE"]
    assert driver.offsets() == {ORDERS_0: 5}


def test_one_for_a_producer_that_has_nothing_here_is_written_all_the_same():
    driver = GroupDriver()

    driver.ended(marker(PRODUCER))

    assert driver.logs[0].log_end_offset == 1


def test_markers_of_one_partition_are_written_together_and_answered_in_the_order_of_the_request():
    driver = GroupDriver(partitions=2)
    other = ProducerIdentity(8, 0)
    request = driver.write_markers(
        marker(PRODUCER, partitions=(OFFSETS_1, OFFSETS_0, OFFSETS_2)),
        marker(other, partitions=(ORDERS_0, OFFSETS_1)),
    )

    assert [(append.log_partition, len(append.records)) for append in driver.appends] == [(1, 2), (0, 1)]
    driver.append()
    assert request not in driver.replies
    driver.append()

    assert errors_of(driver, request) == ["NONE", "NONE", "NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER", "NONE"]


def test_a_request_about_nothing_is_answered():
    driver = GroupDriver()

    assert errors_of(driver, driver.write_markers()) == []


def test_an_older_transaction_coordinator_is_fenced():
    driver = GroupDriver()
    driver.ended(marker(PRODUCER, coordinator_epoch=5))
    driver.pending(offset(ORDERS_0, 5))

    request = driver.write_markers(marker(PRODUCER, coordinator_epoch=4))
    assert errors_of(driver, request) == ["TRANSACTION_COORDINATOR_FENCED"]
    driver.restart()
    request = driver.write_markers(marker(PRODUCER, coordinator_epoch=4))
    assert errors_of(driver, request) == ["TRANSACTION_COORDINATOR_FENCED"]
    assert driver.unstable() == {ORDERS_0}


def test_the_log_fences_one_whose_better_is_still_under_way():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))
    driver.write_markers(marker(NEXT_EPOCH, coordinator_epoch=5, commit=False))

    request = driver.write_markers(marker(PRODUCER, coordinator_epoch=5))
    driver.settle()

    assert errors_of(driver, request) == ["INVALID_PRODUCER_EPOCH"]
    assert driver.offsets() == {}


def test_one_of_an_older_epoch_decides_nothing():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5), producer=NEXT_EPOCH)

    assert errors_of(driver, driver.write_markers(marker(PRODUCER))) == ["INVALID_PRODUCER_EPOCH"]
    assert driver.unstable() == {ORDERS_0}


def test_a_late_one_of_version_2_does_not_end_the_transaction_after_its_own():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5), version=2)
    driver.ended(marker(NEXT_EPOCH, version=2))
    driver.pending(offset(ORDERS_0, 6), producer=NEXT_EPOCH, version=2)

    request = driver.write_markers(marker(NEXT_EPOCH, version=2))

    assert errors_of(driver, request) == ["INVALID_PRODUCER_EPOCH"]
    assert driver.offsets() == {ORDERS_0: 5}
    assert driver.unstable() == {ORDERS_0}


def test_one_that_comes_twice_is_written_twice():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    driver.ended(marker(PRODUCER))
    driver.ended(marker(PRODUCER))

    assert driver.offsets() == {ORDERS_0: 5}


def test_one_of_a_producer_that_has_done_something_in_the_same_turn_is_to_come_again():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    request = driver.write_markers(marker(PRODUCER), marker(PRODUCER, commit=False))
    driver.settle()

    assert errors_of(driver, request) == ["NONE", "CONCURRENT_TRANSACTIONS"]
    assert driver.offsets() == {ORDERS_0: 5}


def test_lost_ones_leave_everything_pending():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))

    request = driver.write_markers(marker(PRODUCER))
    driver.lose()

    assert errors_of(driver, request) == ["COORDINATOR_NOT_AVAILABLE"]
    assert driver.unstable() == {ORDERS_0}


def test_a_log_that_takes_nothing_refuses_them_before_anything_changes():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE

    request = driver.write_markers(marker(PRODUCER))

    assert errors_of(driver, request) == ["COORDINATOR_NOT_AVAILABLE"]
    driver.refusal = ErrorCode.NONE
    assert driver.unstable() == {ORDERS_0}


def test_in_version_2_it_leaves_the_next_transaction_alone_whose_question_is_open():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))
    request = driver.commit_in_transaction(offset(ORDERS_0, 6), producer=NEXT_EPOCH, version=2)

    driver.write_markers(marker(NEXT_EPOCH, version=2))
    driver.append()
    assert request not in driver.replies
    driver.answer_question()
    driver.append()

    assert driver.replies[request].error_code is ErrorCode.NONE
    assert driver.offsets() == {ORDERS_0: 5}
    driver.ended(marker(ProducerIdentity(NEXT_EPOCH.producer_id, NEXT_EPOCH.epoch + 1), version=2))
    assert driver.offsets() == {ORDERS_0: 6}


def test_marker_of_a_coordinator_that_no_metadata_know_fences_no_other():
    driver = GroupDriver()
    driver.pending(offset(ORDERS_0, 5))
    driver.newest_epoch = 5

    request = driver.write_markers(marker(PRODUCER, coordinator_epoch=2**31 - 1))
    driver.settle()

    assert errors_of(driver, request) == ["COORDINATOR_NOT_AVAILABLE"]
    driver.ended(marker(PRODUCER, coordinator_epoch=5))
    assert driver.offsets() == {ORDERS_0: 5}
