"""The logs of a role: under a lock, of the very topic that they are opened for, and kept in order step by step."""

import os

import pytest

from eagleray.actors.disk import DirectoryLock, PartitionLocked
from eagleray.actors.logs import CHECKPOINT_INTERVAL_MS, SCRUB_INTERVAL_MS, Logs
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Flush
from tests.simulation.cluster.ports import MachineDisk
from tests.support.batches import NOW_MS, data_batch

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))


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
    with pytest.raises(FileExistsError):
        open_orders(logs)
    os.remove(directory)
    assert open_orders(logs).log_end_offset == 0


def test_removing_a_partition_leaves_no_file_of_it(logs):
    append(open_orders(logs))
    logs.remove(ORDERS)
    assert not os.path.exists(logs.directory_of(ORDERS))
    assert ORDERS not in logs


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


def test_logs_are_looked_at_in_turn_even_if_that_takes_longer_than_it_should() -> None:
    disk = MachineDisk()
    logs = Logs("/data", {"segment.bytes": "1024"}, disk)
    others = TopicPartition("others", 0)
    for log in (open_orders(logs), logs.open(others, {}, b"2" * 16, now_ms=NOW_MS)):
        append(log, 60)
    disk.rot("/data/logs/others-0/00000000000000000000.log", 200, 1)
    found = [logs.scrub(NOW_MS + turn * SCRUB_INTERVAL_MS) for turn in range(50)]
    assert others in found
