"""A leader: what it pushes, when records are safe, who is in sync, and when it stops."""

import msgspec
import pytest

from eagleray.broker.log import Flush, LogConfig, LogDamaged, LogError, PartitionLog
from eagleray.broker.metadata.topics import PartitionImage
from eagleray.broker.replication.events import (
    InSyncReplica,
    IsrAnswered,
    ProposeIsr,
    PushAnswered,
    Replicated,
    Resigned,
)
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.broker.replication.lease import Lease
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.faults import Fault, Operation, Outcome
from tests.support.logs import everything
from tests.support.replicas import (
    CONFIG,
    INCARNATIONS,
    PARTITION,
    follower_of,
    has_all,
    leader_of,
    open_log,
    pushes_in,
    write,
)
from tests.support.simulated_disk import SimulatedDisk


def in_sync_leader(log: PartitionLog, **options: object) -> ReplicationLeader:
    """A leader whose followers have everything, and know the high watermark."""
    leader = leader_of(log, **options)
    pushes = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))
    while pushes:
        effects = [
            effect
            for node_id, push in pushes.items()
            for effect in leader.push_answered(has_all(push, node_id), NOW_MS)
        ]
        pushes = pushes_in(effects)
    return leader


def proposals_in(effects: list[object]) -> list[ProposeIsr]:
    return [effect for effect in effects if isinstance(effect, ProposeIsr)]


def test_one_push_is_on_its_way_and_what_comes_meanwhile_joins_the_next() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    first = pushes_in(leader.replicate(NOW_MS))
    assert {node_id: push.base_offset for node_id, push in first.items()} == {2: 0, 3: 0}
    write(log, 1)
    assert leader.replicate(NOW_MS) == []
    write(log, 1)
    answer = msgspec.structs.replace(has_all(first[2], 2), end_offset=1)
    second = pushes_in(leader.push_answered(answer, NOW_MS))
    assert set(second) == {2}
    assert (second[2].base_offset, second[2].records) == (1, log.read_for_replica(1, max_bytes=2**20))


def test_followers_that_are_equally_far_share_one_read_which_is_kept_for_moments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A megabyte of each partition that is led would be much to keep for ever."""
    log = open_log()
    leader = in_sync_leader(log)
    reads: list[int] = []
    read_for_replica = log.read_for_replica

    def counted(offset: int, *, max_bytes: int) -> bytes:
        reads.append(offset)
        return read_for_replica(offset, max_bytes=max_bytes)

    monkeypatch.setattr(log, "read_for_replica", counted)
    write(log, 1)
    log.tail.clear()
    pushes = pushes_in(leader.replicate(NOW_MS))
    assert (set(pushes), reads) == ({2, 3}, [0])
    lost_ms = NOW_MS + CONFIG.replica_push_timeout_ms
    again = pushes_in(leader.tick(lost_ms))
    assert (set(again), reads) == ({2, 3}, [0, 0])
    assert again[2].records is again[3].records
    assert pushes[2].records == again[2].records
    assert pushes[2].records is not again[2].records


def test_a_push_holds_whole_batches_within_its_bound() -> None:
    log = write(open_log(), *[1] * 50, value=b"x" * 100_000)
    leader = leader_of(log, epoch=2)
    probe = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))[2]
    assert (probe.base_offset, probe.previous_epoch, probe.records) == (50, 1, b"")
    empty = PushAnswered(PARTITION, 2, INCARNATIONS[2], probe.push_id, 2, ErrorCode.OFFSET_OUT_OF_RANGE, 0, 0)
    push = pushes_in(leader.push_answered(empty, NOW_MS))[2]
    assert CONFIG.replica_push_max_bytes - 101_000 < len(push.records) <= CONFIG.replica_push_max_bytes
    assert everything(log).startswith(push.records)
    assert len(push.records) % (len(everything(log)) // 50) == 0


def test_high_watermark_is_what_all_in_sync_have() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1, 1)
    pushes = pushes_in(leader.replicate(NOW_MS))
    leader.wait(7, 2, NOW_MS + 1000)
    leader.push_answered(has_all(pushes[2], 2), NOW_MS)
    assert log.high_watermark == 0
    effects = leader.push_answered(has_all(pushes[3], 3), NOW_MS)
    assert log.high_watermark == 2
    assert effects[0] == Replicated(PARTITION, 7, ErrorCode.NONE)


def test_a_new_leader_knows_the_high_watermark_only_when_it_has_reached_its_log() -> None:
    log = write(open_log(), 1, 1)
    leader = leader_of(log, epoch=2)
    pushes = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))
    assert not leader.knows_high_watermark
    for node_id, push in pushes.items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    assert leader.knows_high_watermark


def test_answers_of_another_life_or_another_epoch_count_for_nothing() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    pushes = pushes_in(leader.replicate(NOW_MS))
    leader.push_answered(has_all(pushes[2], 2), NOW_MS)
    other_life = msgspec.structs.replace(has_all(pushes[3], 3), incarnation=34)
    other_epoch = msgspec.structs.replace(has_all(pushes[3], 3), leader_epoch=0)
    assert leader.push_answered(other_life, NOW_MS) == leader.push_answered(other_epoch, NOW_MS) == []
    assert log.high_watermark == 0


def test_a_new_life_of_a_follower_begins_with_nothing() -> None:
    log = write(open_log(), 0)
    leader = in_sync_leader(log)
    assert log.high_watermark == 1
    push = pushes_in(leader.learn(leader.state, INCARNATIONS | {2: 23}, NOW_MS))[2]
    assert (push.base_offset, push.records) == (1, b"")
    write(log, 1)
    third = pushes_in(leader.replicate(NOW_MS))[3]
    leader.push_answered(has_all(third, 3), NOW_MS)
    assert log.high_watermark == 1


def test_without_a_lease_nothing_is_taken_and_nothing_acknowledged_until_there_is_one() -> None:
    log, lease = open_log(), Lease(CONFIG)
    leader = in_sync_leader(log, lease=lease)
    assert leader.check_append(NOW_MS, waits_for_all=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    write(log, 1)
    pushes = pushes_in(leader.replicate(NOW_MS))
    leader.wait(7, 1, NOW_MS + 1000)
    effects = [
        each for node_id, push in pushes.items() for each in leader.push_answered(has_all(push, node_id), NOW_MS)
    ]
    assert log.high_watermark == 1
    assert Replicated(PARTITION, 7, ErrorCode.NONE) not in effects


def test_the_only_replica_needs_no_lease_and_is_enough() -> None:
    log = open_log()
    leader = leader_of(log, PartitionImage(1, 1, (1,), (1,)), lease=Lease(CONFIG), min_insync_replicas=2)
    assert leader.check_append(NOW_MS, waits_for_all=True) is ErrorCode.NONE
    write(log, 1)
    leader.wait(7, 1, NOW_MS + 1000)
    assert not leader.is_replicated(1, NOW_MS)
    assert leader.replicate(NOW_MS) == [Replicated(PARTITION, 7, ErrorCode.NONE)]
    assert leader.is_replicated(1, NOW_MS)
    leader.resign()
    assert not leader.is_replicated(1, NOW_MS)
    assert leader.check_append(NOW_MS, waits_for_all=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_that_is_alone_in_sync_but_not_the_only_one_needs_a_lease() -> None:
    log, state = open_log(), PartitionImage(1, 1, (1, 2), (1,))
    leader = leader_of(log, state, lease=Lease(CONFIG), min_insync_replicas=1)
    assert leader.check_append(NOW_MS, waits_for_all=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    write(log, 1)
    leader.wait(7, 1, NOW_MS + 1000)
    assert leader.replicate(NOW_MS) == []
    assert log.high_watermark == 1
    assert not leader.is_replicated(1, NOW_MS)


def test_unreadable_batch_is_pushed_later_and_keeps_no_other_partition_waiting() -> None:
    disk = SimulatedDisk()
    log = PartitionLog.open(disk, "/log", LogConfig(), now_ms=NOW_MS)
    leader = in_sync_leader(log)
    write(log, 1)
    pushes = pushes_in(leader.replicate(NOW_MS))
    leader.wait(7, 1, NOW_MS + 1000)
    write(log, 1)
    leader.push_answered(msgspec.structs.replace(has_all(pushes[2], 2), end_offset=1), NOW_MS)
    write(log, 1)
    log.tail.clear()
    with disk.injected(Fault(Outcome.FAIL, on=Operation.READ)):
        effects = leader.push_answered(msgspec.structs.replace(has_all(pushes[3], 3), end_offset=1), NOW_MS)
    assert effects == [Replicated(PARTITION, 7, ErrorCode.NONE)]
    assert set(pushes_in(leader.tick(NOW_MS))) == {3}


def test_followers_that_are_level_get_what_is_new_without_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    leader = in_sync_leader(log)
    monkeypatch.setattr(log, "read_for_replica", None)
    write(log, 1)
    first = pushes_in(leader.replicate(NOW_MS))
    write(log, 1, 1)
    second = pushes_in(leader.push_answered(has_all(first[2], 2), NOW_MS))[2]
    monkeypatch.undo()
    assert first[2].records + second.records == everything(log)


def test_resigned_leader_keeps_nothing_for_followers() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    assert log.tail.since(0) is not None
    leader.resign()
    write(log, 1)
    assert log.tail.since(0) is None
    assert log.tail.since(1) is None


def test_batches_that_all_followers_have_are_kept_no_longer() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    pushes = pushes_in(leader.replicate(NOW_MS))
    leader.push_answered(has_all(pushes[2], 2), NOW_MS)
    assert log.tail.since(0) is not None
    leader.push_answered(has_all(pushes[3], 3), NOW_MS)
    assert log.tail.since(0) is None


def test_time_changes_nothing_where_all_followers_have_everything_and_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    for node_id, push in pushes_in(leader.replicate(NOW_MS)).items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    told = pushes_in(leader.tick(NOW_MS))
    assert set(told) == {2, 3}
    for node_id, push in told.items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    monkeypatch.setattr(leader, "_advance", None)
    assert leader.tick(NOW_MS + 2 * CONFIG.replica_lag_time_max_ms) == []


def test_a_replica_that_is_not_registered_is_not_forgotten_with_time() -> None:
    leader = in_sync_leader(open_log())
    leader.learn(leader.state, {1: INCARNATIONS[1], 2: INCARNATIONS[2]}, NOW_MS)
    (proposal,) = proposals_in(leader.tick(NOW_MS))
    assert [replica.node_id for replica in proposal.isr] == [1, 2]


def test_a_log_that_went_offline_is_not_pushed_from_memory_either() -> None:
    disk = SimulatedDisk()
    log = PartitionLog.open(disk, "/log", LogConfig(flush=Flush.COMMIT), now_ms=NOW_MS)
    leader = in_sync_leader(log)
    write(log, 1)
    with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH)), pytest.raises(LogError):
        log.flush()
    assert pushes_in(leader.replicate(NOW_MS)) == {}


def test_followers_that_are_equally_far_share_one_read() -> None:
    disk = SimulatedDisk()
    log = PartitionLog.open(disk, "/log", LogConfig(), now_ms=NOW_MS)
    leader = in_sync_leader(log)
    write(log, 1)
    log.tail.clear()
    pushes = pushes_in(leader.replicate(NOW_MS))
    assert pushes[2].records == pushes[3].records != b""
    assert pushes[2].records is pushes[3].records


def test_the_high_watermark_goes_with_the_next_records_or_with_time() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    pushes = pushes_in(leader.replicate(NOW_MS))
    for node_id in (2, 3):
        assert pushes_in(leader.push_answered(has_all(pushes[node_id], node_id), NOW_MS)) == {}
    assert log.high_watermark == 1
    assert {push.high_watermark for push in pushes_in(leader.tick(NOW_MS)).values()} == {1}
    assert pushes_in(leader.tick(NOW_MS)) == {}, "they are on their way"


def test_too_few_in_sync_are_told_before_and_after_the_append() -> None:
    log = open_log()
    leader = in_sync_leader(log, min_insync_replicas=3)
    assert leader.check_append(NOW_MS, waits_for_all=True) is ErrorCode.NONE
    write(log, 1)
    leader.replicate(NOW_MS)
    leader.wait(7, 1, NOW_MS + 10_000)
    late_ms = NOW_MS + CONFIG.replica_lag_time_max_ms + 1
    effects = leader.tick(late_ms)
    assert Replicated(PARTITION, 7, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) in effects
    assert proposals_in(effects) == []
    assert leader.check_append(late_ms, waits_for_all=True) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.check_append(late_ms, waits_for_all=False) is ErrorCode.NONE


def test_lagging_follower_leaves_and_the_high_watermark_waits_until_the_controller_agrees() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    push = pushes_in(leader.replicate(NOW_MS))[2]
    late_ms = NOW_MS + CONFIG.replica_lag_time_max_ms + 1
    leader.push_answered(has_all(push, 2), late_ms)
    (proposal,) = proposals_in(leader.tick(late_ms))
    assert proposal == ProposeIsr(
        PARTITION, 1, 1, 0, (InSyncReplica(1, INCARNATIONS[1]), InSyncReplica(2, INCARNATIONS[2]))
    )
    assert log.high_watermark == 0
    assert proposals_in(leader.tick(late_ms + 1)) == []
    assert proposals_in(leader.tick(late_ms + CONFIG.replica_push_timeout_ms)) == [proposal]
    leader.isr_answered(IsrAnswered(PARTITION, ErrorCode.NONE, 0, 1, 1, (1, 2), (1, 2, 3)), late_ms)
    assert (leader.state.isr, log.high_watermark) == ((1, 2), 1)


def outsider_caught_up() -> tuple[PartitionLog, ReplicationLeader, list[ProposeIsr]]:
    """A leader with one follower in sync, and one that has just caught up."""
    log = write(open_log(), 0)
    leader = leader_of(log, PartitionImage(1, 1, (1, 2, 3), (1, 2)))
    pushes = pushes_in(leader.learn(leader.state, INCARNATIONS, NOW_MS))
    leader.push_answered(has_all(pushes[2], 2), NOW_MS)
    return log, leader, proposals_in(leader.push_answered(has_all(pushes[3], 3), NOW_MS))


def test_follower_that_has_caught_up_joins_and_counts_from_the_proposal_on() -> None:
    log, leader, (proposal,) = outsider_caught_up()
    assert [replica.node_id for replica in proposal.isr] == [1, 2, 3]
    write(log, 1)
    leader.tick(NOW_MS + CONFIG.replica_push_timeout_ms)
    pushes = pushes_in(leader.replicate(NOW_MS))
    effects = leader.tick(NOW_MS + 2 * CONFIG.replica_push_timeout_ms)
    pushes |= pushes_in(effects)
    leader.push_answered(has_all(pushes[2], 2), NOW_MS)
    assert log.high_watermark == 1


def test_a_refused_proposal_is_taken_back_and_not_repeated_at_once() -> None:
    log, leader, (proposal,) = outsider_caught_up()
    refusal = IsrAnswered(PARTITION, ErrorCode.INELIGIBLE_REPLICA, 0, 1, 0, (1, 2), (1, 2, 3))
    assert proposals_in(leader.isr_answered(refusal, NOW_MS)) == []
    assert proposals_in(leader.tick(NOW_MS + 1)) == []
    assert proposals_in(leader.tick(NOW_MS + CONFIG.replica_push_timeout_ms)) == [proposal]
    assert log.high_watermark == 1


def test_with_too_few_in_sync_the_high_watermark_stands_still() -> None:
    log = write(open_log(), 0)
    leader = leader_of(log, PartitionImage(1, 1, (1, 2, 3), (1,)))
    leader.learn(leader.state, INCARNATIONS, NOW_MS)
    assert log.high_watermark == 0
    alone = leader_of(log, PartitionImage(1, 1, (1, 2, 3), (1,)), min_insync_replicas=1)
    alone.learn(alone.state, INCARNATIONS, NOW_MS)
    assert log.high_watermark == 1


def test_newer_epoch_from_any_source_ends_the_leader() -> None:
    for tell in (
        lambda leader: leader.learn(PartitionImage(2, 2, (1, 2, 3), (1, 2)), INCARNATIONS, NOW_MS),
        lambda leader: leader.push_answered(
            PushAnswered(PARTITION, 2, INCARNATIONS[2], 1, 2, ErrorCode.FENCED_LEADER_EPOCH), NOW_MS
        ),
        lambda leader: leader.isr_answered(IsrAnswered(PARTITION, ErrorCode.FENCED_LEADER_EPOCH, 0, 2, 9), NOW_MS),
        lambda leader: leader.resign(),
    ):
        log = open_log()
        leader = in_sync_leader(log)
        write(log, 1)
        leader.wait(7, 1, NOW_MS + 1000)
        assert tell(leader) == [Replicated(PARTITION, 7, ErrorCode.NOT_LEADER_OR_FOLLOWER), Resigned(PARTITION, 1)]
        assert leader.check_append(NOW_MS, waits_for_all=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert leader.tick(NOW_MS) == leader.replicate(NOW_MS) == leader.resign() == []


def test_a_lost_push_is_sent_again_and_who_waits_too_long_is_told() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    write(log, 1)
    leader.wait(7, 1, NOW_MS + 20)
    first = pushes_in(leader.replicate(NOW_MS))
    assert leader.tick(NOW_MS + 10) == []
    effects = leader.tick(NOW_MS + CONFIG.replica_push_timeout_ms)
    assert effects[0] == Replicated(PARTITION, 7, ErrorCode.REQUEST_TIMED_OUT)
    again = pushes_in(effects)
    assert {node_id: push.records for node_id, push in again.items()} == {2: first[2].records, 3: first[3].records}


def test_with_flush_commit_only_what_is_flushed_here_is_replicated() -> None:
    log = open_log(flush=Flush.COMMIT)
    leader = in_sync_leader(log)
    write(log, 1)
    for node_id, push in pushes_in(leader.replicate(NOW_MS)).items():
        leader.push_answered(has_all(push, node_id), NOW_MS)
    assert log.high_watermark == 0
    log.flush()
    leader.replicate(NOW_MS)
    assert log.high_watermark == 1


def test_a_leader_that_pushes_what_its_disk_has_damaged_finds_out():
    disk = SimulatedDisk()
    log = write(PartitionLog.open(disk, "/log", LogConfig(), now_ms=NOW_MS), 1, 1)
    leader = leader_of(log, epoch=1)
    follower = follower_of(open_log())
    push = pushes_in(leader.learn(PartitionImage(1, 1, (1, 2, 3), (1, 2, 3)), INCARNATIONS, NOW_MS))[2]
    differs = follower.push(push, NOW_MS)
    assert differs.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    disk.rot("/log/00000000000000000000.log", 65, 1)
    whole = pushes_in(leader.push_answered(differs, NOW_MS))[2]
    refused = follower.push(whole, NOW_MS)
    assert refused.error_code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(LogDamaged):
        leader.push_answered(refused, NOW_MS)


def test_batch_damaged_on_its_way_is_pushed_again():
    log = write(open_log(), 1, 1)
    leader = leader_of(log, epoch=1)
    push = pushes_in(leader.learn(PartitionImage(1, 1, (1, 2, 3), (1, 2, 3)), INCARNATIONS, NOW_MS))[2]
    refused = PushAnswered(PARTITION, 2, INCARNATIONS[2], push.push_id, 1, ErrorCode.CORRUPT_MESSAGE)
    assert leader.push_answered(refused, NOW_MS) == []
    assert 2 in pushes_in(leader.tick(NOW_MS + CONFIG.replica_push_timeout_ms))


def test_a_leader_has_a_deadline_only_while_time_could_change_something() -> None:
    log = open_log()
    leader = in_sync_leader(log)
    deadlines = leader._deadlines
    time_ms = NOW_MS
    while PARTITION in deadlines:
        time_ms = deadlines.take_due(deadlines.next_due_ms) and time_ms + 50
        for node_id, push in pushes_in(leader.tick(time_ms)).items():
            leader.push_answered(has_all(push, node_id), time_ms)
        assert time_ms < NOW_MS + 1000, "everybody has everything"
    assert leader.tick(time_ms) == []
    write(log, 1)
    pushes = pushes_in(leader.replicate(time_ms))
    assert PARTITION in deadlines
    for node_id, push in pushes.items():
        leader.push_answered(has_all(push, node_id), time_ms)
    assert PARTITION in deadlines, "the followers do not know the high watermark yet"
    leader.resign()
    assert PARTITION not in deadlines
