"""Compactions of whole logs."""

import pytest

from eagleray.broker.log import compacted_segment, names
from eagleray.broker.log import compaction as compaction_module
from eagleray.broker.log.compaction import Compaction
from eagleray.broker.log.errors import CompactionFailed, LogDamaged, LogOffline, LogWriteFailed
from eagleray.broker.log.producer_state import Rejection
from eagleray.broker.log.reading import Isolation, TimestampedOffset
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import split_batches
from eagleray.protocol.records.control import CONTROL_KEY
from tests.support.batches import data_batch, whole_batches
from tests.support.faults import Fault, Operation, Outcome
from tests.support.keyed_log import (
    DELETE_RETENTION_MS,
    DIRECTORY,
    FIRST_TRANSACTIONAL,
    IDEMPOTENT,
    KeyedLog,
    compacting,
)
from tests.support.simulated_disk import SimulatedDisk

ALICE, BOB = FIRST_TRANSACTIONAL, FIRST_TRANSACTIONAL + 1


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def keyed(disk: SimulatedDisk) -> KeyedLog:
    return KeyedLog(disk, compacting())


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each step read one batch only."""
    monkeypatch.setattr(compaction_module, "STEP_BYTES", 100)


def settle(keyed: KeyedLog) -> None:
    """Close the active segment and replicate everything, so that it can be compacted."""
    keyed.roll()
    keyed.replicate()


def finish(compaction: Compaction) -> None:
    while compaction.step():
        pass


def compact(keyed: KeyedLog) -> None:
    settle(keyed)
    assert keyed.compact()
    keyed.check()
    keyed.check_snapshots()


def make_dirty(keyed: KeyedLog) -> None:
    """Give the next compaction a reason, which it finds in a key of its own."""
    keyed.put((b"reason", b"%d" % keyed.now_ms))


def offsets(keyed: KeyedLog) -> list[int]:
    return [record.offset for record in keyed.survivors()]


def markers(keyed: KeyedLog) -> list[int]:
    return [header.base_offset for header in keyed.headers() if header.is_control]


def names_in(disk: SimulatedDisk, *endings: str) -> list[str]:
    return [name for name in disk.list_directory(DIRECTORY) if name.endswith(endings)]


def fill_segments(keyed: KeyedLog, count: int = 6) -> None:
    """Write as many segments, in which all but the last two records are superseded."""
    for number in range(count):
        keyed.put((b"a" if number % 2 else b"b", bytes(400)))
        keyed.put((b"b" if number % 2 else b"a", bytes(400)))
        keyed.roll()
    keyed.replicate()


def test_the_newest_record_of_each_key_stays(keyed: KeyedLog) -> None:
    keyed.put((b"a", b"1"), (b"b", b"1"))
    keyed.put((b"a", b"2"), (None, b"without a key"))
    keyed.roll()
    keyed.put((b"c", b"1"))
    compact(keyed)
    assert offsets(keyed) == [1, 2, 4]
    assert keyed.log.cleaned_up_to == 5
    assert len(keyed.log.segments) == 2
    assert keyed.log.log_end_offset == 5


def test_a_newer_record_in_the_active_segment_supersedes_nothing_yet(keyed: KeyedLog) -> None:
    keyed.put((b"a", b"1"))
    keyed.roll()
    keyed.put((b"a", b"2"))
    keyed.replicate()
    keyed.compact()
    assert offsets(keyed) == [0, 1]


def test_what_does_not_change_is_not_written_again(keyed: KeyedLog, disk: SimulatedDisk) -> None:
    for number in range(3):
        keyed.put((b"key %d" % number, bytes(900)))
    settle(keyed)
    before = list(keyed.log.segments)
    compact(keyed)
    assert keyed.log.segments == before
    assert keyed.log.cleaned_up_to == 3
    assert not names_in(disk, names.CLEANED_SUFFIX)


def test_a_second_compaction_changes_nothing(keyed: KeyedLog, disk: SimulatedDisk) -> None:
    fill_segments(keyed)
    keyed.put((b"a", b"tombstones follow"), producer_id=ALICE)
    keyed.put((b"b", None), producer_id=BOB)
    keyed.end(ALICE, commit=False)
    keyed.end(BOB, commit=True)
    compact(keyed)
    records = keyed.survivors()
    trees = []
    for _ in range(3):
        keyed.log.cleaned_up_to = 0
        compact(keyed)
        assert keyed.survivors() == records
        trees.append({path: data for path, data in disk.tree().items() if names.LOG_SUFFIX in path})
    # The second sets the horizon of the aborted transaction's marker; from then on not a byte changes.
    assert trees[1] == trees[2]


def test_each_segment_still_ends_where_the_next_begins(keyed: KeyedLog) -> None:
    fill_segments(keyed)
    compact(keyed)
    ends = [list(segment.headers())[-1][1].next_offset for segment in keyed.log.segments[:-1]]
    assert ends == [segment.base_offset for segment in keyed.log.segments[1:]]


def test_small_segments_become_one(keyed: KeyedLog, disk: SimulatedDisk) -> None:
    fill_segments(keyed, 6)
    compact(keyed)
    assert keyed.log.active_segment.base_offset == 12
    keyed.put((b"c", b"1"))
    compact(keyed)
    assert [segment.base_offset for segment in keyed.log.segments] == [0, 10, 13]
    assert names_in(disk, names.LOG_SUFFIX) == [f"{offset:020}.log" for offset in (0, 10, 13)]


class TestFullMap:
    def test_the_map_ends_with_a_whole_segment(self, keyed: KeyedLog) -> None:
        for number in range(6):
            keyed.put((b"%d" % number, b"1"), (b"same", b"%d" % number))
            keyed.roll()
        keyed.replicate()
        assert keyed.compact(max_keys=4)
        # The fourth segment would have brought a fifth key.
        assert keyed.log.cleaned_up_to == 6
        keyed.check()
        assert keyed.compact(max_keys=4)
        assert keyed.log.cleaned_up_to == 12
        keyed.check()
        keyed.check_compacted()

    def test_a_segment_with_too_many_keys_is_done_in_pieces(self, keyed: KeyedLog) -> None:
        for number in range(6):
            keyed.put((b"%d" % number, b"1"), (b"same", b"%d" % number))
        settle(keyed)
        ends = []
        while keyed.compact(max_keys=3):
            ends.append(keyed.log.cleaned_up_to)
            keyed.check()
            keyed.check_compacted()
        assert ends == [4, 8, 12]

    def test_what_lies_behind_the_map_is_left_alone(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"))
        keyed.put((b"b", None))
        keyed.put((None, b"3"))
        settle(keyed)
        assert keyed.compact(max_keys=1)
        assert keyed.log.cleaned_up_to == 1
        assert offsets(keyed) == [0, 1, 2]
        assert not any(header.has_delete_horizon for header in keyed.headers())


class TestTombstones:
    def test_it_hides_the_value_and_goes_when_its_time_has_passed(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"))
        keyed.put((b"a", None))
        compact(keyed)
        horizon_ms = keyed.now_ms + DELETE_RETENTION_MS
        assert offsets(keyed) == [1]
        make_dirty(keyed)
        keyed.now_ms = horizon_ms - 1
        compact(keyed)
        assert 1 in offsets(keyed)
        make_dirty(keyed)
        keyed.now_ms = horizon_ms
        compact(keyed)
        assert 1 not in offsets(keyed)

    def test_a_new_value_takes_its_place_at_once(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", None))
        keyed.put((b"a", b"2"))
        compact(keyed)
        assert offsets(keyed) == [1]


class TestTransactions:
    def test_an_aborted_value_supersedes_nothing(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"))
        keyed.put((b"a", b"2"), producer_id=ALICE)
        keyed.end(ALICE, commit=False)
        compact(keyed)
        assert [record.value for record in keyed.committed()] == [b"1"]

    def test_a_committed_value_does(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"))
        keyed.put((b"a", b"2"), producer_id=ALICE)
        keyed.end(ALICE, commit=True)
        compact(keyed)
        assert [record.value for record in keyed.committed()] == [b"2"]

    def test_the_outcome_may_be_told_behind_what_is_compacted(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"))
        keyed.put((b"b", b"1"))
        keyed.put((b"a", b"2"), producer_id=ALICE)
        keyed.put((b"b", b"2"), producer_id=BOB)
        keyed.roll()
        keyed.end(ALICE, commit=False)
        keyed.end(BOB, commit=True)
        keyed.replicate()
        assert keyed.compact()
        keyed.check()
        assert [record.offset for record in keyed.committed()] == [0, 3]

    @pytest.mark.parametrize("commit", [True, False])
    def test_a_marker_goes_when_its_transaction_has_been_gone_for_long_enough(
        self, keyed: KeyedLog, commit: bool
    ) -> None:
        keyed.put((b"a", b"1"), producer_id=ALICE)
        marker = keyed.end(ALICE, commit=commit)
        keyed.put((b"a", b"2"), producer_id=ALICE)
        keyed.end(ALICE, commit=True)
        compact(keyed)
        # Something of the transaction was still there.
        assert marker in markers(keyed)
        make_dirty(keyed)
        compact(keyed)
        horizon_ms = keyed.now_ms + DELETE_RETENTION_MS
        make_dirty(keyed)
        keyed.now_ms = horizon_ms - 1
        compact(keyed)
        assert marker in markers(keyed)
        make_dirty(keyed)
        keyed.now_ms = horizon_ms
        compact(keyed)
        assert marker not in markers(keyed)
        assert keyed.log.last_stable_offset == keyed.log.high_watermark

    def test_a_marker_stays_while_a_record_of_its_transaction_does(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"), producer_id=ALICE)
        marker = keyed.end(ALICE, commit=True)
        for _ in range(4):
            make_dirty(keyed)
            keyed.now_ms += DELETE_RETENTION_MS
            compact(keyed)
        assert marker in markers(keyed)
        assert not any(header.has_delete_horizon for header in keyed.headers() if header.is_control)

    @pytest.mark.parametrize("commit", [True, False])
    def test_record_with_the_key_of_a_marker_does_not_supersede_the_marker(self, keyed: KeyedLog, commit: bool) -> None:
        """KAFKA-14055: there the transaction stays open for readers, or falls in with the next one."""
        keyed.put((b"a", b"1"), producer_id=ALICE)
        marker = keyed.end(ALICE, commit=commit)
        keyed.put((CONTROL_KEY.pack(0, int(commit)), b"a key like any other"))
        compact(keyed)
        assert marker in markers(keyed)
        assert keyed.log.last_stable_offset == keyed.log.high_watermark
        assert (b"1" in [record.value for record in keyed.committed()]) is commit

    def test_the_index_keeps_the_aborted_transactions_of_which_something_is_left(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"), producer_id=ALICE)
        keyed.end(ALICE, commit=False)
        keyed.put((b"a", b"2"), producer_id=ALICE)
        keyed.put((b"a", b"2"), producer_id=BOB)
        keyed.end(ALICE, commit=False)
        keyed.end(BOB, commit=False)
        keyed.put((b"a", b"3"), producer_id=BOB)
        keyed.end(BOB, commit=True)
        make_dirty(keyed)
        compact(keyed)
        index = keyed.log.segments[0].transaction_index
        # Alice's last batch stays without its records.
        assert [(entry.producer_id, entry.first_offset) for entry in index] == [(ALICE, 2)]
        fetched = keyed.log.read(0, max_bytes=10**6, isolation=Isolation.READ_COMMITTED)
        assert [entry.first_offset for entry in fetched.aborted_transactions] == [2]

    def test_aborted_transaction_behind_the_map_stays_in_the_index_and_keeps_its_marker(self, keyed: KeyedLog) -> None:
        """KAFKA-13727: there a segment that was compacted in part forgot what is aborted in the rest of it."""
        keyed.put((b"a", b"1"), (b"a", b"2"))
        keyed.put((b"b", b"1"), producer_id=ALICE)
        marker = keyed.end(ALICE, commit=False)
        keyed.put((b"c", b"1"))
        settle(keyed)
        assert keyed.compact(max_keys=1)
        keyed.check()
        assert keyed.log.cleaned_up_to == 2
        assert offsets(keyed)[0] == 1, "the segment was written anew"
        assert [entry.first_offset for entry in keyed.log.segments[0].transaction_index] == [2]
        assert marker in markers(keyed)
        assert [record.offset for record in keyed.committed()] == [1, 4]

    def test_no_snapshot_tells_of_a_transaction_whose_marker_is_gone(self, keyed: KeyedLog) -> None:
        """A recovery that began with it would hold the last stable offset back."""
        keyed.put((b"a", b"1"), producer_id=ALICE)
        keyed.put((b"b", bytes(700)))
        keyed.roll()
        keyed.put((b"c", bytes(700)))
        keyed.roll()
        keyed.put((b"d", bytes(700)))
        keyed.end(ALICE, commit=True)
        keyed.put((b"a", b"2"))
        keyed.roll()
        keyed.put((b"a", b"3"), producer_id=ALICE)
        for _ in range(3):
            keyed.log.cleaned_up_to = 0
            keyed.now_ms += DELETE_RETENTION_MS
            compact(keyed)
        assert markers(keyed) == []
        keyed.check_snapshots()


class TestProducers:
    def replayed(self, keyed: KeyedLog, disk: SimulatedDisk) -> dict[int, tuple[int, ...]]:
        disk.crash_process()
        for name in names_in(disk, names.SNAPSHOT_SUFFIX):
            disk.remove(f"{DIRECTORY}/{name}")
        keyed.open()
        keyed.replicate()
        return keyed.producers()

    def test_sequences_go_on_after_everything_of_a_producer_was_superseded(
        self, keyed: KeyedLog, disk: SimulatedDisk
    ) -> None:
        keyed.put((b"a", b"1"), (b"a", b"2"), producer_id=IDEMPOTENT)
        keyed.put((b"a", b"3"), (b"a", b"4"), producer_id=IDEMPOTENT)
        keyed.put((b"a", b"5"))
        compact(keyed)
        before = keyed.producers()
        assert [header.record_count for header in keyed.headers()] == [0, 1]
        assert self.replayed(keyed, disk) == before
        keyed.check_producers()
        keyed.put((b"a", b"6"), producer_id=IDEMPOTENT)

    def test_an_epoch_that_began_with_a_marker_is_still_known(self, keyed: KeyedLog, disk: SimulatedDisk) -> None:
        keyed.put((b"a", b"1"), producer_id=ALICE)
        keyed.end(ALICE, commit=True, bump=True)
        keyed.put((b"a", b"2"))
        for _ in range(4):
            make_dirty(keyed)
            keyed.now_ms += DELETE_RETENTION_MS
            compact(keyed)
        before = keyed.producers()
        assert before[ALICE][0] == 1
        assert self.replayed(keyed, disk) == before
        zombie = data_batch(producer_id=ALICE, epoch=0, sequence=1, transactional=True)
        (fenced,) = keyed.log.append([zombie], leader_epoch=0, now_ms=keyed.now_ms)
        assert isinstance(fenced, Rejection)
        assert fenced.error_code is ErrorCode.INVALID_PRODUCER_EPOCH

    def test_the_last_batch_goes_when_the_producer_is_forgotten(self, keyed: KeyedLog) -> None:
        keyed.put((b"a", b"1"), producer_id=IDEMPOTENT)
        keyed.put((b"a", b"2"))
        compact(keyed)
        assert keyed.headers()[0].record_count == 0
        keyed.log.producers.expire(keyed.now_ms + 10**9, 1)
        del keyed.senders[IDEMPOTENT]
        make_dirty(keyed)
        compact(keyed)
        assert all(header.record_count for header in keyed.headers())


class TestReads:
    def test_an_offset_that_is_gone_gives_the_next_batch(self, keyed: KeyedLog) -> None:
        fill_segments(keyed)
        keyed.put((b"c", b"1"))
        compact(keyed)
        for isolation in Isolation:
            for offset in range(keyed.log.log_end_offset):
                fetched = keyed.log.read(offset, max_bytes=10**6, isolation=isolation)
                first = split_batches(fetched.records)[0].header
                expected = next(header for header in keyed.headers() if header.last_offset >= offset)
                assert first == expected

    def test_timestamps_find_what_is_left(self, keyed: KeyedLog) -> None:
        written = [keyed.put((b"a", b"%d" % number), producer_id=IDEMPOTENT) for number in range(3)]
        keyed.put((b"b", b"1"))
        (kept,) = [each.record for each in keyed.written if each.record.key == b"b"]
        keyed.put((b"a", b"3"), producer_id=IDEMPOTENT)
        keyed.put((b"a", b"4"), producer_id=IDEMPOTENT)
        keyed.put((b"a", None))
        last = keyed.written[-1].record
        compact(keyed)
        log = keyed.log
        assert offsets(keyed) == [kept.offset, last.offset]
        first_ms = keyed.written[written[0].base_offset].record.timestamp
        isolation = Isolation.READ_COMMITTED
        assert log.offset_for_timestamp(first_ms, isolation) == TimestampedOffset(kept.timestamp, kept.offset)
        assert log.offset_for_timestamp(kept.timestamp + 1, isolation) == TimestampedOffset(last.timestamp, last.offset)
        assert log.offset_of_largest_timestamp(isolation) == TimestampedOffset(last.timestamp, last.offset)
        assert log.segments[0].largest_timestamp_ms == last.timestamp

    def test_an_emptied_batch_is_not_found_by_its_timestamp(self, keyed: KeyedLog, disk: SimulatedDisk) -> None:
        keyed.put((b"a", b"1"))
        keyed.now_ms += 100
        keyed.put((b"b", b"1"), producer_id=IDEMPOTENT)
        keyed.now_ms -= 100
        keyed.put((b"b", b"2"))
        compact(keyed)
        assert [header.record_count for header in keyed.headers()] == [1, 0, 1]
        newest = keyed.written[-1].record
        expected = TimestampedOffset(newest.timestamp, newest.offset)
        assert keyed.log.offset_of_largest_timestamp(Isolation.READ_COMMITTED) == expected
        disk.crash_process()
        for name in names_in(disk, *names.INDEX_SUFFIXES):
            disk.remove(f"{DIRECTORY}/{name}")
        keyed.open()
        keyed.replicate()
        assert keyed.log.offset_of_largest_timestamp(Isolation.READ_COMMITTED) == expected

    def test_a_follower_gets_the_same_log(self, keyed: KeyedLog) -> None:
        fill_segments(keyed)
        keyed.put((b"a", b"1"), producer_id=ALICE)
        keyed.end(ALICE, commit=False)
        compact(keyed)
        follower = KeyedLog(SimulatedDisk(), compacting())
        offset = 0
        while offset < keyed.log.log_end_offset:
            batches = whole_batches(keyed.log.read_for_replica(offset, max_bytes=700))
            follower.log.append_replicated(batches, now_ms=keyed.now_ms)
            offset = batches[-1].header.next_offset
        assert follower.headers() == keyed.headers()
        assert follower.log.log_end_offset == keyed.log.log_end_offset
        assert follower.producers() == keyed.producers()


def test_compaction_and_deletion_go_together() -> None:
    config = compacting(cleanup_delete=True, retention_ms=10_000)
    keyed = KeyedLog(SimulatedDisk(), config)
    fill_segments(keyed)
    keyed.put((b"old", b"1"))
    compact(keyed)
    keyed.now_ms += 10_000
    keyed.put((b"young", b"1"))
    settle(keyed)
    assert keyed.log.apply_retention(keyed.now_ms) > 0
    assert keyed.log.log_start_offset > 0
    keyed.check()
    keyed.put((b"young", b"2"))
    compact(keyed)
    assert [record.value for record in keyed.committed()] == [b"2"]


@pytest.mark.usefixtures("small_steps")
class TestDisturbances:
    """What happens to the log between two steps, at every step of a compaction."""

    @pytest.fixture(params=range(31))
    def compacting_log(self, request: pytest.FixtureRequest, keyed: KeyedLog) -> tuple[KeyedLog, Compaction]:
        fill_segments(keyed)
        keyed.put((b"a", b"unstable"), producer_id=ALICE)
        compaction = keyed.compaction()
        assert compaction is not None
        for _ in range(request.param):
            if not compaction.step():
                pytest.fail("the compaction has fewer steps")
        return keyed, compaction

    def check(self, keyed: KeyedLog, compaction: Compaction, disk: SimulatedDisk) -> None:
        finish(compaction)
        keyed.check()
        assert not compaction.step()
        assert not names_in(disk, names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
        if keyed.log.last_stable_offset > keyed.log.cleaned_up_to:
            keyed.compact()
            keyed.check()
            keyed.check_compacted()

    def test_there_are_not_more_steps_than_these_tests_look_at(self, keyed: KeyedLog) -> None:
        fill_segments(keyed)
        compaction = keyed.compaction()
        assert compaction is not None
        count = 1
        while compaction.step():
            count += 1
        assert count == 31

    def test_appending(self, compacting_log: tuple[KeyedLog, Compaction], disk: SimulatedDisk) -> None:
        keyed, compaction = compacting_log
        for _ in range(3):
            keyed.put((b"a", bytes(500)))
        keyed.end(ALICE, commit=True)
        keyed.replicate()
        finish(compaction)
        assert compaction.report.cleaned_up_to == 12
        self.check(keyed, compaction, disk)

    def test_raising_the_start(self, compacting_log: tuple[KeyedLog, Compaction], disk: SimulatedDisk) -> None:
        keyed, compaction = compacting_log
        keyed.log.delete_records(5)
        self.check(keyed, compaction, disk)
        assert keyed.log.log_start_offset == 5

    def test_truncating(self, compacting_log: tuple[KeyedLog, Compaction], disk: SimulatedDisk) -> None:
        keyed, compaction = compacting_log
        keyed.log.truncate(12, now_ms=keyed.now_ms)
        keyed.written = [written for written in keyed.written if written.record.offset < 12]
        del keyed.senders[ALICE]
        assert not compaction.step()
        self.check(keyed, compaction, disk)

    def test_closing(self, compacting_log: tuple[KeyedLog, Compaction], disk: SimulatedDisk) -> None:
        keyed, compaction = compacting_log
        keyed.log.close()
        assert not compaction.step()
        keyed.open()
        keyed.replicate()
        # The same names may be those of another compaction by now.
        later = keyed.compaction()
        if later is not None:
            later.step()
        compaction.stop()
        while later is not None and later.step():
            pass
        self.check(keyed, compaction, disk)

    def test_stopping(self, compacting_log: tuple[KeyedLog, Compaction], disk: SimulatedDisk) -> None:
        keyed, compaction = compacting_log
        compaction.stop()
        assert not compaction.step()
        self.check(keyed, compaction, disk)

    def test_an_append_that_fails(self, compacting_log: tuple[KeyedLog, Compaction], disk: SimulatedDisk) -> None:
        keyed, compaction = compacting_log
        batch = data_batch(keys=[b"a"])
        with disk.injected(Fault(Outcome.FAIL, on=Operation.WRITE)), pytest.raises(LogWriteFailed):
            keyed.log.append([batch], leader_epoch=0, now_ms=keyed.now_ms)
        self.check(keyed, compaction, disk)


class TestFailures:
    def test_a_damaged_batch_ends_the_compaction_and_not_the_log(self, keyed: KeyedLog, disk: SimulatedDisk) -> None:
        fill_segments(keyed)
        disk.rot(f"{DIRECTORY}/{4:020}.log", 100, 1)
        before = [segment.read(0, segment.size_bytes) for segment in keyed.log.segments]
        compaction = keyed.compaction()
        assert compaction is not None
        with pytest.raises(LogDamaged, match="damaged"):
            finish(compaction)
        assert not compaction.step()
        assert [segment.read(0, segment.size_bytes) for segment in keyed.log.segments] == before
        assert not names_in(disk, names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
        keyed.put((b"a", b"the log serves on"))

    def test_a_flush_that_fails_takes_the_log_offline(self, keyed: KeyedLog, disk: SimulatedDisk) -> None:
        """What is about to supersede something may not be on the disk, and nobody can tell."""
        fill_segments(keyed)
        compaction = keyed.compaction()
        assert compaction is not None
        with disk.injected(Fault(Outcome.FAIL, on=Operation.FLUSH)), pytest.raises(LogOffline):
            compaction.step()
        assert not compaction.step()

    def test_what_is_flushed_is_not_flushed_again(self, keyed: KeyedLog, disk: SimulatedDisk) -> None:
        fill_segments(keyed)
        keyed.log.flush()
        keyed.put((b"a", b"newer than what is compacted"))
        compaction = keyed.compaction()
        assert compaction is not None
        before = len(disk.trace)
        assert compaction.step()
        assert not [each for each in disk.trace[before:] if each.operation is Operation.FLUSH]

    def test_a_segment_that_would_outgrow_its_index_is_not_written(
        self, keyed: KeyedLog, disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill_segments(keyed)
        monkeypatch.setattr(compacted_segment, "MAX_SEGMENT_BYTES", 100)
        compaction = keyed.compaction()
        assert compaction is not None
        with pytest.raises(CompactionFailed, match=r"segment\.bytes"):
            finish(compaction)
        assert not names_in(disk, names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
        keyed.check()


def test_steps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "STEP_BYTES", 10_000)
    disk = SimulatedDisk()
    keyed = KeyedLog(disk, compacting(segment_bytes=1_000_000))
    for number in range(100):
        keyed.put((b"%d" % (number % 70), bytes(900)))
    settle(keyed)
    compaction = keyed.compaction()
    assert compaction is not None
    steps = 1
    disk.trace.clear()
    while compaction.step():
        steps += 1
        written = [step.size_bytes for step in disk.trace if step.operation is Operation.WRITE]
        assert sum(written) <= 12_000
        disk.trace.clear()
    assert steps >= 18
    keyed.check()
