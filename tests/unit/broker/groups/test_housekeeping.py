"""What goes because time has passed, or because its topic is gone."""

import pytest

from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.events import OffsetsOfTopicDeleted
from eagleray.broker.groups.log_records import replay
from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.runtime.coordinator_events import PartitionAssigned, PartitionLoaded, TimeSet
from eagleray.broker.runtime.deadlines import Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.groups import GROUP, ORDERS_0, ORDERS_1, PAYMENTS_0, PRODUCER, GroupDriver, marker, offset

WEEK_MS = 7 * 24 * 60 * 60 * 1000
INTERVAL_MS = 10 * 60 * 1000


def test_an_offset_expires_a_week_after_its_commit():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.now_ms += INTERVAL_MS
    driver.committed(offset(ORDERS_1, 2))

    driver.tick(WEEK_MS - INTERVAL_MS - 1)
    assert not driver.appends
    driver.tick(INTERVAL_MS)
    assert [value for _, batch in driver.appends[0].records for _, value in batch.records] == [None]
    driver.settle()

    assert driver.offsets() == {ORDERS_1: 2}
    driver.restart()
    assert driver.offsets() == {ORDERS_1: 2}


def test_expired_offsets_are_not_looked_for_all_the_time():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.tick(WEEK_MS - 1)

    driver.tick(INTERVAL_MS - 1)
    assert not driver.appends
    driver.tick(1)
    assert driver.appends


def test_every_partition_has_its_turn():
    driver = GroupDriver(partitions=3)
    for name in "abcdef":
        driver.committed(offset(ORDERS_0, 1), group=name)

    driver.now_ms += WEEK_MS
    for _ in range(3):
        driver.tick()
    driver.settle()

    assert driver.groups() == ()


def test_nothing_expires_of_a_group_with_pending_offsets():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.pending(offset(ORDERS_1, 2))

    driver.tick(WEEK_MS)
    assert not driver.appends
    driver.ended(marker(PRODUCER, commit=False))
    driver.tick(INTERVAL_MS)
    driver.settle()

    assert driver.groups() == ()


def test_no_tombstone_follows_a_commit_that_is_under_way():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1), offset(ORDERS_1, 1))

    driver.now_ms += WEEK_MS
    driver.commit(offset(ORDERS_0, 2))
    driver.tick()
    driver.settle()

    assert driver.offsets() == {ORDERS_0: 2}


def test_offset_whose_tombstone_was_lost_is_found_again():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.tick(WEEK_MS)
    driver.lose()

    driver.tick(INTERVAL_MS)
    driver.settle()

    assert driver.groups() == ()


def test_an_idle_producer_is_forgotten_and_one_with_a_transaction_is_not():
    driver = GroupDriver()
    driver.ended(marker(ProducerIdentity(PRODUCER.producer_id, 5)))
    driver.pending(offset(ORDERS_0, 1), producer=ProducerIdentity(8, 5))

    driver.tick(24 * 60 * 60 * 1000)
    driver.logs[0].apply_retention(driver.now_ms)

    idle = driver.commit_in_transaction(offset(ORDERS_0, 1), producer=PRODUCER)
    assert idle not in driver.replies
    busy = driver.commit_in_transaction(offset(ORDERS_0, 1), producer=ProducerIdentity(8, 4))
    assert driver.error_of(busy) is ErrorCode.INVALID_PRODUCER_EPOCH


# Deleted topics


def test_the_offsets_of_a_deleted_topic_go():
    driver = GroupDriver(partitions=3)
    driver.committed(offset(ORDERS_0, 1), offset(PAYMENTS_0, 2), group="a")
    driver.committed(offset(ORDERS_1, 3), group="b")
    driver.pending(offset(ORDERS_1, 4), group="c")

    driver.send(OffsetsOfTopicDeleted(("orders",)))
    driver.settle()

    assert driver.groups() == ("a",)
    assert driver.offsets("a") == {PAYMENTS_0: 2}


def test_offsets_on_their_way_to_the_log_go_as_well():
    driver = GroupDriver()
    driver.commit(offset(ORDERS_0, 1))

    driver.send(OffsetsOfTopicDeleted(("orders",)))
    driver.settle()
    driver.tick()
    driver.settle()

    assert driver.groups() == ()


def test_offsets_of_a_deleted_topic_are_gone_before_a_log_that_refused_takes_those_of_a_new_one():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1), offset(ORDERS_1, 2))
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.send(OffsetsOfTopicDeleted(("orders",)))
    driver.refusal = ErrorCode.NONE

    driver.committed(offset(ORDERS_0, 0))
    assert driver.offsets() == {ORDERS_0: 0}
    driver.tick(1000)
    driver.settle()
    assert driver.offsets() == {ORDERS_0: 0}


def test_a_log_that_refused_tombstones_gets_them_when_it_takes_something_again():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.send(OffsetsOfTopicDeleted(("orders",)))
    driver.tick(1000)
    driver.refusal = ErrorCode.NONE

    driver.tick(1000)
    driver.settle()

    assert driver.groups() == ()


def test_lost_tombstones_are_logged_when_the_loaded_partition_is_compared_with_the_topics():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.send(OffsetsOfTopicDeleted(("orders",)))
    driver.lose()

    assert driver.load().topics() == {"orders"}
    driver.send(OffsetsOfTopicDeleted(("orders",)))
    driver.settle()
    assert driver.groups() == ()


def test_deletion_is_tried_once_at_a_time_and_then_forgotten():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.send(OffsetsOfTopicDeleted(("orders",)))

    driver.tick()
    assert len(driver.appends) == 1
    driver.settle()
    driver.tick()
    driver.committed(offset(ORDERS_0, 0))
    driver.tick()

    assert not driver.appends


def test_a_partition_that_is_being_loaded_deletes_them_then():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.epoch += 1
    driver.send(PartitionAssigned(0, driver.epoch))

    driver.send(OffsetsOfTopicDeleted(("orders",)))
    assert not driver.appends
    driver.send(PartitionLoaded(0, driver.epoch, driver.load()))
    driver.settle()

    assert driver.groups() == ()


def test_a_coordinator_without_groups_has_nothing_to_do():
    driver = GroupDriver(GroupConfig(offsets_topic_num_partitions=1))

    driver.send(OffsetsOfTopicDeleted(("orders",)))

    assert driver.tick(WEEK_MS) == []


# When the clock is in doubt, or set


def test_offsets_stay_while_the_clock_is_in_doubt():
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.now_ms += 2 * WEEK_MS
    driver.send(Tick(may_expire=False))
    assert not driver.appends
    assert driver.coordinator.next_due_ms > driver.now_ms, "they must not be looked for all the time"
    driver.tick(INTERVAL_MS)
    assert driver.appends


@pytest.mark.parametrize("by_ms", [WEEK_MS, -WEEK_MS])
def test_offset_expires_a_week_after_its_commit_although_the_time_of_day_is_set(by_ms):
    driver = GroupDriver()
    driver.committed(offset(ORDERS_0, 1))
    driver.tick(INTERVAL_MS)
    driver.send(TimeSet(by_ms))
    driver.committed(offset(ORDERS_1, 1))
    driver.tick(WEEK_MS - INTERVAL_MS - 1)
    assert not driver.appends
    driver.tick(INTERVAL_MS)
    driver.settle()
    assert driver.offsets() == {ORDERS_1: 1}


@pytest.mark.parametrize("by_ms", [WEEK_MS, -WEEK_MS])
def test_offset_has_the_time_of_day_in_the_log_and_is_as_old_when_it_is_loaded_again(by_ms):
    driver = GroupDriver()
    driver.send(TimeSet(by_ms))
    driver.committed(offset(ORDERS_0, 1))
    (stored,) = replay(driver.logs[0].batches()).groups[GROUP].offsets.values()
    assert stored.committed_ms == driver.now_ms + by_ms
    driver.resign()
    driver.epoch += 1
    driver.lead()
    driver.tick(WEEK_MS - 1)
    assert not driver.appends
    driver.tick(INTERVAL_MS)
    assert driver.appends
