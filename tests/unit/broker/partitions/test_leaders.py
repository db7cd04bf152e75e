"""Everything that a leader actor decides, on a disk in memory."""

import pytest

from eagleray.broker.identities import LAST_EPOCH, ProducerIdentity
from eagleray.broker.log import Isolation
from eagleray.broker.messages import Marker
from eagleray.broker.partitions import fetching
from eagleray.broker.partitions.events import (
    Fetch,
    Fetched,
    FetchPartition,
    MarkersAnswered,
    Produce,
    Produced,
    VerifyTransaction,
    WriteMarkers,
)
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.broker.replication.events import Resigned
from eagleray.broker.runtime.deadlines import NEVER_MS, Tick
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS, data_batch, offsets_of
from tests.support.leading import (
    ELSEWHERE,
    LEADER_EPOCH,
    ORDERS,
    PAYMENTS,
    PRODUCER,
    alone,
    fetch,
    in_transaction,
    lead,
    markers,
    open_log,
    open_transaction,
    plain,
    verified,
)
from tests.support.simulated_disk import SimulatedDisk
from tests.unit.protocol.forge import forge_bytes


@pytest.fixture
def leaders():
    return lead(SimulatedDisk())


# Produce


def test_batches_of_one_turn_get_consecutive_offsets_in_their_order(leaders):
    answers = leaders.handle([plain(1, count=2), plain(2), plain(3)], NOW_MS, NOW_MS)
    assert [(one.request_id, one.error_code, one.base_offset) for one in answers] == [
        (1, ErrorCode.NONE, 0),
        (2, ErrorCode.NONE, 2),
        (3, ErrorCode.NONE, 3),
    ]


def test_without_acks_nothing_is_answered_but_the_batch_is_there(leaders):
    assert leaders.handle([plain(1, acks=0)], NOW_MS, NOW_MS) == []
    (answer,) = leaders.handle([plain(2)], NOW_MS, NOW_MS)
    assert answer.base_offset == 1


@pytest.mark.parametrize(
    "event",
    [
        plain(1, ELSEWHERE, acks=0),
        Produce(1, ORDERS, b"", acks=0),
        Produce(1, ORDERS, in_transaction(1).records, acks=0),
    ],
)
def test_without_acks_nothing_is_answered_even_where_the_batch_is_refused(leaders, event):
    assert leaders.handle([event], NOW_MS, NOW_MS) == []


def test_without_acks_nothing_is_answered_to_a_batch_that_waited_in_vain(leaders):
    (question,) = leaders.handle([in_transaction(1, acks=0)], NOW_MS, NOW_MS)
    assert leaders.handle([verified(question, ErrorCode.INVALID_TXN_STATE)], NOW_MS, NOW_MS) == []


def test_a_partition_that_is_led_elsewhere_is_refused(leaders):
    (answer,) = leaders.handle([plain(1, ELSEWHERE)], NOW_MS, NOW_MS)
    assert answer == Produced(1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize(
    ("records", "error_code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(data_batch().view) * 2, ErrorCode.INVALID_RECORD),
        (b"\0" * 70, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_bytes_that_are_not_one_good_batch_are_refused(leaders, records, error_code):
    (answer,) = leaders.handle([Produce(1, ORDERS, records)], NOW_MS, NOW_MS)
    assert answer.error_code is error_code
    assert answer.message


def test_a_rejection_of_the_log_reaches_the_producer_with_its_reason(leaders):
    batch = bytes(data_batch(producer_id=7, sequence=0).view)
    gap = bytes(data_batch(producer_id=7, sequence=5).view)
    first, second = leaders.handle([Produce(1, ORDERS, batch), Produce(2, ORDERS, gap)], NOW_MS, NOW_MS)
    assert first.error_code is ErrorCode.NONE
    assert second.error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert "sequence 5" in second.message


def test_the_answer_names_the_records_for_which_a_batch_is_refused(leaders):
    batch = data_batch(3, timestamps_ms=[NOW_MS, NOW_MS * 2, NOW_MS * 3])
    (answer,) = leaders.handle([Produce(1, ORDERS, bytes(batch.view))], NOW_MS, NOW_MS)
    assert answer.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert all("message.timestamp.after.max.ms" in error.message for error in answer.record_errors)


def test_a_small_batch_that_claims_two_billion_records_is_refused(leaders):
    claim = forge_bytes(bytes(8), record_count=2**31 - 1, last_offset_delta=2**31 - 2)
    assert len(claim) == 69
    (answer,) = leaders.handle([Produce(1, ORDERS, claim)], NOW_MS, NOW_MS)
    assert (answer.error_code, answer.record_errors) == (ErrorCode.INVALID_RECORD, ())
    assert "2147483647 records do not fit into 8 bytes" in answer.message


# Verification


def test_the_first_batch_of_a_transaction_waits_for_its_coordinator(leaders):
    effects = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    assert effects == [VerifyTransaction(1, ORDERS, "tx", PRODUCER, adds_partition=False)]
    (answer,) = leaders.handle([verified(effects[0])], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code, answer.base_offset) == (1, ErrorCode.NONE, 0)


def test_in_version_2_the_leader_asks_for_the_partition_to_be_added(leaders):
    (question,) = leaders.handle([in_transaction(1, version=2)], NOW_MS, NOW_MS)
    assert question.adds_partition


def test_later_batches_wait_behind_the_question_in_their_order(leaders):
    effects = leaders.handle([in_transaction(1), in_transaction(2, 1), in_transaction(3, 2)], NOW_MS, NOW_MS)
    assert len(effects) == 1
    answers = leaders.handle([verified(effects[0])], NOW_MS, NOW_MS)
    assert [(one.request_id, one.base_offset) for one in answers] == [(1, 0), (2, 1), (3, 2)]


def test_an_open_transaction_is_not_verified_again(leaders):
    open_transaction(leaders)
    (answer,) = leaders.handle([in_transaction(2, 1)], NOW_MS, NOW_MS)
    assert answer.base_offset == 1


def test_a_new_epoch_is_verified_again(leaders):
    open_transaction(leaders)
    (question,) = leaders.handle([in_transaction(2, producer=ProducerIdentity(7, 1))], NOW_MS, NOW_MS)
    assert isinstance(question, VerifyTransaction)


def test_a_repeat_of_what_is_in_the_log_needs_no_coordinator(leaders):
    open_transaction(leaders)
    leaders.handle([markers(2, ORDERS)], NOW_MS, NOW_MS)
    (answer,) = leaders.handle([in_transaction(3)], NOW_MS, NOW_MS)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


def test_a_zombie_needs_no_coordinator_to_be_refused(leaders):
    (question,) = leaders.handle([in_transaction(1, producer=ProducerIdentity(7, 4))], NOW_MS, NOW_MS)
    leaders.handle([verified(question)], NOW_MS, NOW_MS)
    (answer,) = leaders.handle([in_transaction(2, producer=ProducerIdentity(7, 3))], NOW_MS, NOW_MS)
    assert answer.error_code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_confirmation_of_a_successor_is_not_one_for_the_zombie_that_waits(leaders):
    successor = ProducerIdentity(7, 1)
    leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    refused, question = leaders.handle([in_transaction(2, producer=successor)], NOW_MS, NOW_MS)
    assert (refused.request_id, refused.error_code) == (1, ErrorCode.INVALID_PRODUCER_EPOCH)
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code, answer.base_offset) == (2, ErrorCode.NONE, 0)


def test_a_zombie_that_comes_while_its_successor_waits_is_refused(leaders):
    (question,) = leaders.handle([in_transaction(1, producer=ProducerIdentity(7, 1))], NOW_MS, NOW_MS)
    (refused,) = leaders.handle([in_transaction(2)], NOW_MS, NOW_MS)
    assert (refused.request_id, refused.error_code) == (2, ErrorCode.INVALID_PRODUCER_EPOCH)
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.base_offset) == (1, 0)


def test_batch_that_the_coordinator_does_not_confirm_is_not_appended(leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    (answer,) = leaders.handle([verified(question, ErrorCode.INVALID_TXN_STATE)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code) == (1, ErrorCode.INVALID_TXN_STATE)
    (next_answer,) = leaders.handle([plain(2)], NOW_MS, NOW_MS)
    assert next_answer.base_offset == 0


def test_marker_makes_the_question_void(leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    refused, answered = leaders.handle([markers(2, ORDERS, commit=False)], NOW_MS, NOW_MS)
    assert (refused.request_id, refused.error_code) == (1, ErrorCode.INVALID_TXN_STATE)
    assert answered == MarkersAnswered(2)
    assert leaders.handle([verified(question)], NOW_MS, NOW_MS) == []


def test_a_batch_that_comes_with_the_confirmation_of_its_transaction_is_not_verified_again(leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    answers = leaders.handle([verified(question), in_transaction(2, 1)], NOW_MS, NOW_MS)
    assert [(one.request_id, one.error_code, one.base_offset) for one in answers] == [
        (1, ErrorCode.NONE, 0),
        (2, ErrorCode.NONE, 1),
    ]


def test_a_confirmation_does_not_speak_for_what_comes_behind_the_marker(leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    effects = leaders.handle([verified(question), markers(2, ORDERS), in_transaction(3, 1)], NOW_MS, NOW_MS)
    assert [type(effect) for effect in effects] == [VerifyTransaction, Produced, MarkersAnswered]


def test_a_confirmation_does_not_speak_for_another_epoch_that_comes_with_it(leaders):
    (question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    successor = in_transaction(2, producer=ProducerIdentity(7, 1))
    effects = leaders.handle([verified(question), successor], NOW_MS, NOW_MS)
    assert [type(effect) for effect in effects] == [VerifyTransaction, Produced]


def test_batch_behind_the_last_epoch_of_its_producer_is_asked_about_and_refused(leaders):
    """A branch that is over: the partition has forgotten it, and its coordinator knows."""
    open_transaction(leaders)
    leaders.handle([markers(2, ORDERS, producer=ProducerIdentity(7, LAST_EPOCH), version=2)], NOW_MS, NOW_MS)
    for sequence in (0, 1):
        (question,) = leaders.handle([in_transaction(3, sequence, version=2)], NOW_MS, NOW_MS)
        assert isinstance(question, VerifyTransaction)
        (answer,) = leaders.handle([verified(question, ErrorCode.INVALID_TXN_STATE)], NOW_MS, NOW_MS)
        assert (answer.request_id, answer.error_code) == (3, ErrorCode.INVALID_TXN_STATE)
    (next_answer,) = leaders.handle([plain(4)], NOW_MS, NOW_MS)
    assert next_answer.base_offset == 2


def test_in_version_2_a_repeated_marker_leaves_the_next_transaction_alone(leaders):
    successor = ProducerIdentity(7, 1)
    open_transaction(leaders)
    leaders.handle([markers(2, ORDERS, producer=successor, version=2)], NOW_MS, NOW_MS)
    (question,) = leaders.handle([in_transaction(3, producer=successor, version=2)], NOW_MS, NOW_MS)
    leaders.handle([markers(4, ORDERS, producer=successor, version=2)], NOW_MS, NOW_MS)
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code) == (3, ErrorCode.NONE)


def test_batch_of_the_next_transaction_is_taken_though_the_last_one_completes_while_it_waits(leaders):
    """KAFKA-18575: there the leader looks before the end of the last transaction and asks the coordinator after it."""
    successor = ProducerIdentity(7, 1)
    open_transaction(leaders)
    (question,) = leaders.handle([in_transaction(2, producer=successor, version=2)], NOW_MS, NOW_MS)
    assert isinstance(question, VerifyTransaction)
    (answered,) = leaders.handle([markers(3, ORDERS, producer=successor, version=2)], NOW_MS, NOW_MS)
    assert answered == MarkersAnswered(3)
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code, answer.base_offset) == (2, ErrorCode.NONE, 2)


def test_in_version_2_a_marker_refuses_the_batches_of_its_own_transaction_that_wait(leaders):
    leaders.handle([in_transaction(1, version=2)], NOW_MS, NOW_MS)
    refused, _ = leaders.handle([markers(2, ORDERS, producer=ProducerIdentity(7, 1), version=2)], NOW_MS, NOW_MS)
    assert (refused.request_id, refused.error_code) == (1, ErrorCode.INVALID_TXN_STATE)


def test_a_marker_that_is_not_taken_leaves_the_batches_that_wait_alone(leaders):
    leaders.handle([markers(1, ORDERS, coordinator_epoch=5)], NOW_MS, NOW_MS)
    (question,) = leaders.handle([in_transaction(2)], NOW_MS, NOW_MS)
    (fenced,) = leaders.handle([markers(3, ORDERS, coordinator_epoch=4)], NOW_MS, NOW_MS)
    assert fenced.error_codes == (ErrorCode.TRANSACTION_COORDINATOR_FENCED,)
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code) == (2, ErrorCode.NONE)


def test_a_transactional_batch_without_a_transactional_id_is_refused(leaders):
    event = in_transaction(1)
    (answer,) = leaders.handle([Produce(1, ORDERS, event.records)], NOW_MS, NOW_MS)
    assert answer.error_code is ErrorCode.INVALID_REQUEST


# Markers


def test_a_marker_ends_the_transaction_behind_the_batches_of_the_same_turn(leaders):
    open_transaction(leaders)
    effects = leaders.handle([in_transaction(2, 1), markers(3, ORDERS)], NOW_MS, NOW_MS)
    assert [type(effect) for effect in effects] == [Produced, MarkersAnswered]
    (fetched,) = leaders.handle([fetch(4, isolation=Isolation.READ_COMMITTED)], NOW_MS, NOW_MS)
    (partition,) = fetched.partitions
    assert partition.last_stable_offset == partition.high_watermark == 3


def test_each_partition_of_each_marker_has_its_own_outcome(leaders):
    old = Marker(PRODUCER, True, 0, 1, (ORDERS,))
    new = Marker(PRODUCER, True, 5, 1, (ELSEWHERE, ORDERS))
    other = Marker(ProducerIdentity(8, 0), False, 0, 1, (PAYMENTS,))
    (answer,) = leaders.handle([WriteMarkers(1, (new, old, other))], NOW_MS, NOW_MS)
    assert answer.error_codes == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.NONE,
    )


# Fetch


def test_a_fetch_is_answered_at_once_when_there_is_enough(leaders):
    leaders.handle([plain(1), plain(2)], NOW_MS, NOW_MS)
    (fetched,) = leaders.handle([fetch(3)], NOW_MS, NOW_MS)
    assert offsets_of(fetched.partitions[0].records) == [0, 1]


def test_a_fetch_waits_for_its_partition_to_move(leaders):
    assert leaders.handle([fetch(1)], NOW_MS, NOW_MS) == []
    assert all(isinstance(effect, Produced) for effect in leaders.handle([plain(2, PAYMENTS)], NOW_MS, NOW_MS))
    produced, fetched = leaders.handle([plain(3)], NOW_MS, NOW_MS)
    assert isinstance(produced, Produced)
    assert (fetched.request_id, len(fetched.partitions[0].records) > 0) == (1, True)
    assert leaders.next_due_ms == NEVER_MS
    assert leaders.handle([Tick()], NOW_MS + 10_000, NOW_MS + 10_000) == []


def test_a_committed_fetch_waits_for_the_marker(leaders):
    open_transaction(leaders)
    assert leaders.handle([fetch(2, isolation=Isolation.READ_COMMITTED)], NOW_MS, NOW_MS) == []
    _, fetched = leaders.handle([markers(3, ORDERS)], NOW_MS, NOW_MS)
    assert isinstance(fetched, Fetched)


def test_an_aborted_transaction_is_named_beside_its_records(leaders):
    open_transaction(leaders)
    leaders.handle([markers(2, ORDERS, commit=False)], NOW_MS, NOW_MS)
    (fetched,) = leaders.handle([fetch(3, isolation=Isolation.READ_COMMITTED)], NOW_MS, NOW_MS)
    (aborted,) = fetched.partitions[0].aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (7, 0)


def test_a_fetch_is_answered_empty_when_its_time_is_up(leaders):
    assert leaders.next_due_ms == NEVER_MS
    leaders.handle([fetch(1, max_wait_ms=100)], NOW_MS, NOW_MS)
    assert leaders.next_due_ms == NOW_MS + 100
    assert leaders.handle([Tick()], NOW_MS + 99, NOW_MS + 99) == []
    (fetched,) = leaders.handle([Tick()], NOW_MS + 100, NOW_MS + 100)
    assert leaders.next_due_ms == NEVER_MS
    assert (fetched.request_id, fetched.partitions[0].records) == (1, b"")
    assert leaders.handle([Tick()], NOW_MS + 1000, NOW_MS + 1000) == []


def test_a_fetch_of_two_partitions_is_answered_once(leaders):
    leaders.handle([fetch(1, partitions=(ORDERS, PAYMENTS))], NOW_MS, NOW_MS)
    effects = leaders.handle([plain(2), plain(3, PAYMENTS)], NOW_MS, NOW_MS)
    assert [effect.request_id for effect in effects if isinstance(effect, Fetched)] == [1]


def test_an_error_is_not_waited_for(leaders):
    (outside,) = leaders.handle([fetch(1, offset=99)], NOW_MS, NOW_MS)
    assert outside.partitions[0].error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    (elsewhere,) = leaders.handle([fetch(2, partitions=(ORDERS, ELSEWHERE))], NOW_MS, NOW_MS)
    assert [one.error_code for one in elsewhere.partitions] == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize(
    ("epoch", "error_code"),
    [
        (-1, ErrorCode.NONE),
        (LEADER_EPOCH, ErrorCode.NONE),
        (LEADER_EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER_EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_reader_with_another_leader_epoch_is_told(leaders, epoch, error_code):
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    (fetched,) = leaders.handle([Fetch(2, (FetchPartition(ORDERS, 0, 1024, epoch),))], NOW_MS, NOW_MS)
    assert fetched.partitions[0].error_code is error_code


def test_partitions_beyond_the_limit_of_bytes_come_without_records(leaders):
    leaders.handle([plain(1), plain(2, PAYMENTS)], NOW_MS, NOW_MS)
    (fetched,) = leaders.handle([fetch(3, partitions=(ORDERS, PAYMENTS), max_bytes=1)], NOW_MS, NOW_MS)
    orders, payments = fetched.partitions
    assert orders.records
    assert (payments.records, payments.high_watermark, payments.error_code) == (b"", 1, ErrorCode.NONE)


# Resigning


def test_requests_that_wait_on_a_resigned_partition_are_sent_away(leaders):
    leaders.handle([in_transaction(1), fetch(2)], NOW_MS, NOW_MS)
    log, effects = leaders.resign(ORDERS)
    assert [type(effect) for effect in effects] == [Produced, Resigned, Fetched]
    assert (effects[0].request_id, effects[0].error_code) == (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert effects[2].request_id == 2
    assert effects[2].partitions[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ORDERS not in leaders
    assert log.is_online


def test_a_leader_that_takes_over_shows_everything_that_is_in_the_log():
    disk = SimulatedDisk()
    lead(disk).handle([plain(1)], NOW_MS, NOW_MS)
    disk.crash_process()
    log = open_log(disk)
    assert (log.high_watermark, log.log_end_offset) == (0, 1)
    successor = PartitionLeaders()
    successor.lead(ORDERS, alone(log, LEADER_EPOCH + 1))
    (fetched,) = successor.handle([fetch(2)], NOW_MS, NOW_MS)
    assert offsets_of(fetched.partitions[0].records) == [0]


def test_an_answer_to_the_leader_before_is_not_taken_for_one_to_its_successor(leaders):
    (old_question,) = leaders.handle([in_transaction(1)], NOW_MS, NOW_MS)
    log, _ = leaders.resign(ORDERS)
    leaders.lead(ORDERS, alone(log, LEADER_EPOCH + 1))
    (question,) = leaders.handle([in_transaction(2, producer=ProducerIdentity(7, 1))], NOW_MS, NOW_MS)
    assert leaders.handle([verified(old_question)], NOW_MS, NOW_MS) == []
    (answer,) = leaders.handle([verified(question)], NOW_MS, NOW_MS)
    assert (answer.request_id, answer.error_code) == (2, ErrorCode.NONE)


def test_a_fetch_sees_the_batches_of_its_own_turn(leaders):
    _, fetched = leaders.handle([fetch(1), plain(2)], NOW_MS, NOW_MS)
    assert offsets_of(fetched.partitions[0].records) == [0]


def test_fetches_that_wake_up_together_are_answered_over_several_turns(leaders, monkeypatch):
    monkeypatch.setattr(fetching, "MOST_BYTES_A_TURN", 150)
    for number in range(5):
        assert leaders.handle([fetch(number, max_wait_ms=1000)], NOW_MS, NOW_MS) == []
    effects = leaders.handle([plain(9)], NOW_MS, NOW_MS)
    answered = [effect for effect in effects if isinstance(effect, Fetched)]
    assert 0 < len(answered) < 5, "no turn reads more than it may, but for a batch"
    turns = 1
    while len(answered) < 5:
        assert leaders.next_due_ms == NOW_MS, "the others need not wait for more records"
        answered += leaders.handle([Tick()], NOW_MS, NOW_MS)
        turns += 1
    assert turns >= 2
    assert sorted(each.request_id for each in answered) == [0, 1, 2, 3, 4]
    assert {offsets_of(each.partitions[0].records) == [0] for each in answered} == {True}
    assert leaders.next_due_ms == NEVER_MS


def test_fetch_after_much_was_read_in_a_turn_is_answered_in_the_next(leaders, monkeypatch):
    monkeypatch.setattr(fetching, "MOST_BYTES_A_TURN", 1)
    leaders.handle([plain(1)], NOW_MS, NOW_MS)
    (first,) = leaders.handle([fetch(2), fetch(3)], NOW_MS, NOW_MS)
    (second,) = leaders.handle([Tick()], NOW_MS, NOW_MS)
    assert (first.request_id, second.request_id) == (2, 3)
    assert first.partitions == second.partitions
