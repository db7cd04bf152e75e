"""Markers of version 1 that come late, or twice, and the transaction that is open by then.

Kafka's KIP-890 says of itself that a delayed marker can complete the next transaction of the same epoch wrongly; its
version 2 closes that by a new epoch for each transaction. Here a marker of version 1 has the number of its decision.
"""

import pytest

from eagleray.broker.identities import ProducerIdentity
from eagleray.broker.log import Isolation
from eagleray.broker.partitions.events import AskLastDecision, MarkersAnswered, Produced, VerifyTransaction
from eagleray.broker.partitions.leaders import PartitionLeaders
from eagleray.protocol.errors import ErrorCode
from tests.support.batches import NOW_MS
from tests.support.leading import (
    LEADER_EPOCH,
    ORDERS,
    PAYMENTS,
    PRODUCER,
    alone,
    fetch,
    in_transaction,
    lead,
    markers,
    open_transaction,
    told,
    verified,
)
from tests.support.simulated_disk import SimulatedDisk

LATE = ErrorCode.INVALID_PRODUCER_EPOCH
AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture
def leaders():
    return lead(SimulatedDisk())


def handle(leaders, *events):
    return leaders.handle(events, NOW_MS, NOW_MS)


def answer_of(effects):
    """The code of the only marker of the only answer."""
    (answered,) = [effect for effect in effects if isinstance(effect, MarkersAnswered)]
    (code,) = answered.error_codes or (ErrorCode.NONE,)
    return code


def known_to(leaders):
    """How many producers a leader keeps a number, or a question, of."""
    return len(leaders._leaders[ORDERS]._decisions)


def last_stable_offset(leaders):
    (fetched,) = handle(leaders, fetch(99, isolation=Isolation.READ_COMMITTED, max_wait_ms=0))
    return fetched.partitions[0].last_stable_offset


def led_anew(leaders):
    """The same log under the leader that comes after, which has heard of no decision."""
    log, _ = leaders.resign(ORDERS)
    successor = PartitionLeaders()
    successor.lead(ORDERS, alone(log, LEADER_EPOCH + 1))
    return successor


# A leader that has heard of the last decision


def test_a_late_marker_does_not_end_the_next_transaction(leaders):
    open_transaction(leaders, finished=(5, 11))
    assert answer_of(handle(leaders, markers(2, ORDERS, coordinator_epoch=5, decision=12))) is ErrorCode.NONE
    open_transaction(leaders, 1, finished=(5, 12))
    assert answer_of(handle(leaders, markers(3, ORDERS, coordinator_epoch=5, decision=12))) is LATE
    assert last_stable_offset(leaders) == 2
    assert answer_of(handle(leaders, markers(4, ORDERS, coordinator_epoch=5, decision=13))) is ErrorCode.NONE
    assert last_stable_offset(leaders) == 4


def test_a_late_marker_of_an_earlier_coordinator_is_refused_as_well(leaders):
    open_transaction(leaders, finished=(6, 1))
    assert answer_of(handle(leaders, markers(2, ORDERS, coordinator_epoch=5, decision=40))) is LATE


def test_the_late_one_of_a_request_keeps_no_other_from_being_written(leaders):
    open_transaction(leaders, finished=(5, 3))
    other = ProducerIdentity(8, 0)
    late = markers(2, PAYMENTS, ORDERS, coordinator_epoch=5, decision=3).markers
    due = markers(2, ORDERS, producer=other, coordinator_epoch=5, decision=4).markers
    event = markers(2)
    (answered,) = handle(leaders, type(event)(2, (*late, *due)))
    assert answered.error_codes == (ErrorCode.NONE, LATE, ErrorCode.NONE)


def test_without_a_number_a_marker_is_taken(leaders):
    open_transaction(leaders, finished=(5, 11))
    assert answer_of(handle(leaders, markers(2, ORDERS, coordinator_epoch=5))) is ErrorCode.NONE
    assert known_to(leaders) == 0


def test_a_repeated_marker_is_written_again_where_nothing_is_open(leaders):
    open_transaction(leaders, finished=(5, 0))
    due = markers(2, ORDERS, coordinator_epoch=5, decision=1)
    assert [answer_of(handle(leaders, due)) for _ in range(2)] == [ErrorCode.NONE] * 2


def test_repeated_marker_of_version_2_is_told_that_it_is_done_whether_or_not_the_next_transaction_is_open(leaders):
    """KAFKA-19999: there the leader refused a repeat that changed nothing, and the coordinator tried for ever."""
    successor = ProducerIdentity(7, 1)
    open_transaction(leaders)
    again = markers(2, ORDERS, producer=successor, version=2)
    assert [answer_of(handle(leaders, again)) for _ in range(2)] == [ErrorCode.NONE] * 2
    (question,) = handle(leaders, in_transaction(3, producer=successor, version=2))
    handle(leaders, verified(question))
    assert answer_of(handle(leaders, again)) is LATE


# A leader that has not


def test_a_leader_that_was_restarted_asks_about_a_marker_before_it_writes_it(leaders):
    open_transaction(leaders, finished=(5, 11))
    leaders = led_anew(leaders)
    marker = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    question, answered = handle(leaders, marker)
    assert question == AskLastDecision(question.question_id, ORDERS, "tx", PRODUCER.producer_id)
    assert answered.error_codes == (AGAIN,)
    assert handle(leaders, told(question, 5, 11)) == []
    assert answer_of(handle(leaders, marker)) is ErrorCode.NONE
    assert known_to(leaders) == 0


def test_a_leader_that_was_restarted_refuses_the_late_marker_when_it_has_heard(leaders):
    open_transaction(leaders, finished=(5, 12))
    leaders = led_anew(leaders)
    late = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    question, _ = handle(leaders, late)
    handle(leaders, told(question, 5, 12))
    assert answer_of(handle(leaders, late)) is LATE
    assert last_stable_offset(leaders) == 0


def test_markers_that_come_while_the_question_is_open_ask_no_other(leaders):
    open_transaction(leaders)
    marker = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    handle(leaders, marker)
    (answered,) = handle(leaders, marker)
    assert answered.error_codes == (AGAIN,)


def test_without_an_answer_the_next_attempt_asks_again(leaders):
    open_transaction(leaders)
    marker = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    question, _ = handle(leaders, marker)
    handle(leaders, told(question, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    again, _ = handle(leaders, marker)
    assert (again.question_id != question.question_id, last_stable_offset(leaders)) == (True, 0)


def test_the_marker_of_a_newer_coordinator_is_due(leaders):
    open_transaction(leaders, finished=(5, 12))
    marker = markers(2, ORDERS, coordinator_epoch=6, decision=1)
    assert handle(leaders, marker) == [MarkersAnswered(2)]


def test_a_marker_of_a_newer_epoch_is_no_late_one(leaders):
    """The producer was fenced: no earlier transaction of its had that epoch."""
    open_transaction(leaders)
    fencing = markers(2, ORDERS, commit=False, producer=ProducerIdentity(7, 1), coordinator_epoch=5, decision=12)
    assert answer_of(handle(leaders, fencing)) is ErrorCode.NONE


def test_an_answer_that_was_overtaken_by_the_end_of_the_transaction_says_nothing_of_the_next(leaders):
    open_transaction(leaders)
    late = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    question, _ = handle(leaders, late)
    handle(leaders, markers(3, ORDERS, coordinator_epoch=5))
    open_transaction(leaders, 1)
    handle(leaders, told(question, 5, 11))
    assert answer_of(handle(leaders, late)) is AGAIN


def test_an_answer_to_the_leader_before_says_nothing_to_its_successor(leaders):
    open_transaction(leaders)
    marker = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    question, _ = handle(leaders, marker)
    log, _ = leaders.resign(ORDERS)
    leaders.lead(ORDERS, alone(log, LEADER_EPOCH + 1))
    handle(leaders, told(question, 5, 11))
    assert any(isinstance(effect, AskLastDecision) for effect in handle(leaders, marker))


# Batches that wait for their verification


def test_a_late_marker_leaves_the_batch_alone_that_waits_for_its_verification(leaders):
    open_transaction(leaders, finished=(5, 11))
    late = markers(2, ORDERS, coordinator_epoch=5, decision=12)
    handle(leaders, late)
    (verification,) = handle(leaders, in_transaction(3, 1))
    question, answered = handle(leaders, late)
    assert answered.error_codes == (AGAIN,)
    handle(leaders, told(question, 5, 12))
    assert answer_of(handle(leaders, late)) is LATE
    (produced,) = handle(leaders, verified(verification, finished=(5, 12)))
    assert (produced.request_id, produced.error_code) == (3, ErrorCode.NONE)


def test_the_marker_that_is_due_refuses_the_batch_that_waits_for_its_verification(leaders):
    """Its transaction is decided, so the verification is held until this very marker is written."""
    (verification,) = handle(leaders, in_transaction(1))
    due = markers(2, ORDERS, commit=False, coordinator_epoch=5, decision=12)
    question, _ = handle(leaders, due)
    handle(leaders, told(question, 5, 11))
    produced, answered = handle(leaders, due)
    assert isinstance(verification, VerifyTransaction)
    assert (produced.error_code, answered) == (ErrorCode.INVALID_TXN_STATE, MarkersAnswered(2))


# What is kept


def test_a_leader_keeps_numbers_of_nothing_but_what_is_open(leaders):
    open_transaction(leaders, finished=(5, 11))
    assert known_to(leaders) == 1
    handle(leaders, markers(2, ORDERS, coordinator_epoch=5, decision=12))
    assert known_to(leaders) == 0


def test_a_confirmed_batch_that_the_log_refuses_leaves_no_number(leaders):
    open_transaction(leaders, finished=(5, 11))
    handle(leaders, markers(2, ORDERS, coordinator_epoch=5, decision=12))
    (question,) = handle(leaders, in_transaction(3, 7))
    (produced,) = handle(leaders, verified(question, finished=(5, 12)))
    assert isinstance(produced, Produced)
    assert (produced.error_code, known_to(leaders)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)


def test_a_batch_that_is_not_confirmed_leaves_no_number(leaders):
    (verification,) = handle(leaders, in_transaction(1))
    question, _ = handle(leaders, markers(2, ORDERS, coordinator_epoch=5, decision=12))
    handle(leaders, told(question, 5, 12))
    assert known_to(leaders) == 1
    handle(leaders, verified(verification, ErrorCode.TRANSACTION_ABORTABLE))
    assert known_to(leaders) == 0
