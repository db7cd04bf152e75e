"""The transactions that a compaction meets on its way."""

import msgspec

from eagleray.broker.log.compaction_transactions import CompactionTransactions, TransactionEnd
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.records import BatchHeader
from tests.support.batches import data_header, marker_header


def data_at(offset: int, producer_id: int = 1, *, count: int = 1, transactional: bool = True) -> BatchHeader:
    header = data_header(producer_id, count=count, transactional=transactional)
    return msgspec.structs.replace(header, base_offset=offset)


def marker_at(offset: int, producer_id: int = 1) -> BatchHeader:
    return msgspec.structs.replace(marker_header(producer_id), base_offset=offset)


def aborted(first_offset: int, last_offset: int, producer_id: int = 1) -> AbortedTransaction:
    return AbortedTransaction(producer_id, first_offset, last_offset, last_offset + 1)


def expecting(*transactions: AbortedTransaction) -> CompactionTransactions:
    expected = CompactionTransactions()
    expected.expect_aborted(transactions)
    return expected


def test_a_batch_is_aborted_from_the_first_offset_to_the_marker() -> None:
    transactions = expecting(aborted(10, 20), aborted(30, 40))
    outcomes = {offset: transactions.meet_batch(data_at(offset)) for offset in (9, 10, 19, 21, 29, 30, 39, 41)}
    assert [offset for offset, is_aborted in outcomes.items() if is_aborted] == [10, 19, 30, 39]


def test_only_transactional_batches_of_the_producer_are_aborted() -> None:
    transactions = expecting(aborted(10, 20))
    assert not transactions.meet_batch(data_at(12, producer_id=2))
    assert not transactions.meet_batch(data_at(12, transactional=False))


def test_a_marker_has_something_to_decide_while_a_batch_of_its_transaction_is_in_the_log() -> None:
    transactions = expecting()
    transactions.meet_batch(data_at(1))
    assert not transactions.meet_marker(marker_at(2)).is_empty
    assert transactions.meet_marker(marker_at(3)).is_empty
    assert transactions.meet_marker(marker_at(4, producer_id=2)).is_empty


def test_the_index_keeps_an_aborted_transaction_of_which_something_stays() -> None:
    transactions = expecting(aborted(1, 3), aborted(4, 6))
    transactions.meet_batch(data_at(1))
    assert transactions.meet_marker(marker_at(3)) == TransactionEnd(is_empty=False, aborted=None)
    transactions.meet_batch(data_at(4))
    transactions.keep_batch(data_at(4))
    transactions.meet_batch(data_at(5))
    assert transactions.meet_marker(marker_at(6)) == TransactionEnd(is_empty=False, aborted=aborted(4, 6))


def test_a_committed_transaction_enters_no_index() -> None:
    transactions = expecting(aborted(4, 6))
    transactions.meet_batch(data_at(1))
    transactions.keep_batch(data_at(1))
    assert transactions.meet_marker(marker_at(2)) == TransactionEnd(is_empty=False, aborted=None)


def test_transaction_goes_on_in_the_next_segment() -> None:
    transactions = expecting(aborted(1, 30))
    assert transactions.meet_batch(data_at(1))
    transactions.keep_batch(data_at(1))
    transactions.expect_aborted([aborted(1, 30), aborted(35, 38)])
    assert transactions.meet_batch(data_at(20))
    assert transactions.meet_marker(marker_at(30)) == TransactionEnd(is_empty=False, aborted=aborted(1, 30))
    assert not transactions.meet_batch(data_at(31))
