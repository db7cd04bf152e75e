"""The index of aborted transactions: what it finds, and how little it looks at to find it."""

from array import array
from collections.abc import Callable, Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagleray.broker.log.transaction_index import AbortedTransaction, TransactionIndex

PRODUCERS = 6


def play(events: Iterable[tuple[int, int, bool]]) -> list[AbortedTransaction]:
    """Return the aborted transactions of a partition in which producers begin and end in any order.

    An event is a producer who begins or, having begun, ends, the offsets between, and whether an end is a commit.
    Some transactions stay open for long, so that the last stable offset stands still while others come and go.
    """
    entries: list[AbortedTransaction] = []
    opened: dict[int, int] = {}
    offset = 0
    for producer_id, skipped, commits in events:
        offset += skipped
        if producer_id not in opened:
            opened[producer_id] = offset
        else:
            first_offset = opened.pop(producer_id)
            last_stable_offset = min(opened.values(), default=offset + 1)
            if not commits:
                entries.append(AbortedTransaction(producer_id, first_offset, offset, last_stable_offset))
        offset += 1
    return entries


histories = st.lists(st.tuples(st.integers(0, PRODUCERS - 1), st.integers(0, 3), st.booleans()), max_size=120).map(play)


def index_of(entries: list[AbortedTransaction]) -> TransactionIndex:
    index = TransactionIndex()
    for entry in entries:
        index.add(entry)
    return index


def walk(
    entries: list[AbortedTransaction], start_offset: int, end_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """Look at every entry from the first on, until one says that all below `end_offset` was decided."""
    found: list[AbortedTransaction] = []
    for entry in entries:
        if entry.last_offset >= start_offset and entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return found, True
    return found, False


@given(histories, st.data())
def test_a_search_equals_a_walk(entries: list[AbortedTransaction], data: st.DataObject) -> None:
    built = index_of(entries)
    loaded = TransactionIndex.decode(built.take_unwritten())
    assert loaded is not None
    last_offset = max((entry.last_offset for entry in entries), default=0)
    start_offset = data.draw(st.integers(0, last_offset + 2))
    end_offset = data.draw(st.integers(start_offset + 1, last_offset + 4))
    for index in (built, loaded):
        search = index.search(start_offset, end_offset)
        assert (search.transactions, search.is_complete) == walk(entries, start_offset, end_offset)


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_a_search_equals_a_walk_over_thousands(seed: int) -> None:
    random = Random(seed)
    rare = PRODUCERS * 300
    events = [
        (
            rare + random.randrange(3) if random.random() < 0.002 else random.randrange(PRODUCERS),
            random.randrange(3),
            False,
        )
        for _ in range(4_000)
    ]
    entries = play(events)
    index = index_of(entries)
    last_offset = entries[-1].last_offset
    for _ in range(40):
        start_offset = random.randrange(last_offset)
        end_offset = start_offset + 1 + random.choice([0, 10, 500, last_offset])
        search = index.search(start_offset, end_offset)
        assert (search.transactions, search.is_complete) == walk(entries, start_offset, end_offset)


@given(histories, st.data())
def test_a_search_of_two_segments_finds_what_one_would(entries: list[AbortedTransaction], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    last_offset = max((entry.last_offset for entry in entries), default=0)
    start_offset = data.draw(st.integers(0, last_offset + 1))
    end_offset = data.draw(st.integers(start_offset + 1, last_offset + 2))
    first = index_of(entries[:cut]).search(start_offset, end_offset)
    found = list(first.transactions)
    if not first.is_complete:
        found += index_of(entries[cut:]).search(start_offset, end_offset).transactions
    assert found == walk(entries, start_offset, end_offset)[0]


# How much is looked at


class CountingArray(array):
    """An array that counts how often an element of it is read, by bisection in C as well."""

    reads = 0

    def __getitem__(self, position):
        type(self).reads += 1
        return super().__getitem__(position)


def reads_of(index: TransactionIndex, start_offset: int, end_offset: int) -> tuple[int, int]:
    """Return how many elements of the index's arrays a search reads, and how many transactions it finds."""
    for name in TransactionIndex.__slots__:
        value = getattr(index, name)
        if isinstance(value, array):
            setattr(index, name, CountingArray(value.typecode, value))
        elif isinstance(value, list):
            setattr(index, name, [CountingArray(level.typecode, level) for level in value])
    CountingArray.reads = 0
    found = index.search(start_offset, end_offset).transactions
    return CountingArray.reads, len(found)


def one_after_another(count: int) -> list[AbortedTransaction]:
    return [AbortedTransaction(1, 2 * number, 2 * number + 1, 2 * number + 2) for number in range(count)]


def behind_one_that_stays_open(count: int) -> list[AbortedTransaction]:
    """Offset 0 belongs to a transaction that is aborted last; all others began and ended meanwhile."""
    meanwhile = [AbortedTransaction(1, 2 * number + 1, 2 * number + 2, 0) for number in range(count - 1)]
    return [*meanwhile, AbortedTransaction(2, 0, 2 * count - 1, 2 * count)]


SMALL, LARGE = 1_000, 64_000


@pytest.mark.parametrize("history", [one_after_another, behind_one_that_stays_open])
@pytest.mark.parametrize("place", [0.0, 0.21, 0.5, 0.87])
def test_a_search_looks_at_few_entries_however_many_there_are(
    history: Callable[[int], list[AbortedTransaction]], place: float
) -> None:
    def reads(count: int) -> int:
        start_offset = int(place * 2 * count)
        looked_at, found = reads_of(index_of(history(count)), start_offset, start_offset + 5)
        assert 2 <= found <= 4
        return looked_at

    small, large = reads(SMALL), reads(LARGE)
    # Sixty-four times the entries add six steps to each bisection and two levels of sixteen runs, up and down.
    assert large <= small + 200
    assert large < LARGE / 50
    assert small > 10, "nothing was counted"
