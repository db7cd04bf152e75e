"""The logs of a role: under a lock, of the very topic that they are opened for, and kept in order step by step."""

import os
import random
from contextlib import suppress
from itertools import count

import pytest

from eagleray.actors.disk import DirectoryLock, PartitionLocked
from eagleray.actors.logs import (
    BOOKMARK_BATCHES,
    BOOKMARK_INTERVAL_MS,
    CHECKPOINT_INTERVAL_MS,
    METADATA_FILE,
    SCRUB_INTERVAL_MS,
    Logs,
)
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush
from eagleray.broker.runtime.deadlines import NEVER_MS
from tests.simulation.cluster.ports import MachineDisk
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.logs import full_segment

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
REMOVALS = frozenset({Operation.REMOVE, Operation.FLUSH_DIRECTORY})


@pytest.fixture
def logs(tmp_path):
    logs = Logs(str(tmp_path), {"flush": "commit", "num.partitions": "3"})
    yield logs
    logs.close_all()


def open_orders(logs, settings=(), topic_id=TOPIC_ID):
    return logs.open(ORDERS, dict(settings), topic_id, now_ms=NOW_MS)


def append(log, count=1):
    for _ in range(count):
        log.append([data_batch()], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)


def test_what_was_appended_is_there_when_the_log_is_opened_again(logs):
    append(open_orders(logs), 3)
    logs.close(ORDERS)
    assert open_orders(logs).log_end_offset == 3


def test_a_topic_keeps_its_own_settings_and_takes_the_rest_from_the_cluster(logs):
    config = open_orders(logs, {"retention.ms": "1000", "leader.placement": "shared"}).config
    assert (config.retention_ms, config.flush) == (1000, Flush.COMMIT)
    logs.reconfigure(ORDERS, {"flush": "os"})
    assert logs[ORDERS].config.flush is Flush.OS


def test_what_a_deleted_topic_of_the_same_name_left_is_not_taken_for_this_one(logs):
    append(open_orders(logs), 3)
    logs.close(ORDERS)
    assert open_orders(logs, topic_id=bytes(16)).log_end_offset == 0


def test_a_partition_that_another_has_open_is_not_opened(logs, tmp_path):
    open_orders(logs)
    another = Logs(str(tmp_path), {})
    with pytest.raises(PartitionLocked, match=r"orders-0\.lock is locked by another process"):
        open_orders(another)
    logs.close(ORDERS)
    open_orders(another)
    another.close_all()


def test_a_log_that_cannot_be_opened_is_not_left_locked(logs, tmp_path):
    directory = logs.directory_of(ORDERS)
    os.makedirs(os.path.dirname(directory))
    with open(directory, "w"):
        pass
    with pytest.raises(NotADirectoryError):
        open_orders(logs)
    os.remove(directory)
    assert open_orders(logs).log_end_offset == 0


def test_removing_a_partition_leaves_no_file_of_it(logs):
    append(open_orders(logs))
    logs.remove(ORDERS)
    assert not os.path.exists(logs.directory_of(ORDERS))
    assert ORDERS not in logs


def log_of_three_segments(disk):
    logs = Logs("/data", {"segment.bytes": "1024"}, disk)
    log = open_orders(logs)
    for number in range(3):
        log.append([full_segment(number)], leader_epoch=0, now_ms=NOW_MS)
    assert len(log.segments) == 3
    return logs


@pytest.mark.parametrize("keeps", [True, False], ids=["killed", "without power"])
def test_a_removal_that_is_interrupted_leaves_a_log_whole_or_empty(keeps):
    ends = set()
    for step in count():
        disk = MachineDisk()
        logs = log_of_three_segments(disk)
        logs.close(ORDERS)
        with disk.possibly(Fault(Outcome.KILL, on=REMOVALS, skip=step)) as fault, suppress(ProcessKilled):
            logs.discard(ORDERS)
        if not fault.has_fired:
            break
        if keeps:
            disk.crash_process()
        else:
            # Whatever was not flushed may have reached the disk all the same, in any order.
            chance = random.Random(step)
            disk.lose_power(lambda chance=chance: chance.random() < 0.5)
        log = open_orders(Logs("/data", {}, disk))
        assert (log.log_start_offset, log.log_end_offset) in {(0, 0), (0, 3)}
        ends.add(log.log_end_offset)
    assert 0 in ends, "it was interrupted after it had begun"


def test_a_log_that_cannot_be_removed_is_left_for_later_and_never_left_in_part(caplog):
    disk = MachineDisk()
    logs = log_of_three_segments(disk)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.REMOVE, path_ending=METADATA_FILE)):
        logs.remove(ORDERS)
    assert "orders-0 cannot be removed yet" in caplog.text
    with disk.injected(Fault(Outcome.FAIL, on=Operation.REMOVE, path_ending=METADATA_FILE)):
        assert logs.remove_unused(["orders-0"]) == []
    assert open_orders(logs).log_end_offset == 3
    logs.close(ORDERS)
    assert logs.remove_unused(["orders-0"]) == ["orders-0"]
    assert not logs.has_files(ORDERS)


def test_a_lock_is_free_once_it_was_released(tmp_path):
    path = str(tmp_path / "some.lock")
    lock = DirectoryLock(path)
    with pytest.raises(PartitionLocked):
        DirectoryLock(path)
    lock.release()
    DirectoryLock(path).release()


def keep(logs, now_ms, rounds=50):
    for _ in range(rounds):
        logs.housekeep(now_ms)


def test_housekeeping_applies_retention_and_not_again_before_it_is_due(logs):
    log = open_orders(logs, {"retention.ms": "1000"})
    append(log, 2)
    keep(logs, NOW_MS)
    assert log.log_start_offset == 0
    keep(logs, NOW_MS + CHECKPOINT_INTERVAL_MS - 1)
    assert log.log_start_offset == 0
    keep(logs, NOW_MS + CHECKPOINT_INTERVAL_MS)
    assert log.log_start_offset == 2


def test_housekeeping_compacts_step_by_step(logs):
    log = open_orders(logs, {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"})
    for number in range(100):
        log.append_records([(b"key", b"%d" % number)], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    size_bytes = log.size_bytes
    keep(logs, NOW_MS)
    assert log.cleaned_up_to > 0
    assert log.size_bytes < size_bytes / 2


def test_a_log_that_is_closed_in_the_middle_of_a_compaction_is_left_alone(logs):
    log = open_orders(logs, {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0"})
    for number in range(100):
        log.append_records([(b"key", b"%d" % number)], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    keep(logs, NOW_MS, rounds=3)
    logs.close(ORDERS)
    keep(logs, NOW_MS)
    assert open_orders(logs).log_end_offset == 100


def test_a_log_that_its_disk_has_damaged_is_found_and_can_be_begun_anew():
    disk = MachineDisk()
    logs = Logs("/data", {"segment.bytes": "1024"}, disk)
    log = open_orders(logs)
    append(log, 60)
    assert all(logs.scrub(NOW_MS) is None for _ in range(50))
    disk.rot("/data/logs/orders-0/00000000000000000000.log", 200, 1)
    assert logs.scrub(NOW_MS) is None, "it was looked at, and is not due yet"
    found = [logs.scrub(NOW_MS + SCRUB_INTERVAL_MS) for _ in range(50)]
    assert ORDERS in found
    logs.discard(ORDERS)
    assert open_orders(logs).log_end_offset == 0


def test_every_log_is_looked_at_however_long_one_look_at_all_of_them_takes():
    """The first is due again before the second has had its turn."""
    disk = MachineDisk()
    logs = Logs("/data", {"segment.bytes": "1024"}, disk)
    payments = TopicPartition("payments", 0)
    append(open_orders(logs), 60)
    append(logs.open(payments, {}, TOPIC_ID, now_ms=NOW_MS), 60)
    disk.rot("/data/logs/payments-0/00000000000000000000.log", 200, 1)
    found = [logs.scrub(NOW_MS + step * SCRUB_INTERVAL_MS) for step in range(50)]
    assert payments in found


# Bookmarks

BOOKMARK = "/data/logs/orders-0/segment-bookmark"


@pytest.fixture
def disk():
    return MachineDisk()


def bookmark(logs, now_ms, rounds=5):
    for _ in range(rounds):
        logs.bookmark(now_ms)


def unmarked_batches(log):
    return log.active_segment.unmarked_batches


def test_a_process_that_is_killed_leaves_little_to_scan(disk):
    logs = Logs("/data", {}, disk)
    log = open_orders(logs)
    append(log, 50)
    marked_bytes = log.size_bytes
    bookmark(logs, NOW_MS)
    append(log, 2)
    disk.crash_process()
    again = open_orders(Logs("/data", {}, disk))
    assert again.recovery.known_bytes == marked_bytes
    assert again.recovery.scanned_bytes == log.size_bytes - marked_bytes


def test_a_bookmark_is_written_again_after_a_while_if_there_is_anything_new(disk):
    logs = Logs("/data", {}, disk)
    log = open_orders(logs)
    bookmark(logs, NOW_MS)
    assert not disk.exists(BOOKMARK), "nothing was appended"
    append(log)
    bookmark(logs, NOW_MS)
    first = disk.read_bytes(BOOKMARK)
    bookmark(logs, NOW_MS + 10 * BOOKMARK_INTERVAL_MS)
    append(log)
    assert disk.read_bytes(BOOKMARK) == first
    bookmark(logs, NOW_MS + 1)
    assert disk.read_bytes(BOOKMARK) == first, "it is not due yet"
    bookmark(logs, NOW_MS + BOOKMARK_INTERVAL_MS)
    assert disk.read_bytes(BOOKMARK) != first


def test_a_bookmark_is_due_at_once_when_much_was_appended(disk):
    logs = Logs("/data", {}, disk)
    log = open_orders(logs)
    append(log)
    bookmark(logs, NOW_MS)
    append(log, BOOKMARK_BATCHES - 1)
    bookmark(logs, NOW_MS)
    assert unmarked_batches(log) == BOOKMARK_BATCHES - 1
    append(log)
    bookmark(logs, NOW_MS)
    assert unmarked_batches(log) == 0


def test_a_log_of_many_producers_is_marked_less_often(disk):
    """Each of them is in the bookmark, which has to be worth what it costs."""
    logs = Logs("/data", {}, disk)
    log = open_orders(logs)
    log.append([data_batch(producer_id=each) for each in range(800)], leader_epoch=0, now_ms=NOW_MS)
    bookmark(logs, NOW_MS)
    assert unmarked_batches(log) == 0
    later_ms = NOW_MS + BOOKMARK_INTERVAL_MS
    append(log, 100)
    bookmark(logs, later_ms)
    assert unmarked_batches(log) == 100
    append(log, 1)
    bookmark(logs, later_ms)
    assert unmarked_batches(log) == 0
    append(log, BOOKMARK_BATCHES)
    bookmark(logs, later_ms)
    assert unmarked_batches(log) == BOOKMARK_BATCHES


def test_one_tick_writes_one_bookmark_and_every_log_has_its_turn(disk):
    logs = Logs("/data", {}, disk)
    partitions = [TopicPartition("orders", number) for number in range(250)]
    opened = [logs.open(partition, {}, TOPIC_ID, now_ms=NOW_MS) for partition in partitions]
    for log in opened:
        append(log)
    for marked in range(1, 251):
        logs.bookmark(NOW_MS)
        assert sum(not unmarked_batches(log) for log in opened) == marked
    opened[-1].append([data_batch()], leader_epoch=0, now_ms=NOW_MS)
    bookmark(logs, NOW_MS + BOOKMARK_INTERVAL_MS, rounds=4)
    assert not unmarked_batches(opened[-1])


def test_a_bookmark_that_cannot_be_written_is_tried_again_later(disk):
    logs = Logs("/data", {}, disk)
    log = open_orders(logs)
    append(log)
    fault = Fault(Outcome.FAIL, path_ending="segment-bookmark.tmp", is_lasting=True)
    with disk.injected(fault):
        bookmark(logs, NOW_MS)
    assert log.is_online
    append(log)
    bookmark(logs, NOW_MS + BOOKMARK_INTERVAL_MS)
    assert disk.exists(BOOKMARK)


def test_logs_say_when_something_is_due_and_an_idle_log_wants_no_bookmark(disk):
    heard = []
    logs = Logs("/data", {}, disk, on_due=heard.append)
    assert logs.next_due_ms == NEVER_MS
    log = open_orders(logs)
    assert logs.next_due_ms <= NOW_MS
    keep(logs, NOW_MS)
    assert all(logs.scrub(NOW_MS) is None for _ in range(10))
    assert logs.next_due_ms == NOW_MS + CHECKPOINT_INTERVAL_MS
    heard.clear()
    append(log)
    assert heard, "the log has grown, and a bookmark is due"
    assert logs.next_due_ms <= NOW_MS
    bookmark(logs, NOW_MS)
    append(log)
    assert logs.next_due_ms == NOW_MS + BOOKMARK_INTERVAL_MS
    bookmark(logs, NOW_MS + BOOKMARK_INTERVAL_MS)
    assert logs.next_due_ms == NOW_MS + CHECKPOINT_INTERVAL_MS, "nothing was appended since"
    logs.close(ORDERS)
    assert logs.next_due_ms == NEVER_MS
