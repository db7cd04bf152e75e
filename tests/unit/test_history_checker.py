"""Every kind of violation is found in a small history that has it, and a history without any passes."""

import os

import msgspec
import pytest

from eagleray.broker.identities import TopicPartition
from tests.support.history import (
    Begun,
    Ended,
    Ending,
    FoundRecord,
    GroupOffset,
    History,
    HistoryWriter,
    InconsistentHistory,
    Outcome,
    Payload,
    Place,
    SentRecord,
    Transaction,
    TransactionName,
    Transform,
    encode_payload,
    gather,
    read_events,
)
from tests.support.history_checker import check
from tests.support.history_violations import (
    AbortedVisible,
    ForeignRecord,
    GroupOffsetUnexplained,
    InputNotPassed,
    InputRepeated,
    InputSkipped,
    LostTransaction,
    NotInUncommitted,
    OffsetsNotAscending,
    OutOfOrder,
    RepeatedRecord,
    TornTransaction,
    WrongOutput,
)

ORDERS_0, ORDERS_1, INVOICES = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("invoices", 0)
FIRST, SECOND = TransactionName("writer", 1, 1), TransactionName("writer", 1, 2)
STEP = TransactionName("billing", 1, 1)
BILLING = Transform("billing", "orders", "invoices")


def sent(name, index, partition, body="", **source):
    return SentRecord(partition, "key", Payload(name, index, body, **source))


def found(offset, record):
    return FoundRecord(offset, record.key, encode_payload(record.payload))


def transaction(name, *records, outcome=Outcome.COMMITTED, offsets=()):
    return Transaction(name, records, offsets, outcome)


A, B, C = sent(FIRST, 0, ORDERS_0, "a"), sent(FIRST, 1, ORDERS_1, "b"), sent(SECOND, 0, ORDERS_0, "c")


def history(*transactions, committed, uncommitted=None, **more):
    everything = dict.fromkeys((ORDERS_0, ORDERS_1, INVOICES), ())
    return History(transactions, everything | committed, everything | (uncommitted or committed), **more)


def two_committed(**changes):
    records = {ORDERS_0: (found(0, A), found(2, C)), ORDERS_1: (found(0, B),)}
    return msgspec.structs.replace(
        history(transaction(FIRST, A, B), transaction(SECOND, C), committed=records), **changes
    )


def seen(records):
    return dict.fromkeys((ORDERS_0, ORDERS_1, INVOICES), ()) | records


def test_a_history_of_committed_transactions_passes():
    assert check(two_committed()) == ()


def test_a_committed_transaction_that_is_not_visible_is_lost():
    records = {ORDERS_0: (found(2, C),)}
    violations = check(history(transaction(FIRST, A, B), transaction(SECOND, C), committed=records))
    assert violations == (LostTransaction(FIRST),)
    assert violations[0].text == "writer/1/1 was committed, but nothing of it is visible."


@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.UNKNOWN])
def test_a_transaction_that_is_visible_in_one_partition_only_is_torn(outcome):
    violations = check(history(transaction(FIRST, A, B, outcome=outcome), committed={ORDERS_0: (found(0, A),)}))
    assert violations == (TornTransaction(FIRST, outcome, (1,)),)


def test_an_unknown_transaction_may_be_visible_or_not():
    unknown = transaction(FIRST, A, B, outcome=Outcome.UNKNOWN)
    assert check(history(unknown, committed={})) == ()
    assert check(history(unknown, committed={ORDERS_0: (found(0, A),), ORDERS_1: (found(0, B),)})) == ()


def test_an_aborted_transaction_is_for_readers_of_everything_only():
    aborted = transaction(FIRST, A, B, outcome=Outcome.ABORTED)
    assert check(history(aborted, committed={}, uncommitted={ORDERS_0: (found(0, A),)})) == ()
    violations = check(history(aborted, committed={ORDERS_0: (found(0, A),)}))
    assert violations == (AbortedVisible(FIRST, (0,)),)


def test_a_record_that_is_visible_twice_is_a_repetition_for_both_readers():
    twice = {ORDERS_0: (found(0, A), found(1, A)), ORDERS_1: (found(0, B),)}
    places = (Place(ORDERS_0, 0), Place(ORDERS_0, 1))
    assert check(history(transaction(FIRST, A, B), committed=twice)) == (
        RepeatedRecord(FIRST, 0, places, "read_uncommitted"),
        RepeatedRecord(FIRST, 0, places, "read_committed"),
    )


def test_a_repetition_of_an_aborted_record_is_one_as_well():
    aborted = transaction(FIRST, A, B, outcome=Outcome.ABORTED)
    (violation,) = check(history(aborted, committed={}, uncommitted={ORDERS_0: (found(0, A), found(1, A))}))
    assert violation == RepeatedRecord(FIRST, 0, (Place(ORDERS_0, 0), Place(ORDERS_0, 1)), "read_uncommitted")


@pytest.mark.parametrize("after", [0, 1])
def test_offsets_that_do_not_ascend_are_found(after):
    records = {ORDERS_0: (found(1, A), found(after, C)), ORDERS_1: (found(0, B),)}
    violations = check(two_committed(committed=seen(records), uncommitted=seen(records)))
    assert OffsetsNotAscending(ORDERS_0, 1, after, "read_committed") in violations
    assert OffsetsNotAscending(ORDERS_0, 1, after, "read_uncommitted") in violations


def test_transactions_of_a_producer_in_the_wrong_order_are_found():
    records = seen({ORDERS_0: (found(0, C), found(1, A)), ORDERS_1: (found(0, B),)})
    violations = check(two_committed(committed=records, uncommitted=records))
    expected = ORDERS_0, "record 0 of writer/1/2", "record 0 of writer/1/1"
    assert violations == (OutOfOrder(*expected, "read_uncommitted"), OutOfOrder(*expected, "read_committed"))


def test_records_of_one_transaction_in_the_wrong_order_are_found():
    other = sent(FIRST, 1, ORDERS_0, "b")
    records = {ORDERS_0: (found(0, other), found(1, A))}
    violations = check(history(transaction(FIRST, A, other), committed=records))
    assert {type(each) for each in violations} == {OutOfOrder}


def test_a_later_incarnation_comes_after_an_earlier_one():
    later = sent(TransactionName("writer", 2, 1), 0, ORDERS_0)
    before, after = transaction(later.payload.transaction, later), transaction(SECOND, C)
    assert check(history(before, after, committed={ORDERS_0: (found(0, C), found(1, later))})) == ()
    violations = check(history(before, after, committed={ORDERS_0: (found(0, later), found(1, C))}))
    assert {type(each) for each in violations} == {OutOfOrder}


def test_producers_have_no_order_among_each_other():
    other = sent(TransactionName("another", 1, 1), 0, ORDERS_0)
    records = {ORDERS_0: (found(0, C), found(1, other))}
    assert (
        check(history(transaction(SECOND, C), transaction(other.payload.transaction, other), committed=records)) == ()
    )


def test_record_that_only_the_committed_reader_finds_is_wrong():
    fewer = seen({ORDERS_0: (found(0, A), found(2, C))})
    violations = check(two_committed(uncommitted=fewer))
    assert violations == (NotInUncommitted(Place(ORDERS_1, 0), "record 1 of writer/1/1"),)


def test_readers_that_find_a_record_at_different_offsets_do_not_agree():
    moved = seen({ORDERS_0: (found(0, A), found(3, C)), ORDERS_1: (found(0, B),)})
    assert check(two_committed(uncommitted=moved)) == (NotInUncommitted(Place(ORDERS_0, 2), "record 0 of writer/1/2"),)


def test_readers_that_find_different_records_at_an_offset_do_not_agree():
    other = sent(TransactionName("another", 1, 1), 0, ORDERS_0)
    records = two_committed()
    everything = {**records.uncommitted, ORDERS_0: (found(0, A), found(2, other))}
    unknown = transaction(other.payload.transaction, other, outcome=Outcome.UNKNOWN)
    history = msgspec.structs.replace(records, transactions=(*records.transactions, unknown), uncommitted=everything)
    assert check(history) == (NotInUncommitted(Place(ORDERS_0, 2), "record 0 of writer/1/2"),)


ALTERED = msgspec.structs.replace(A, payload=msgspec.structs.replace(A.payload, body="x"))


@pytest.mark.parametrize(
    "strange",
    [
        FoundRecord(5, "key", b"not one of ours"),
        FoundRecord(5, "key", b"\xff"),
        FoundRecord(5, "another key", encode_payload(A.payload)),
        found(5, ALTERED),
        found(5, B),
        found(5, sent(FIRST, 7, ORDERS_0)),
        found(5, sent(FIRST, -7, ORDERS_0)),
        found(5, sent(TransactionName("nobody", 1, 1), 0, ORDERS_0)),
    ],
    ids=["no payload", "no text", "key", "value", "partition", "index", "negative index", "transaction"],
)
def test_a_record_that_was_not_sent_like_that_is_foreign(strange):
    records = seen({ORDERS_0: (found(0, A), found(2, C), strange), ORDERS_1: (found(0, B),)})
    violations = check(two_committed(committed=records, uncommitted=records))
    foreign = [each for each in violations if type(each) is ForeignRecord]
    assert {each.isolation for each in foreign} == {"read_committed", "read_uncommitted"}
    assert {each.place for each in foreign} == {Place(ORDERS_0, 5)}


# Groups that transform


def invoice(index, source, body):
    return sent(STEP, index, INVOICES, body, group="billing", source=source)


FROM_A, FROM_C = invoice(0, Place(ORDERS_0, 0), "<a>"), invoice(1, Place(ORDERS_0, 2), "<c>")


def billed(*outputs, passed=3, outcome=Outcome.COMMITTED, promised=3):
    """Both orders of partition 0 are there; the outputs are visible, and the group is where it is said to be."""
    step = transaction(STEP, *outputs, outcome=outcome, offsets=(GroupOffset("billing", ORDERS_0, promised),))
    records = {ORDERS_0: (found(0, A), found(2, C)), INVOICES: tuple(map(found, range(len(outputs)), outputs))}
    inputs = transaction(FIRST, A), transaction(SECOND, C)
    offsets = (GroupOffset("billing", ORDERS_0, passed),) if passed is not None else ()
    return history(*inputs, step, committed=records, group_offsets=offsets, transforms=(BILLING,))


def test_a_transform_of_everything_passes():
    assert check(billed(FROM_A, FROM_C)) == ()


def test_inputs_that_the_group_has_not_come_to_need_no_output():
    assert check(billed(FROM_A, passed=1, promised=1)) == ()


def test_an_input_without_output_below_the_offset_is_skipped():
    assert check(billed(FROM_A)) == (InputSkipped("billing", Place(ORDERS_0, 2)),)


def test_an_input_that_was_consumed_by_two_transactions_is_repeated():
    again = TransactionName("billing", 2, 1)
    copy = SentRecord(INVOICES, "key", msgspec.structs.replace(FROM_A.payload, transaction=again))
    right = billed(FROM_A, FROM_C)
    with_copy = {**right.committed, INVOICES: (*right.committed[INVOICES], found(9, copy))}
    wrong = msgspec.structs.replace(
        right,
        transactions=(*right.transactions, transaction(again, copy)),
        committed=with_copy,
        uncommitted=with_copy,
    )
    outputs = Place(INVOICES, 0), Place(INVOICES, 9)
    assert check(wrong) == (InputRepeated("billing", Place(ORDERS_0, 0), outputs),)


@pytest.mark.parametrize("passed", [1, 2])
@pytest.mark.parametrize("outcome", [Outcome.COMMITTED, Outcome.UNKNOWN])
def test_outputs_without_the_offset_of_their_transaction_are_torn(outcome, passed):
    assert check(billed(FROM_A, FROM_C, passed=passed, outcome=outcome)) == (
        GroupOffsetUnexplained("billing", ORDERS_0, passed, 3),
        InputNotPassed("billing", Place(ORDERS_0, 2), Place(INVOICES, 1), passed),
    )


def test_outputs_without_any_offset_are_torn():
    violations = check(billed(FROM_A, FROM_C, passed=None))
    assert violations[0] == GroupOffsetUnexplained("billing", ORDERS_0, 0, 3)
    assert {type(each) for each in violations} == {GroupOffsetUnexplained, InputNotPassed}


def test_the_offset_of_an_unknown_transaction_without_its_outputs_is_torn():
    right = billed(FROM_A, FROM_C, outcome=Outcome.UNKNOWN)
    records = {**right.committed, INVOICES: ()}
    violations = check(msgspec.structs.replace(right, committed=records, uncommitted=records))
    assert violations[0] == GroupOffsetUnexplained("billing", ORDERS_0, 3, 0)
    assert {type(each) for each in violations[1:]} == {InputSkipped}


def test_the_offset_of_an_aborted_transaction_counts_for_nothing():
    right = billed(FROM_A, FROM_C, outcome=Outcome.ABORTED)
    records = {**right.committed, INVOICES: ()}
    nothing = msgspec.structs.replace(right, committed=records, uncommitted=records, group_offsets=())
    assert check(nothing) == ()
    moved = msgspec.structs.replace(nothing, group_offsets=right.group_offsets)
    assert GroupOffsetUnexplained("billing", ORDERS_0, 3, 0) in check(moved)


def test_an_output_that_is_not_made_of_its_input_is_wrong():
    wrong = invoice(1, Place(ORDERS_0, 2), "<a>")
    assert check(billed(FROM_A, wrong)) == (WrongOutput("billing", Place(ORDERS_0, 2), Place(INVOICES, 1)),)


def test_output_of_an_uncommitted_input_is_wrong():
    wrong = invoice(2, Place(ORDERS_0, 1), "<b>")
    assert check(billed(FROM_A, FROM_C, wrong)) == (WrongOutput("billing", Place(ORDERS_0, 1), Place(INVOICES, 2)),)


# What clients write down


def test_notes_of_a_client_are_read_back_up_to_a_line_that_is_not_whole(tmp_path):
    path = str(tmp_path / "client")
    events = [Begun(FIRST, (A, B), (GroupOffset("billing", ORDERS_0, 3),)), Ending(FIRST, True)]
    with HistoryWriter(path) as writer:
        for event in events:
            writer.write(event)
        assert read_events(path) == events
    with open(path, "ab") as file:
        file.write(msgspec.json.encode(Ended(FIRST, Outcome.COMMITTED))[:-3])
    assert read_events(path) == events


def test_a_file_of_another_client_is_not_written_over(tmp_path):
    path = str(tmp_path / "client")
    with HistoryWriter(path), pytest.raises(FileExistsError):
        HistoryWriter(path)
    assert os.path.getsize(path) == 0


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ([], Outcome.ABORTED),
        ([Ending(FIRST, False)], Outcome.ABORTED),
        ([Ending(FIRST, False), Ended(FIRST, Outcome.UNKNOWN)], Outcome.ABORTED),
        ([Ending(FIRST, True)], Outcome.UNKNOWN),
        ([Ending(FIRST, True), Ended(FIRST, Outcome.UNKNOWN)], Outcome.UNKNOWN),
        ([Ending(FIRST, True), Ended(FIRST, Outcome.COMMITTED)], Outcome.COMMITTED),
        ([Ending(FIRST, True), Ended(FIRST, Outcome.ABORTED)], Outcome.ABORTED),
    ],
)
def test_an_outcome_is_unknown_only_from_the_request_to_commit_on(events, outcome):
    (only,) = gather([Begun(FIRST, (A, B)), *events])
    assert only == transaction(FIRST, A, B, outcome=outcome)


@pytest.mark.parametrize(
    "events",
    [
        [Begun(FIRST, ()), Begun(FIRST, ())],
        [Ending(FIRST, True)],
        [Begun(FIRST, ()), Ended(FIRST, Outcome.COMMITTED)],
    ],
    ids=["begun twice", "never begun", "committed without being asked"],
)
def test_clients_that_contradict_themselves_are_not_believed(events):
    with pytest.raises(InconsistentHistory):
        gather(events)
