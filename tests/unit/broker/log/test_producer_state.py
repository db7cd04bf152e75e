"""How a duplicate batch is recognised, a gap refused and a zombie fenced."""

from typing import Any

import pytest

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.log.producer_entry import CACHED_BATCHES, LAST_SEQUENCE, NO_OFFSET, CachedBatch
from eagleray.broker.log.producer_limit import IDLE_MS
from eagleray.broker.log.producer_state import CompletedTransaction, Origin, ProducerState, Rejection
from eagleray.broker.messages import Marker
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import EndTransactionMarker
from tests.support.batches import NOW_MS, data_header, marker_header
from tests.support.logs import end_marker

PRODUCER = 7
OTHER = 8
COMMIT = EndTransactionMarker(True, 0)
ABORT = EndTransactionMarker(False, 0)


class Partition:
    """Producer state under a log that only counts offsets."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end_offset = 0
        self.now_ms = NOW_MS

    def send(
        self, sequence: int, *, producer_id: int = PRODUCER, origin: Origin = Origin.CLIENT, **fields: Any
    ) -> CachedBatch | Rejection | int:
        """Return the offset of a batch that was taken, else the verdict."""
        header = data_header(producer_id, sequence=sequence, **fields)
        verdict = self.state.check_data(header, origin, self.now_ms)
        if verdict is not None:
            return verdict
        base_offset = self.end_offset
        self.state.apply_data(header, base_offset, self.now_ms)
        self.end_offset += header.last_offset_delta + 1
        return base_offset

    def end(
        self,
        marker: EndTransactionMarker = COMMIT,
        *,
        producer_id: int = PRODUCER,
        epoch: int = 0,
        transaction_version: int = 1,
    ) -> CompletedTransaction | Rejection | None:
        """Return what a marker completed, or why it was refused."""
        header = marker_header(producer_id, epoch=epoch)
        rejection = self.state.check_marker(
            end_marker(producer_id, epoch, marker.commit, marker.coordinator_epoch, transaction_version)
        )
        if rejection is not None:
            return rejection
        offset = self.end_offset
        self.end_offset += 1
        return self.state.apply_marker(header, marker, offset, self.now_ms)


@pytest.fixture
def partition() -> Partition:
    return Partition()


def assert_refused(verdict: object, error_code: ErrorCode, *words: str) -> None:
    assert isinstance(verdict, Rejection), verdict
    assert verdict.error_code is error_code
    for word in words:
        assert word in verdict.message


# Sequences


def test_batches_that_follow_each_other_are_taken(partition: Partition) -> None:
    assert partition.send(0, count=3) == 0
    assert partition.send(3) == 3
    assert partition.send(4, count=2) == 4


@pytest.mark.parametrize("sequence", [1, 2, 5, 7, LAST_SEQUENCE])
def test_a_gap_is_refused_and_says_what_was_expected(partition: Partition, sequence: int) -> None:
    partition.send(0, count=6)
    assert_refused(
        partition.send(sequence),
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {PRODUCER} (epoch 0) wrote sequence {sequence} after 5",
        "a batch before it is missing",
    )
    assert partition.end_offset == 6


@pytest.mark.parametrize("sequence", [0, 1, 4711, LAST_SEQUENCE])
def test_an_unknown_producer_may_go_on_anywhere(partition: Partition, sequence: int) -> None:
    assert partition.send(sequence) == 0


def test_sequences_wrap_behind_the_largest(partition: Partition) -> None:
    assert partition.send(LAST_SEQUENCE) == 0
    assert partition.send(0) == 1
    assert partition.send(1) == 2


def test_a_batch_may_lie_across_the_wrap(partition: Partition) -> None:
    assert partition.send(LAST_SEQUENCE - 1, count=4) == 0
    assert_refused(partition.send(LAST_SEQUENCE), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert partition.send(2) == 4
    repeated = partition.send(LAST_SEQUENCE - 1, count=4)
    assert repeated == CachedBatch(LAST_SEQUENCE - 1, 1, 0, 3, NOW_MS)


# Duplicates


def test_an_exact_repeat_of_the_last_five_returns_where_it_went(partition: Partition) -> None:
    for number in range(CACHED_BATCHES):
        partition.send(2 * number, count=2)
    for number in range(CACHED_BATCHES):
        expected = CachedBatch(2 * number, 2 * number + 1, 2 * number, 2 * number + 1, NOW_MS)
        assert partition.send(2 * number, count=2) == expected
    assert partition.end_offset == 10


def test_a_repeat_of_the_sixth_last_is_out_of_order(partition: Partition) -> None:
    for sequence in range(CACHED_BATCHES + 1):
        partition.send(sequence)
    verdict = partition.send(0)
    assert_refused(verdict, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "older than the last 5")
    assert isinstance(partition.send(1), CachedBatch)


@pytest.mark.parametrize(("sequence", "count"), [(2, 1), (2, 3), (3, 1), (1, 3)])
def test_a_repeat_with_other_bounds_is_out_of_order(partition: Partition, sequence: int, count: int) -> None:
    partition.send(0, count=2)
    partition.send(2, count=2)
    assert_refused(partition.send(sequence, count=count), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_a_repeat_is_recognised_even_where_it_would_not_be_taken_now(partition: Partition) -> None:
    partition.send(0)
    partition.send(1, transactional=True)
    assert isinstance(partition.send(0), CachedBatch)


def test_producers_do_not_know_each_other(partition: Partition) -> None:
    partition.send(0)
    assert partition.send(0, producer_id=OTHER) == 1
    assert partition.send(1) == 2


# Epochs


def test_a_new_epoch_starts_at_sequence_zero(partition: Partition) -> None:
    partition.send(0, count=3)
    for sequence in (1, 3):
        verdict = partition.send(sequence, epoch=1)
        assert_refused(
            verdict, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"(epoch 1) wrote sequence {sequence}", "(epoch 0)"
        )
    assert partition.send(0, epoch=1) == 3
    assert partition.send(1, epoch=1) == 4


def test_a_new_epoch_forgets_the_batches_of_the_old(partition: Partition) -> None:
    partition.send(0)
    partition.send(0, epoch=1)
    verdict = partition.send(0, epoch=1)
    assert isinstance(verdict, CachedBatch)
    assert verdict.first_offset == 1


def test_epochs_may_be_skipped(partition: Partition) -> None:
    partition.send(0)
    assert partition.send(0, epoch=30) == 1


@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
def test_an_old_epoch_is_fenced(partition: Partition, origin: Origin) -> None:
    partition.send(0, epoch=2)
    verdict = partition.send(0, epoch=1, origin=origin)
    assert_refused(
        verdict,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {PRODUCER} wrote with epoch 1, but epoch 2 was seen",
        "a newer producer has taken over",
    )


def test_an_exact_repeat_in_an_old_epoch_is_fenced_and_no_duplicate(partition: Partition) -> None:
    partition.send(0)
    partition.send(0, epoch=1)
    assert_refused(partition.send(0), ErrorCode.INVALID_PRODUCER_EPOCH)


# Where batches come from


def test_a_coordinators_batches_have_no_sequence_and_are_never_duplicates(partition: Partition) -> None:
    assert partition.send(-1, origin=Origin.COORDINATOR, transactional=True) == 0
    assert partition.send(-1, origin=Origin.COORDINATOR, transactional=True) == 1


def test_a_coordinators_batch_does_not_hide_a_repeat(partition: Partition) -> None:
    partition.send(0)
    partition.send(-1, origin=Origin.COORDINATOR)
    assert isinstance(partition.send(0), CachedBatch)
    assert_refused(partition.send(1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_what_a_leader_has_taken_is_not_checked_again(partition: Partition) -> None:
    partition.send(0, epoch=5, transactional=True)
    header = data_header(PRODUCER, epoch=4, sequence=77)
    assert partition.state.check_data(header, Origin.REPLICATION, NOW_MS) is None


# Transactions


def test_a_transaction_opens_with_its_first_batch_and_ends_with_its_marker(partition: Partition) -> None:
    partition.send(0, producer_id=OTHER)
    partition.send(0, transactional=True)
    partition.send(1, transactional=True)
    assert partition.state.unstable.first_undecided_offset == 1
    assert partition.end(ABORT) == CompletedTransaction(PRODUCER, 1, 3, True, 4)
    assert partition.state.unstable.first_undecided_offset is None


def test_a_committed_transaction_is_completed_but_not_aborted(partition: Partition) -> None:
    partition.send(0, transactional=True)
    assert partition.end(COMMIT) == CompletedTransaction(PRODUCER, 0, 1, False, 2)


def test_a_marker_without_records_completes_nothing(partition: Partition) -> None:
    assert partition.end(ABORT) is None
    partition.send(0, transactional=True)
    partition.end(COMMIT)
    assert partition.end(COMMIT) is None


def test_the_last_stable_offset_of_a_marker_is_that_of_the_oldest_still_open(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.send(0, producer_id=OTHER, transactional=True)
    partition.send(0, producer_id=9, transactional=True)
    assert partition.end(ABORT, producer_id=OTHER) == CompletedTransaction(OTHER, 1, 3, True, 0)
    assert partition.end(ABORT) == CompletedTransaction(PRODUCER, 0, 4, True, 2)
    assert partition.end(ABORT, producer_id=9) == CompletedTransaction(9, 2, 5, True, 6)


def test_sequences_go_on_after_a_marker_of_the_same_epoch(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.end(COMMIT)
    assert_refused(partition.send(5, transactional=True), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert partition.send(1, transactional=True) == 2


@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
def test_a_write_outside_of_an_open_transaction_is_refused(partition: Partition, origin: Origin) -> None:
    partition.send(0, transactional=True)
    assert_refused(
        partition.send(1, origin=origin), ErrorCode.INVALID_TXN_STATE, "open since offset 0", "commit or abort it first"
    )
    partition.end(COMMIT)
    assert partition.send(1, origin=origin) == 2


def test_a_gap_counts_before_the_state_of_the_transaction(partition: Partition) -> None:
    partition.send(0, transactional=True)
    assert_refused(partition.send(5), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_a_transaction_that_goes_on_in_a_new_epoch_keeps_its_first_offset(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.send(0, epoch=1, transactional=True)
    assert partition.end(ABORT, epoch=1) == CompletedTransaction(PRODUCER, 0, 2, True, 3)


# Markers and their fences


def test_a_marker_of_an_old_epoch_is_fenced(partition: Partition) -> None:
    partition.send(0, epoch=2, transactional=True)
    assert_refused(partition.end(ABORT, epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert partition.state.unstable.first_undecided_offset == 0


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (-5, 3), (7, -1)])
def test_a_marker_of_no_producer_is_refused(partition: Partition, producer_id: int, epoch: int) -> None:
    marker = Marker(ProducerIdentity(producer_id, epoch), ABORT, 0, 2, ())
    assert_refused(partition.state.check_marker(marker), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_marker_raises_the_epoch_and_so_fences_its_producer(partition: Partition) -> None:
    partition.send(0, transactional=True)
    assert isinstance(partition.end(ABORT, epoch=1), CompletedTransaction)
    assert_refused(partition.send(1, transactional=True), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert_refused(partition.send(1, epoch=1, transactional=True), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert partition.send(0, epoch=1, transactional=True) == 2


def test_a_marker_for_an_unknown_producer_fences_older_epochs(partition: Partition) -> None:
    assert partition.end(ABORT, epoch=3) is None
    assert_refused(partition.send(0, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert_refused(partition.send(1, epoch=3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert partition.send(0, epoch=3) == 1


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_an_old_coordinator_is_fenced(partition: Partition, transaction_version: int) -> None:
    partition.send(0, transactional=True)
    partition.end(EndTransactionMarker(True, 5))
    partition.send(1, transactional=True)
    verdict = partition.end(EndTransactionMarker(True, 4), epoch=1, transaction_version=transaction_version)
    assert_refused(
        verdict,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        f"marker of producer {PRODUCER} has coordinator epoch 4, but one with 5 was seen",
    )
    for coordinator_epoch in (5, 6):
        marker = EndTransactionMarker(True, coordinator_epoch)
        assert not isinstance(partition.end(marker, epoch=1, transaction_version=transaction_version), Rejection)


def test_the_coordinators_epoch_is_known_for_each_producer_apart(partition: Partition) -> None:
    partition.end(EndTransactionMarker(True, 5))
    assert partition.end(EndTransactionMarker(True, 0), producer_id=OTHER) is None


def test_late_marker_of_version_2_does_not_end_the_next_transaction(partition: Partition) -> None:
    partition.send(0, epoch=0, transactional=True)
    assert isinstance(partition.end(COMMIT, epoch=1, transaction_version=2), CompletedTransaction)
    # The same marker again, once before and once after the next transaction began in the epoch that it gave.
    assert partition.end(COMMIT, epoch=1, transaction_version=2) is None
    partition.send(0, epoch=1, transactional=True)
    assert_refused(partition.end(COMMIT, epoch=1, transaction_version=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert isinstance(partition.end(ABORT, epoch=2, transaction_version=2), CompletedTransaction)


def test_in_version_1_a_marker_carries_the_epoch_of_its_transaction(partition: Partition) -> None:
    partition.send(0, epoch=1, transactional=True)
    assert isinstance(partition.end(COMMIT, epoch=1, transaction_version=1), CompletedTransaction)


def test_checks_change_nothing(partition: Partition) -> None:
    partition.send(0, transactional=True)
    for _ in range(2):
        assert (
            partition.state.check_data(data_header(PRODUCER, sequence=1, transactional=True), Origin.CLIENT, NOW_MS)
            is None
        )
        assert partition.state.check_marker(end_marker(PRODUCER, 4, COMMIT.commit, COMMIT.coordinator_epoch)) is None
    entry = partition.state.get(PRODUCER)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.coordinator_epoch, entry.open_since_offset) == (0, 0, -1, 0)
    assert len(partition.state) == 1


# Expiry


def test_a_producer_expires_when_it_was_idle_for_the_whole_time(partition: Partition) -> None:
    partition.send(0)
    assert partition.state.expire(NOW_MS + 99, 100) == 0
    assert partition.state.expire(NOW_MS + 100, 100) == 1
    assert partition.state.get(PRODUCER) is None
    assert partition.send(17) == 1


@pytest.mark.parametrize("timestamp_ms", [0, NOW_MS - 2**40, NOW_MS + 2**40])
def test_the_timestamps_of_records_have_no_say_in_when_their_producer_expires(
    partition: Partition, timestamp_ms: int
) -> None:
    partition.send(0, timestamp_ms=timestamp_ms)
    assert partition.state.expire(NOW_MS + 99, 100) == 0
    assert partition.send(0, timestamp_ms=timestamp_ms) == CachedBatch(0, 0, 0, 0, timestamp_ms)
    assert partition.state.expire(NOW_MS + 100, 100) == 1


def test_every_batch_and_marker_starts_the_time_again(partition: Partition) -> None:
    partition.send(0)
    partition.now_ms += 50
    partition.send(1)
    assert partition.state.expire(NOW_MS + 149, 100) == 0
    partition.now_ms += 40
    partition.end()
    assert partition.state.expire(NOW_MS + 189, 100) == 0
    assert partition.state.expire(NOW_MS + 190, 100) == 1


def test_a_repeated_batch_starts_the_time_again(partition: Partition) -> None:
    partition.send(0)
    partition.state.heard_of(PRODUCER, NOW_MS + 50)
    assert partition.state.expire(NOW_MS + 149, 100) == 0
    assert partition.state.expire(NOW_MS + 150, 100) == 1


def test_a_producer_is_remembered_for_no_longer_because_the_clock_was_set_back(partition: Partition) -> None:
    partition.send(0)
    assert partition.state.expire(NOW_MS - 10**6, 100) == 0
    assert partition.state.expire(NOW_MS - 10**6 + 100, 100) == 1


def test_a_producer_with_an_open_transaction_never_expires(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.send(0, producer_id=OTHER)
    assert partition.state.expire(2**60, 100) == 1
    assert [entry.producer_id for entry in partition.state] == [PRODUCER]
    partition.end(ABORT)
    assert partition.state.expire(2**60, 100) == 1


# The last epoch


def test_a_producer_is_forgotten_with_its_last_epoch(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.send(0, producer_id=OTHER)
    completed = partition.end(COMMIT, epoch=LAST_EPOCH, transaction_version=2)
    assert completed == CompletedTransaction(PRODUCER, 0, 2, False, 3)
    assert [entry.producer_id for entry in partition.state] == [OTHER]
    assert partition.state.unstable.first_undecided_offset is None
    assert partition.state.unstable.first_unstable_offset == 0


def test_the_marker_of_a_last_epoch_may_come_again_and_leaves_nothing(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.end(COMMIT, epoch=LAST_EPOCH, transaction_version=2)
    assert partition.end(COMMIT, epoch=LAST_EPOCH, transaction_version=2) is None
    assert len(partition.state) == 0


# The limit


def fill(partition: Partition, most: int, **fields: Any) -> None:
    partition.state.limit.most = most
    for producer_id in range(most):
        assert isinstance(partition.send(0, producer_id=producer_id, **fields), int)


def test_a_newcomer_is_refused_where_every_producer_was_at_work(partition: Partition) -> None:
    fill(partition, 3)
    partition.now_ms += IDLE_MS - 1
    assert_refused(partition.send(0), ErrorCode.POLICY_VIOLATION, "max.producer.ids", "3", "15 minutes")
    assert len(partition.state) == 3
    assert isinstance(partition.send(1, producer_id=0), int)


def test_the_producer_that_was_idle_for_longest_makes_room(partition: Partition) -> None:
    fill(partition, 3)
    partition.now_ms += 1
    partition.send(1, producer_id=0)
    partition.now_ms += IDLE_MS
    partition.send(1, producer_id=1)
    assert isinstance(partition.send(0), int)
    assert [entry.producer_id for entry in partition.state] == [0, 1, PRODUCER]
    assert isinstance(partition.send(0, producer_id=OTHER), int)
    assert [entry.producer_id for entry in partition.state] == [1, PRODUCER, OTHER]
    assert_refused(partition.send(0, producer_id=9), ErrorCode.POLICY_VIOLATION)


def test_a_producer_that_comes_back_to_work_does_not_make_room(partition: Partition) -> None:
    fill(partition, 2)
    partition.now_ms += IDLE_MS
    partition.send(0, producer_id=5)
    partition.send(1, producer_id=1)
    assert_refused(partition.send(0, producer_id=6), ErrorCode.POLICY_VIOLATION)
    assert [entry.producer_id for entry in partition.state] == [1, 5]


def test_a_producer_with_an_open_transaction_never_makes_room(partition: Partition) -> None:
    fill(partition, 2, transactional=True)
    partition.now_ms += 100 * IDLE_MS
    assert_refused(partition.send(0), ErrorCode.POLICY_VIOLATION)
    partition.end(producer_id=1)
    assert_refused(partition.send(0), ErrorCode.POLICY_VIOLATION)
    partition.now_ms += IDLE_MS
    assert isinstance(partition.send(0), int)
    assert [entry.producer_id for entry in partition.state] == [0, PRODUCER]


def test_a_replica_takes_what_its_leader_has_taken_and_forgets_it_when_it_may(partition: Partition) -> None:
    fill(partition, 2)
    assert isinstance(partition.send(0, origin=Origin.REPLICATION), int)
    assert len(partition.state) == 3
    assert partition.state.expire(NOW_MS + IDLE_MS - 1, 10**9) == 0
    assert partition.state.expire(NOW_MS + IDLE_MS, 10**9) == 1


def test_a_marker_that_ends_nothing_leaves_nothing_in_a_full_partition(partition: Partition) -> None:
    fill(partition, 2)
    assert partition.end(ABORT, epoch=4) is None
    assert partition.state.get(PRODUCER) is None
    partition.now_ms += IDLE_MS
    assert partition.end(ABORT, epoch=4) is None
    assert partition.state.get(PRODUCER) is not None
    assert len(partition.state) == 2


def test_branches_that_come_and_go_in_a_full_partition_leave_no_notes(partition: Partition) -> None:
    fill(partition, 2)
    assert_refused(partition.send(0), ErrorCode.POLICY_VIOLATION)
    partition.state.limit.most = 3
    for branch in range(10, 5000):
        assert isinstance(partition.send(0, producer_id=branch, transactional=True), int)
        partition.end(producer_id=branch, epoch=LAST_EPOCH, transaction_version=2)
    assert len(partition.state.limit._notes or ()) < 1100
    assert [entry.producer_id for entry in partition.state] == [0, 1]


def test_there_is_room_although_the_clock_was_set_back(partition: Partition) -> None:
    fill(partition, 2)
    partition.now_ms += 10 * IDLE_MS
    partition.send(1, producer_id=0)
    partition.send(1, producer_id=1)
    assert_refused(partition.send(0), ErrorCode.POLICY_VIOLATION)
    partition.now_ms = NOW_MS
    partition.state.expire(partition.now_ms, 10**9)
    partition.now_ms += IDLE_MS
    assert isinstance(partition.send(0), int)


# Beginning from a snapshot


def test_a_state_made_of_entries_knows_their_open_transactions(partition: Partition) -> None:
    partition.send(0, producer_id=OTHER, transactional=True)
    partition.send(0, transactional=True)
    partition.send(0, producer_id=9)
    again = ProducerState(reversed(list(partition.state)))
    assert again.unstable.first_undecided_offset == 0
    again.apply_marker(marker_header(OTHER), COMMIT, 3, NOW_MS)
    assert again.unstable.first_undecided_offset == 1
    assert [entry.open_since_offset for entry in again] == [NO_OFFSET, 1, NO_OFFSET]
