"""A follower: what it takes, what it refuses, and what it cuts off."""

import msgspec
import pytest

from eagleray.broker.log import Flush, PartitionLog
from eagleray.broker.replication.events import EpochBegun, Push
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch
from tests.support.logs import everything
from tests.support.replicas import INCARNATIONS, PARTITION, catch_up, follower_of, leader_of, open_log, pushes_in, write
from tests.unit.protocol.forge import forge_bytes


def push_of(log: PartitionLog, base_offset: int, *, epoch: int, high_watermark: int = 0, **changes: object) -> Push:
    records = log.read_for_replica(base_offset, max_bytes=2**20) if base_offset < log.log_end_offset else b""
    push = Push(
        PARTITION,
        1,
        epoch,
        1,
        INCARNATIONS[2],
        base_offset,
        log.epochs.epoch_at(base_offset - 1),
        records,
        log.log_end_offset,
        high_watermark,
        log.log_start_offset,
    )
    return msgspec.structs.replace(push, **changes)


def test_follower_appends_what_it_is_pushed_and_follows_the_high_watermark() -> None:
    theirs, ours = write(open_log(), 1, 1, 1), open_log()
    follower = follower_of(ours)
    answer = follower.push(push_of(theirs, 0, epoch=1, high_watermark=2), NOW_MS)
    assert (answer.error_code, answer.end_offset, answer.incarnation) == (ErrorCode.NONE, 3, INCARNATIONS[2])
    assert everything(ours) == everything(theirs)
    assert ours.high_watermark == 2


def test_its_high_watermark_is_never_beyond_what_agrees() -> None:
    theirs, ours = write(open_log(), 1, 1, 1), open_log()
    first = theirs.read_for_replica(0, max_bytes=1)[: len(everything(theirs)) // 3]
    follower_of(ours).push(push_of(theirs, 0, epoch=1, high_watermark=3, records=first), NOW_MS)
    assert (ours.log_end_offset, ours.high_watermark) == (1, 1)


def test_follower_refuses_older_leaders_and_names_the_newer() -> None:
    theirs, ours = write(open_log(), 1), open_log()
    follower = follower_of(ours)
    follower.follow(5)
    answer = follower.push(push_of(theirs, 0, epoch=1), NOW_MS)
    assert (answer.error_code, answer.leader_epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 5)
    assert ours.log_end_offset == 0


def test_a_newer_leader_is_followed_at_its_first_push() -> None:
    follower = follower_of(open_log())
    follower.follow(1)
    assert follower.push(push_of(write(open_log(), 4), 0, epoch=4), NOW_MS).leader_epoch == 4


@pytest.mark.parametrize(("ours", "base_offset"), [((1,), 2), ((1, 2), 2)])
def test_follower_says_what_it_has_where_the_entry_before_is_missing_or_differs(
    ours: tuple[int, ...], base_offset: int
) -> None:
    log = write(open_log(), *ours)
    answer = follower_of(log).push(push_of(write(open_log(), 1, 1, 3), base_offset, epoch=3), NOW_MS)
    assert answer.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.start_offset, answer.end_offset) == (0, len(ours))
    assert answer.epochs == tuple(EpochBegun(epoch, ours.index(epoch)) for epoch in sorted(set(ours)))
    assert log.log_end_offset == len(ours)


def test_a_tail_that_the_leader_does_not_have_is_cut_off() -> None:
    theirs, ours = write(open_log(), 1, 3), write(open_log(), 1, 2, 2)
    answer = follower_of(ours).push(push_of(theirs, 1, epoch=3), NOW_MS)
    assert (answer.error_code, answer.end_offset) == (ErrorCode.NONE, 2)
    assert everything(ours) == everything(theirs)


def test_a_tail_is_cut_off_even_where_the_leader_has_nothing_to_push() -> None:
    ours = write(open_log(), 1, 2, 2)
    follower_of(ours).push(push_of(write(open_log(), 1), 1, epoch=3), NOW_MS)
    assert ours.log_end_offset == 1


def test_a_tail_stays_until_the_leader_has_shown_that_it_does_not_have_it() -> None:
    ours, theirs = write(open_log(), 1, 1, 1), write(open_log(), 1, 1, 1)
    answer = follower_of(ours).push(push_of(theirs, 1, epoch=2, records=b""), NOW_MS)
    assert (answer.end_offset, ours.log_end_offset) == (1, 3)


def test_repeated_and_late_pushes_change_nothing() -> None:
    theirs, ours = write(open_log(), 1, 1), open_log()
    follower = follower_of(ours)
    early = push_of(theirs, 0, epoch=1)
    follower.push(early, NOW_MS)
    write(theirs, 1, 1)
    follower.push(push_of(theirs, 2, epoch=1), NOW_MS)
    assert follower.push(early, NOW_MS).end_offset == 4
    assert everything(ours) == everything(theirs)


def test_a_push_that_is_late_for_an_earlier_life_cuts_off_nothing_that_this_leader_wrote() -> None:
    theirs, ours = write(open_log(), 1, 1), open_log()
    late = push_of(theirs, 1, epoch=1)
    write(theirs, 1, 1)
    follower_of(ours).push(push_of(theirs, 0, epoch=1), NOW_MS)
    assert follower_of(ours).push(late, NOW_MS).error_code is ErrorCode.NONE
    assert ours.log_end_offset == 4


def test_a_push_for_another_life_is_refused_even_where_it_would_begin_anew() -> None:
    theirs, ours = write(open_log(), 1), write(open_log(), 1, 1)
    push = push_of(theirs, 0, epoch=1, incarnation=21, begins_anew=True)
    assert follower_of(ours).push(push, NOW_MS).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert ours.log_end_offset == 2


def test_a_follower_below_the_start_of_the_leaders_log_begins_anew_with_its_producers() -> None:
    theirs, ours = open_log(), write(open_log(), 1)
    for sequence in range(6):
        theirs.append([data_batch(producer_id=7, sequence=sequence)], leader_epoch=1, now_ms=NOW_MS)
    theirs.append([data_batch(), data_batch()], leader_epoch=2, now_ms=NOW_MS)
    theirs.advance_high_watermark(8)
    theirs.delete_records(6)
    leader = leader_of(theirs, epoch=3)
    push = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))[2]
    catch_up(leader, follower_of(ours), 2, push)
    assert (ours.log_start_offset, ours.log_end_offset) == (6, 8)
    assert everything(ours) == everything(theirs)
    entry = ours.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 5


def test_records_deleted_at_the_leader_are_deleted_here() -> None:
    theirs, ours = write(open_log(), 1, 1, 1), open_log()
    theirs.advance_high_watermark(3)
    follower = follower_of(ours)
    follower.push(push_of(theirs, 0, epoch=1, high_watermark=3), NOW_MS)
    theirs.delete_records(2)
    follower.push(push_of(theirs, 3, epoch=1, high_watermark=3), NOW_MS)
    assert ours.log_start_offset == 2


def test_damaged_records_are_not_taken() -> None:
    theirs, ours = write(open_log(), 1), open_log()
    push = push_of(theirs, 0, epoch=1)
    damaged = push.records[:-1] + bytes([push.records[-1] ^ 1])
    answer = follower_of(ours).push(msgspec.structs.replace(push, records=damaged), NOW_MS)
    assert (answer.error_code, ours.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


def test_with_flush_commit_everything_is_on_stable_storage_before_the_answer() -> None:
    theirs, ours = write(open_log(), 1, 1), open_log(flush=Flush.COMMIT)
    follower_of(ours).push(push_of(theirs, 0, epoch=1), NOW_MS)
    assert ours.recovery_point == 2


# Where the leader has compacted its log


def copied(*places: tuple[int, int]) -> PartitionLog:
    """A log that was copied from a compacted one, by the offsets and epochs of what was left."""
    log = open_log()
    for offset, epoch in places:
        log.append_replicated([data_batch(base_offset=offset, leader_epoch=epoch)], now_ms=NOW_MS)
    return log


def test_gap_that_the_leader_has_compacted_takes_no_records_of_another() -> None:
    """What differs lies where the leader has nothing any more, before the first of its batches that is new."""
    theirs, ours = copied((0, 1), (3, 3)), write(open_log(), 1, 2, 2)
    answer = follower_of(ours).push(push_of(theirs, 1, epoch=3), NOW_MS)
    assert (answer.error_code, answer.end_offset) == (ErrorCode.NONE, 4)
    assert everything(ours) == everything(theirs)


@pytest.mark.parametrize("is_recovered", [False, True], ids=["copied", "and recovered without its epochs"])
def test_an_epoch_is_not_taken_to_last_until_the_next_that_compaction_has_left(is_recovered: bool) -> None:
    """Where the first records of an epoch are gone, nobody can tell where the one before it ended."""
    theirs, ours = copied((0, 1), (3, 3), (4, 3)), write(open_log(), 1, 1, 1)
    if is_recovered:
        theirs._file_system.remove("/log/leader-epoch-checkpoint")
        theirs = PartitionLog.open(theirs._file_system, "/log", theirs.config, now_ms=NOW_MS)
    leader = leader_of(theirs, epoch=4)
    push = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))[2]
    catch_up(leader, follower_of(ours), 2, push)
    assert everything(ours) == everything(theirs)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ((1, 1, 3, 3), (1, 2, 2, 2, 2)),
        ((1, 4, 4), (1, 2, 3, 3, 3)),
        ((5,), (1, 2, 3)),
        ((1, 1, 1), ()),
        ((), (1, 1)),
        ((1, 3, 3, 5), (1, 3, 4, 4)),
    ],
)
def test_any_two_logs_become_equal_in_few_round_trips(theirs: tuple[int, ...], ours: tuple[int, ...]) -> None:
    leaders_log, log = write(open_log(), *theirs), write(open_log(), *ours)
    leader, follower = leader_of(leaders_log, epoch=9), follower_of(log)
    push = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))[2]
    for _ in range(3):
        effects = leader.push_answered(follower.push(push, NOW_MS), NOW_MS)
        push = pushes_in(effects).get(2, push)
    assert everything(log) == everything(leaders_log)
    assert [*log.epochs] == [*leaders_log.epochs]


@pytest.mark.parametrize("position", [12, 15], ids=["beyond all", "beyond the leader's"])
def test_epoch_that_the_leaders_disk_has_changed_is_refused(position: int) -> None:
    """No checksum covers it, and a wrong one would make this log differ where it is the same."""
    theirs, ours = write(open_log(), 1, 1), open_log()
    records = bytearray(everything(theirs))
    records[len(records) // 2 + position] ^= 0x04
    answer = follower_of(ours).push(push_of(theirs, 0, epoch=1, records=bytes(records)), NOW_MS)
    assert answer.error_code is ErrorCode.CORRUPT_MESSAGE
    assert ours.log_end_offset == 0


def test_epoch_that_falls_within_a_push_is_refused() -> None:
    theirs, ours = write(open_log(), 3, 3), open_log()
    records = bytearray(everything(theirs))
    records[len(records) // 2 + 15] ^= 0x01
    answer = follower_of(ours).push(push_of(theirs, 0, epoch=3, records=bytes(records)), NOW_MS)
    assert answer.error_code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(("delta", "count"), [(-1, 0), (-2, 1), (0, 2)])
def test_batch_behind_which_the_log_could_not_go_on_is_refused(delta: int, count: int) -> None:
    ours = open_log()
    records = forge_bytes(b"records", last_offset_delta=delta, record_count=count, leader_epoch=1)
    push = push_of(write(open_log(), 1), 0, epoch=1, records=records)
    answer = follower_of(ours).push(push, NOW_MS)
    assert (answer.error_code, ours.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 0)


def test_follower_on_a_full_disk_takes_no_records_and_deletes_what_its_leader_has_deleted() -> None:
    theirs, ours = write(open_log(), 1, 1, 1), open_log()
    follower = follower_of(ours)
    follower.push(push_of(theirs, 0, epoch=1, high_watermark=3), NOW_MS)
    write(theirs, 1)
    push = push_of(theirs, 3, epoch=1, high_watermark=3, log_start_offset=2)
    assert follower.push(push, NOW_MS, takes_records=False).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (ours.log_start_offset, ours.log_end_offset) == (2, 3)
    assert follower.push(push, NOW_MS).error_code is ErrorCode.NONE
    assert ours.log_end_offset == 4
