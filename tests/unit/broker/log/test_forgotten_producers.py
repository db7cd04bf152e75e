"""What a log forgets of its producers, live, after a restart and on a follower."""

from collections.abc import Callable

import pytest

from eagleray.broker.identities import LAST_EPOCH
from eagleray.broker.log import Appended, Isolation, LogConfig, LogWriteFailed, PartitionLog, Rejection
from eagleray.broker.log.bookmark import read_bookmark
from eagleray.broker.log.producer_limit import IDLE_MS
from eagleray.broker.log.producer_snapshot import encode_snapshot
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch
from tests.support.faults import Fault, Operation, Outcome
from tests.support.log_checks import describe_producers
from tests.support.logs import (
    DIRECTORY,
    OpenLog,
    aborted_in,
    append,
    append_markers,
    end_marker,
    everything,
    transactional,
)
from tests.support.simulated_disk import SimulatedDisk

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def end(log: PartitionLog, *branches: int, commit: bool = True) -> None:
    """Write the markers of branches, which have the last epoch."""
    markers = [end_marker(branch, LAST_EPOCH, commit, 0, transaction_version=2) for branch in branches]
    assert all(isinstance(each, Appended) for each in append_markers(log, *markers))


def refused(result: object) -> ErrorCode:
    assert isinstance(result, Rejection)
    return result.error_code


def is_duplicate(log: PartitionLog, *, now_ms: int, **fields: object) -> bool:
    """Whether a batch that is repeated is recognised."""
    (result,) = append(log, data_batch(producer_id=7, **fields), now_ms=now_ms)
    assert isinstance(result, Appended)
    return result.is_duplicate


# By time


@pytest.mark.parametrize("timestamp_ms", [0, NOW_MS - 365 * DAY_MS, NOW_MS + HOUR_MS])
def test_backfill_of_old_events_is_remembered_as_long_as_any_other(open_log: OpenLog, timestamp_ms: int) -> None:
    log = open_log(retention_ms=-1)
    batch = {"timestamps_ms": [timestamp_ms]}
    assert not is_duplicate(log, now_ms=NOW_MS, **batch)
    log.apply_retention(NOW_MS + DAY_MS - 1)
    assert is_duplicate(log, now_ms=NOW_MS + DAY_MS - 1, **batch)
    log.apply_retention(NOW_MS + 2 * DAY_MS - 2)
    assert is_duplicate(log, now_ms=NOW_MS + 2 * DAY_MS - 2, **batch)
    log.apply_retention(NOW_MS + 3 * DAY_MS - 2)
    assert not is_duplicate(log, now_ms=NOW_MS + 3 * DAY_MS - 2, **batch)


def close(log: PartitionLog, disk: SimulatedDisk) -> None:
    log.close()


def kill_behind_bookmark(log: PartitionLog, disk: SimulatedDisk) -> None:
    log.write_bookmark()
    disk.crash_process()


def kill(log: PartitionLog, disk: SimulatedDisk) -> None:
    disk.crash_process()


ENDS = pytest.mark.parametrize("stop", [close, kill_behind_bookmark, kill])
Stop = Callable[[PartitionLog, SimulatedDisk], None]


@ENDS
def test_restart_counts_as_having_heard_of_every_producer(disk: SimulatedDisk, open_log: OpenLog, stop: Stop) -> None:
    """A producer cannot be heard while no process is there, and goes on when one is."""
    log = open_log(retention_ms=-1)
    append(log, data_batch(producer_id=7, timestamps_ms=[0]))
    stop(log, disk)
    opened_ms = NOW_MS + 5 * DAY_MS
    log = open_log(now_ms=opened_ms, retention_ms=-1)
    log.apply_retention(opened_ms + DAY_MS - 1)
    assert len(log.producers) == 1
    log.apply_retention(opened_ms + DAY_MS)
    assert len(log.producers) == 0


# Branches that are over


@ENDS
def test_ended_branch_leaves_its_records_and_no_producer(disk: SimulatedDisk, open_log: OpenLog, stop: Stop) -> None:
    log = open_log()
    append(log, *(transactional(producer_id=branch) for branch in range(6)))
    end(log, 1, 3)
    end(log, 2, commit=False)
    known = [0, 4, 5]
    assert [entry.producer_id for entry in log.producers] == known
    written, aborted, described = everything(log), aborted_in(log), describe_producers(log)
    stop(log, disk)

    again = open_log()
    assert (everything(again), aborted_in(again), describe_producers(again)) == (written, aborted, described)
    assert [each.producer_id for each in aborted] == [2]
    again.advance_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == 0
    end(again, *known)
    again.advance_high_watermark(again.log_end_offset)
    assert again.last_stable_offset == again.log_end_offset
    assert len(again.producers) == 0


def test_branches_of_a_day_take_neither_memory_nor_bookmark_nor_snapshot(
    disk: SimulatedDisk, open_log: OpenLog
) -> None:
    log = open_log()
    for branch in range(0, 400, 4):
        append(log, *(transactional(producer_id=each) for each in range(branch, branch + 4)))
        end(log, *range(branch, branch + 4))
        log.advance_high_watermark(log.log_end_offset)
    log.write_bookmark()
    bookmark = read_bookmark(disk, DIRECTORY)
    assert bookmark is not None
    assert (bookmark.producers, bookmark.unreplicated) == ([], [])
    assert encode_snapshot(log.producers) == encode_snapshot(())


def test_follower_forgets_as_its_leader_does(open_log: OpenLog) -> None:
    leader, disk = open_log(), SimulatedDisk()
    follower = PartitionLog.open(disk, DIRECTORY, LogConfig(), now_ms=NOW_MS)
    append(leader, *(transactional(producer_id=branch) for branch in range(3)))
    end(leader, 0, 2, commit=False)
    append(leader, data_batch(producer_id=9, timestamps_ms=[0]))
    follower.append_replicated([*leader.batches()], now_ms=NOW_MS + HOUR_MS)
    assert describe_producers(follower) == describe_producers(leader)
    assert aborted_in(follower) == aborted_in(leader)
    follower.apply_retention(NOW_MS + DAY_MS)
    assert {entry.producer_id for entry in follower.producers} == {1, 9}


def test_committed_readers_see_what_forgotten_branches_have_committed(open_log: OpenLog) -> None:
    log = open_log()
    append(log, transactional(producer_id=1), transactional(producer_id=2))
    end(log, 1)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 1
    end(log, 2, commit=False)
    log.advance_high_watermark(log.log_end_offset)
    read = log.read(0, max_bytes=2**20, isolation=Isolation.READ_COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in read.aborted_transactions] == [(2, 1)]


# By number


def test_limit_holds_in_the_log_and_can_be_raised(open_log: OpenLog) -> None:
    log = open_log(max_producer_ids=2)
    results = append(log, *(data_batch(producer_id=number) for number in range(3)), data_batch())
    assert refused(results.pop(2)) is ErrorCode.POLICY_VIOLATION
    assert all(isinstance(each, Appended) for each in results)
    log.reconfigure(LogConfig(max_producer_ids=3))
    (result,) = append(log, data_batch(producer_id=2))
    assert isinstance(result, Appended)


def test_limit_holds_after_an_append_that_failed(disk: SimulatedDisk, open_log: OpenLog) -> None:
    log = open_log(max_producer_ids=1)
    append(log, data_batch(producer_id=0))
    with disk.injected(Fault(Outcome.FAIL, on=Operation.WRITE)), pytest.raises(LogWriteFailed):
        append(log, data_batch(producer_id=0, sequence=1))
    (result,) = append(log, data_batch(producer_id=1))
    assert refused(result) is ErrorCode.POLICY_VIOLATION


@ENDS
def test_log_that_is_opened_with_more_producers_keeps_those_that_may_be_at_work(
    disk: SimulatedDisk, open_log: OpenLog, stop: Stop
) -> None:
    log = open_log()
    append(log, *(data_batch(producer_id=number) for number in range(4)))
    stop(log, disk)
    opened_ms = NOW_MS + HOUR_MS
    log = open_log(now_ms=opened_ms, max_producer_ids=2)
    assert len(log.producers) == 4
    log.apply_retention(opened_ms + IDLE_MS - 1)
    assert len(log.producers) == 4
    log.apply_retention(opened_ms + IDLE_MS)
    assert len(log.producers) == 2
