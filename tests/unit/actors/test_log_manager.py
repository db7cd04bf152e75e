"""The logs of a role: under a lock, of the very topic that they are opened for, and kept in order step by step."""

import os
import random
from contextlib import suppress
from itertools import count

import pytest
from msgspec.structs import replace

from eagleray.actors.storage.disk import DirectoryLock, PartitionLocked
from eagleray.actors.storage.log_directories import METADATA_FILE, StrayLog
from eagleray.actors.storage.log_manager import (
    BOOKMARK_BATCHES,
    BOOKMARK_INTERVAL_MS,
    CHECKPOINT_INTERVAL_MS,
    REMOVED_AT_ONCE,
    SCRUB_INTERVAL_MS,
    LogManager,
    next_flush_ms,
)
from eagleray.broker.filesystem import write_atomically
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import Appended, Flush, LogOffline
from eagleray.broker.log.checkpoint import read_checkpoint, write_checkpoint
from eagleray.broker.log.names import DELETE_SUFFIX
from eagleray.broker.log.partition_metadata import encode_partition_metadata
from eagleray.broker.runtime.deadlines import NEVER_MS
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome, ProcessKilled
from tests.support.local_disk import DiskWithoutThreads
from tests.support.logs import full_segment
from tests.support.node_disk import NodeDisk

ORDERS = TopicPartition("orders", 0)
TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
METADATA = encode_partition_metadata(TOPIC_ID)
DAY_MS = 24 * 60 * 60 * 1000
WEEK_MS = 7 * DAY_MS
REMOVALS = frozenset({Operation.REMOVE, Operation.RENAME, Operation.FLUSH_DIRECTORY})


@pytest.fixture
def disk():
    return NodeDisk()


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def logs(tmp_path):
    logs = LogManager(str(tmp_path), {"flush": "commit", "num.partitions": "3"}, DiskWithoutThreads())
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


def test_what_a_deleted_topic_of_the_same_name_left_is_put_aside(logs):
    append(open_orders(logs), 3)
    logs.close(ORDERS)
    again = logs.open(ORDERS, {}, OTHER_ID, now_ms=NOW_MS, deleted={TOPIC_ID})
    assert again.log_end_offset == 0
    assert logs.on_disk() == ["orders-0", f"orders-0.{TOPIC_ID.hex()}-delete"]


def test_what_a_topic_of_the_same_name_left_that_was_not_deleted_is_neither_opened_nor_removed(logs, tmp_path):
    append(open_orders(logs), 3)
    logs.close(ORDERS)
    before = files_in(tmp_path / "logs")
    with pytest.raises(
        StrayLog, match="which was not deleted; expected 'version: 0, topic_id: AAAAAAAAAAAAAAAAAAAAAA'"
    ):
        logs.open(ORDERS, {}, bytes(16), now_ms=NOW_MS, deleted={OTHER_ID})
    assert files_in(tmp_path / "logs") == before
    assert open_orders(logs).log_end_offset == 3


METADATA_PATH = f"/data/logs/orders-0/{METADATA_FILE}"
CHECKPOINT_PATH = "/data/logs/orders-0/partition-checkpoint"


def closed_log(disk, partition=ORDERS):
    """Leave a log of three records on a disk, and nodes that are to open it."""
    logs = LogManager("/data", {}, disk)
    append(logs.open(partition, {}, TOPIC_ID, now_ms=NOW_MS), 3)
    logs.close(partition)
    return logs


def logs_on(disk):
    return {path: content for path, content in disk.tree().items() if "/logs/" in path}


@pytest.mark.parametrize("position", range(len(METADATA)))
def test_bit_that_flips_in_the_partition_metadata_is_repaired_from_the_checkpoint(disk, position, caplog):
    logs = closed_log(disk)
    assert disk.read_bytes(METADATA_PATH) == METADATA
    disk.rot(METADATA_PATH, position, 1 << position % 8)
    assert open_orders(logs).log_end_offset == 3
    # White space may be any, as Kafka reads it.
    is_same = METADATA[position : position + 1] in b" \n" and disk.read_bytes(METADATA_PATH) != METADATA
    assert is_same or disk.read_bytes(METADATA_PATH) == METADATA
    assert is_same or "was damaged, and is written anew" in caplog.text


@pytest.mark.parametrize("path", [CHECKPOINT_PATH, CHECKPOINT_PATH + ".2"])
def test_partition_metadata_is_not_repaired_where_a_checkpoint_is_damaged_too(disk, path):
    logs = closed_log(disk)
    disk.rot(METADATA_PATH, 20, 1)
    disk.rot(path, 40, 1)
    before = logs_on(disk)
    with pytest.raises(StrayLog, match="left as it is, and not opened"):
        open_orders(logs)
    assert logs_on(disk) == before


def test_partition_metadata_of_another_topic_is_no_damage_that_is_repaired(disk):
    logs = closed_log(disk)
    write_atomically(disk, METADATA_PATH, encode_partition_metadata(OTHER_ID))
    before = logs_on(disk)
    with pytest.raises(StrayLog, match=f"By its checkpoint it is partition 0 of topic id {TOPIC_ID.hex()}"):
        open_orders(logs)
    assert logs_on(disk) == before


def test_directory_is_not_put_aside_as_a_deleted_topic_where_its_checkpoint_names_another(disk):
    logs = closed_log(disk)
    write_atomically(disk, METADATA_PATH, encode_partition_metadata(OTHER_ID))
    before = logs_on(disk)
    with pytest.raises(StrayLog):
        logs.open(ORDERS, {}, bytes(range(3, 19)), now_ms=NOW_MS, deleted={OTHER_ID})
    assert logs_on(disk) == before
    assert logs.is_contradicted("orders-0")


def test_directories_of_one_topic_that_were_swapped_are_told_apart(disk):
    first, second = ORDERS, TopicPartition(ORDERS.topic, 1)
    closed_log(disk, first)
    logs = closed_log(disk, second)
    for source, target in ((first, "swap"), (second, first), ("swap", second)):
        disk.rename_directory(f"/data/logs/{source}", f"/data/logs/{target}")
    before = logs_on(disk)
    for partition in (first, second):
        with pytest.raises(StrayLog, match="names the topic, but the checkpoint does not agree"):
            logs.open(partition, {}, TOPIC_ID, now_ms=NOW_MS)
    assert logs_on(disk) == before


def test_log_whose_checkpoint_has_no_second_copy_is_opened_by_partition_metadata_alone(disk):
    logs = closed_log(disk)
    older = replace(read_checkpoint(disk, "/data/logs/orders-0").checkpoint, topic_id="", partition=-1)
    write_checkpoint(disk, "/data/logs/orders-0", write_checkpoint(disk, "/data/logs/orders-0", older))
    disk.rot(METADATA_PATH, 20, 1)
    with pytest.raises(StrayLog):
        open_orders(logs)
    disk.rot(METADATA_PATH, 20, 1)
    assert open_orders(logs).log_end_offset == 3
    logs.close(ORDERS)
    found = read_checkpoint(disk, "/data/logs/orders-0").checkpoint
    assert (found.topic_id, found.partition) == (TOPIC_ID.hex(), 0)


def test_directory_that_a_crash_left_before_it_was_made_is_taken(disk):
    disk.make_directories("/data/logs/orders-0")
    disk.open(f"/data/logs/orders-0/{METADATA_FILE}.tmp").close()
    assert open_orders(LogManager("/data", {}, disk)).log_end_offset == 0


def test_directories_that_are_put_aside_one_after_the_other_have_names_of_their_own(logs):
    for _ in range(2):
        append(open_orders(logs), 3)
        logs.remove(ORDERS)
    names = [f"orders-0.{TOPIC_ID.hex()}-delete", f"orders-0.{TOPIC_ID.hex()}1-delete"]
    assert logs.on_disk() == names
    long_name = TopicPartition("o" * 244, 12345)
    logs.open(long_name, {}, TOPIC_ID, now_ms=NOW_MS)
    logs.remove(long_name)
    assert max(map(len, logs.on_disk())) == 255


def test_a_partition_that_another_has_open_is_not_opened(logs, tmp_path):
    open_orders(logs)
    another = LogManager(str(tmp_path), {})
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


def test_partition_that_is_removed_is_put_aside_and_then_purged(logs):
    append(open_orders(logs))
    logs.remove(ORDERS)
    assert not os.path.exists(logs.directory_of(ORDERS))
    assert ORDERS not in logs
    (put_aside,) = logs.on_disk()
    logs.purge(put_aside)
    assert logs.on_disk() == []


def log_of_three_segments(disk):
    logs = LogManager("/data", {"segment.bytes": "1024"}, disk)
    log = open_orders(logs)
    for number in range(3):
        log.append([full_segment(number)], leader_epoch=0, now_ms=NOW_MS)
    assert len(log.segments) == 3
    return logs


@pytest.mark.parametrize("keeps", [True, False], ids=["killed", "without power"])
def test_a_removal_that_is_interrupted_leaves_a_log_whole_or_empty(keeps):
    ends = set()
    for step in count():
        disk = NodeDisk()
        logs = log_of_three_segments(disk)
        logs.close(ORDERS)
        with disk.possibly(Fault(Outcome.KILL, on=REMOVALS, skip=step)) as fault, suppress(ProcessKilled):
            logs.purge(logs.set_aside(str(ORDERS)))
        if not fault.has_fired:
            break
        if keeps:
            disk.crash_process()
        else:
            # Whatever was not flushed may have reached the disk all the same, in any order.
            chance = random.Random(step)
            disk.lose_power(lambda chance=chance: chance.random() < 0.5)
        log = open_orders(LogManager("/data", {}, disk))
        assert (log.log_start_offset, log.log_end_offset) in {(0, 0), (0, 3)}
        ends.add(log.log_end_offset)
    assert 0 in ends, "it was interrupted after it had begun"


def test_a_log_that_cannot_be_removed_is_left_for_later_and_never_left_in_part(caplog):
    disk = NodeDisk()
    logs = log_of_three_segments(disk)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.RENAME, path_ending=DELETE_SUFFIX)):
        logs.remove(ORDERS)
    assert "orders-0 cannot be put aside yet" in caplog.text
    with disk.injected(Fault(Outcome.FAIL, on=Operation.RENAME, path_ending=DELETE_SUFFIX)):
        assert logs.set_aside_unused(["orders-0"]) == []
    assert open_orders(logs).log_end_offset == 3
    logs.close(ORDERS)
    assert logs.set_aside_unused(["orders-0"]) == ["orders-0"]
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
        logs.housekeep(now_ms, now_ms)


def test_housekeeping_applies_retention_and_not_again_before_it_is_due(logs):
    log = open_orders(logs, {"retention.ms": "1000"})
    append(log, 2)
    keep(logs, NOW_MS)
    assert log.log_start_offset == 0
    keep(logs, NOW_MS + CHECKPOINT_INTERVAL_MS - 1)
    assert log.log_start_offset == 0
    keep(logs, NOW_MS + CHECKPOINT_INTERVAL_MS)
    assert log.log_start_offset == 2


def test_housekeeping_removes_a_few_segments_in_a_step(disk):
    logs = LogManager("/data", {"segment.bytes": "1024", "retention.ms": "1000"}, disk)
    log = open_orders(logs)
    count = 3 * REMOVED_AT_ONCE
    for _ in range(count):
        log.append([data_batch(value=bytes(900))], leader_epoch=0, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    left = [len(log.segments)]
    for _ in range(4):
        logs.housekeep(NOW_MS + CHECKPOINT_INTERVAL_MS, NOW_MS + CHECKPOINT_INTERVAL_MS)
        left.append(len(log.segments))
    # Behind what goes last another segment begins.
    assert left == [count, 2 * REMOVED_AT_ONCE, REMOVED_AT_ONCE, 1, 1]
    assert log.log_start_offset == log.log_end_offset


def test_no_record_is_too_old_while_the_clock_is_in_doubt(logs):
    log = open_orders(logs, {"retention.ms": "1000", "retention.bytes": "-1"})
    append(log, 2)
    logs.housekeep(NOW_MS, NOW_MS + 60_000, may_expire=False)
    assert log.log_start_offset == 0
    keep(logs, NOW_MS + CHECKPOINT_INTERVAL_MS)
    assert log.log_start_offset == 2


def test_records_that_are_too_many_go_although_the_clock_is_in_doubt(logs):
    log = open_orders(logs, {"retention.bytes": "1024", "segment.bytes": "1024"})
    append(log, 100)
    for _ in range(5):
        logs.housekeep(NOW_MS, NOW_MS, may_expire=False)
    assert log.log_start_offset > 0


@pytest.mark.parametrize("by_ms", [WEEK_MS, -WEEK_MS])
def test_producer_is_as_idle_as_it_was_when_the_time_of_day_is_set(logs, by_ms):
    log = open_orders(logs)
    log.append([data_batch(producer_id=7)], leader_epoch=0, now_ms=NOW_MS)
    logs.time_was_set(by_ms)
    log.apply_retention(NOW_MS + by_ms + DAY_MS - 1)
    assert log.producers.get(7) is not None
    log.apply_retention(NOW_MS + by_ms + DAY_MS)
    assert log.producers.get(7) is None


def test_timestamps_are_not_refused_for_what_the_clock_may_be_wrong_by(logs):
    log = open_orders(logs)
    ahead = data_batch(timestamps_ms=[NOW_MS + WEEK_MS])
    (refused,) = log.append([ahead], leader_epoch=0, now_ms=NOW_MS)
    assert refused.error_code is ErrorCode.INVALID_TIMESTAMP
    logs.doubt_clock(WEEK_MS)
    (taken,) = log.append([ahead], leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(taken, Appended)
    other = logs.open(TopicPartition("orders", 1), {}, TOPIC_ID, now_ms=NOW_MS)
    assert other.doubt_ms == WEEK_MS
    logs.doubt_clock(0)
    assert log.doubt_ms == other.doubt_ms == 0


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
    disk = NodeDisk()
    logs = LogManager("/data", {"segment.bytes": "1024"}, disk)
    log = open_orders(logs)
    append(log, 60)
    assert all(logs.scrub(NOW_MS) is None for _ in range(50))
    disk.rot("/data/logs/orders-0/00000000000000000000.log", 200, 1)
    assert logs.scrub(NOW_MS) is None, "it was looked at, and is not due yet"
    found = [logs.scrub(NOW_MS + SCRUB_INTERVAL_MS) for _ in range(50)]
    assert ORDERS in [each[0] for each in found if each is not None]
    before = disk.tree()["/data/logs/orders-0/00000000000000000000.log"]
    logs.put_away(ORDERS)
    assert open_orders(logs).log_end_offset == 0
    assert disk.tree()["/data/damaged/orders-0/00000000000000000000.log"] == before


def test_every_log_is_looked_at_however_long_one_look_at_all_of_them_takes():
    """The first is due again before the second has had its turn."""
    disk = NodeDisk()
    logs = LogManager("/data", {"segment.bytes": "1024"}, disk)
    payments = TopicPartition("payments", 0)
    append(open_orders(logs), 60)
    append(logs.open(payments, {}, TOPIC_ID, now_ms=NOW_MS), 60)
    disk.rot("/data/logs/payments-0/00000000000000000000.log", 200, 1)
    found = [logs.scrub(NOW_MS + step * SCRUB_INTERVAL_MS) for step in range(50)]
    assert payments in [each[0] for each in found if each is not None]


# Bookmarks

BOOKMARK = "/data/logs/orders-0/segment-bookmark"


def bookmark(logs, now_ms, rounds=5):
    for _ in range(rounds):
        logs.bookmark(now_ms)


def flush(logs, now_ms):
    """Flush what is due, as a node does in another thread; return which logs were."""
    begun = logs.begin_flushes(now_ms, 10)
    for each in begun:
        logs.finish_flush(each, each.flush.run())
    return [each.partition for each in begun]


def unmarked_batches(log):
    return log.active_segment.unmarked_batches


def test_a_process_that_is_killed_leaves_little_to_scan(disk):
    logs = LogManager("/data", {}, disk)
    log = open_orders(logs)
    append(log, 50)
    marked_bytes = log.size_bytes
    bookmark(logs, NOW_MS)
    append(log, 2)
    disk.crash_process()
    again = open_orders(LogManager("/data", {}, disk))
    assert again.recovery.known_bytes == marked_bytes
    assert again.recovery.scanned_bytes == log.size_bytes - marked_bytes


def test_a_bookmark_is_written_again_after_a_while_if_there_is_anything_new(disk):
    logs = LogManager("/data", {}, disk)
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
    logs = LogManager("/data", {}, disk)
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
    logs = LogManager("/data", {}, disk)
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
    logs = LogManager("/data", {}, disk)
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
    logs = LogManager("/data", {}, disk)
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
    logs = LogManager("/data", {}, disk, on_due=heard.append)
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
    flush(logs, NOW_MS)
    append(log)
    assert logs.next_due_ms == NOW_MS + log.config.flush_ms
    flush(logs, NOW_MS + log.config.flush_ms)
    assert logs.next_due_ms == NOW_MS + BOOKMARK_INTERVAL_MS
    bookmark(logs, NOW_MS + BOOKMARK_INTERVAL_MS)
    assert logs.next_due_ms == NOW_MS + CHECKPOINT_INTERVAL_MS, "nothing was appended since"
    logs.close(ORDERS)
    assert logs.next_due_ms == NEVER_MS


# Flushing


def test_log_is_flushed_in_the_background_as_long_as_something_is_appended(disk):
    logs = LogManager("/data", {"flush.ms": "700"}, disk)
    log = open_orders(logs)
    assert flush(logs, NOW_MS) == []
    append(log)
    assert flush(logs, NOW_MS) == [ORDERS]
    assert log.recovery_point == log.log_end_offset
    assert flush(logs, NOW_MS + 10_000) == [], "nothing was appended since"
    append(log)
    assert flush(logs, NOW_MS + 699) == []
    append(log)
    assert flush(logs, NOW_MS + 700) == [ORDERS]
    assert log.recovery_point == log.log_end_offset


def test_flushed_log_loses_nothing_with_the_power_and_little_is_read(disk):
    logs = LogManager("/data", {"segment.bytes": "1024"}, disk)
    log = open_orders(logs)
    append(log, 60)
    flush(logs, NOW_MS)
    end_offset, size_bytes = log.log_end_offset, log.active_segment.size_bytes
    append(log)
    disk.lose_power(lambda: False)
    again = open_orders(LogManager("/data", {"segment.bytes": "1024"}, disk))
    assert (again.log_end_offset, again.recovery_point) == (end_offset, end_offset)
    assert again.recovery.scanned_bytes <= size_bytes
    assert again.recovery.verdict is None


def test_sole_replica_says_that_its_unflushed_end_may_be_lost(disk, caplog):
    append(open_orders(LogManager("/data", {}, disk)))
    disk.lose_power(lambda: False)
    logs = LogManager("/data", {}, disk)
    open_orders(logs)
    assert logs.uncertain_ends == 1
    assert "orders-0 was not closed before the machine booted" in caplog.text
    assert "ends at offset 0" in caplog.text


def test_flush_that_comes_back_after_its_log_was_closed_changes_nothing(disk):
    logs = LogManager("/data", {}, disk)
    append(open_orders(logs))
    (begun,) = logs.begin_flushes(NOW_MS, 10)
    logs.remove(ORDERS)
    again = open_orders(logs)
    logs.finish_flush(begun, begun.flush.run())
    assert (again.log_end_offset, again.recovery_point) == (0, 0)


def test_flush_that_fails_takes_the_log_offline(disk):
    logs = LogManager("/data", {}, disk)
    log = open_orders(logs)
    append(log)
    (begun,) = logs.begin_flushes(NOW_MS, 10)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH, path_ending=".log")):
        error = begun.flush.run()
    with pytest.raises(LogOffline):
        logs.finish_flush(begun, error)
    assert not log.is_online


@pytest.mark.parametrize("flush_ms", [700, 1999, 2000, 5000, 60_000])
def test_flushes_of_many_logs_come_together_and_none_is_late(flush_ms):
    dues = {next_flush_ms(NOW_MS + after_ms, flush_ms) for after_ms in range(500)}
    assert len(dues) == (1 if flush_ms >= 2000 else 500)
    for after_ms in range(0, 3000, 7):
        wait_ms = next_flush_ms(NOW_MS + after_ms, flush_ms) - NOW_MS - after_ms
        assert flush_ms / 2 <= wait_ms <= flush_ms
