"""Which aborted transactions touch a range of offsets: the index of one segment."""

import struct

import pytest

from eagleray.broker.log.transaction_index import ENTRY_BYTES, AbortedTransaction, TransactionIndex

# Producer, first offset, marker, and the last stable offset when the marker was written.
SHORT = AbortedTransaction(1, 0, 10, 11)
HELD_BACK = AbortedTransaction(2, 20, 30, 15)
"""Transaction 3 was open from 15 on when the marker of 2 was written."""
LONG = AbortedTransaction(3, 15, 40, 41)
LATER = AbortedTransaction(1, 50, 60, 61)


def index_of(*transactions: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex()
    for transaction in transactions:
        index.add(transaction)
    return index


@pytest.fixture
def index() -> TransactionIndex:
    return index_of(SHORT, HELD_BACK, LONG, LATER)


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "expected", "is_complete"),
    [
        pytest.param(0, 100, [SHORT, HELD_BACK, LONG, LATER], False, id="everything, and there may be more behind"),
        pytest.param(0, 61, [SHORT, HELD_BACK, LONG, LATER], True, id="all was decided when the last was written"),
        pytest.param(0, 11, [SHORT], True, id="the first entry says that all below 11 was decided"),
        pytest.param(0, 12, [SHORT], True, id="nothing else began below 12"),
        pytest.param(10, 11, [SHORT], True, id="the marker alone"),
        pytest.param(11, 12, [], True, id="between transactions"),
        pytest.param(0, 16, [SHORT, LONG], True, id="a long one is found behind one that began too late"),
        pytest.param(31, 100, [LONG, LATER], False, id="past the marker of the second"),
        pytest.param(41, 50, [], True, id="in the gap before the last"),
        pytest.param(61, 100, [], False, id="past everything"),
    ],
)
def test_a_search(
    index: TransactionIndex,
    start_offset: int,
    end_offset: int,
    expected: list[AbortedTransaction],
    is_complete: bool,
) -> None:
    search = index.search(start_offset, end_offset)
    assert search.transactions == expected
    assert search.is_complete is is_complete


def test_an_empty_index_knows_nothing() -> None:
    search = TransactionIndex().search(0, 100)
    assert (search.transactions, search.is_complete) == ([], False)


def test_the_file_is_kafkas() -> None:
    data = index_of(AbortedTransaction(7, 1, 2, 3)).take_unwritten()
    assert data == struct.pack(">hqqqq", 0, 7, 1, 2, 3)
    assert len(data) == ENTRY_BYTES == 34


def test_only_new_entries_are_written_and_all_are_read_back(index: TransactionIndex) -> None:
    data = index.take_unwritten()
    assert index.take_unwritten() == b""
    last = AbortedTransaction(9, 70, 80, 81)
    index.add(last)
    data += index.take_unwritten()
    loaded = TransactionIndex.decode(data)
    assert loaded is not None
    assert [loaded[number] for number in range(len(loaded))] == [SHORT, HELD_BACK, LONG, LATER, last]
    assert loaded.take_unwritten() == b""


def entry(first_offset: int, last_offset: int, last_stable_offset: int, *, version: int = 0) -> bytes:
    return struct.pack(">hqqqq", version, 1, first_offset, last_offset, last_stable_offset)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(entry(0, 10, 11)[:-1], id="a torn entry"),
        pytest.param(entry(0, 10, 11, version=1), id="another version"),
        pytest.param(entry(11, 10, 11), id="a transaction that ends before it begins"),
        pytest.param(entry(0, 10, 11) + entry(5, 10, 11), id="two markers at one offset"),
        pytest.param(entry(0, 10, 11) + entry(5, 9, 11), id="markers that descend"),
        pytest.param(entry(0, 10, 11) + entry(5, 12, 10), id="a last stable offset that falls"),
    ],
)
def test_what_cannot_be_an_index_is_not_taken_for_one(data: bytes) -> None:
    assert TransactionIndex.decode(data) is None
