"""From an offset to a position: the sparse offset index."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.log.offset_index import OffsetIndex

BASE_OFFSET = 100


def index_of(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(BASE_OFFSET)
    for offset, position in entries:
        index.add(offset, position)
    return index


def position_at_or_before(index: OffsetIndex, offset: int) -> int:
    entry = index.entry_at_or_before(offset)
    return 0 if entry is None else entry[1]


def test_without_entries_every_search_begins_at_the_start() -> None:
    index = OffsetIndex(BASE_OFFSET)
    assert len(index) == 0
    assert index.last_offset == BASE_OFFSET
    assert position_at_or_before(index, BASE_OFFSET + 7) == 0
    assert index.offset_past_position(0) is None


@pytest.mark.parametrize(
    ("offset", "position"), [(99, 0), (100, 0), (104, 0), (105, 40), (106, 40), (111, 40), (112, 90), (5000, 90)]
)
def test_the_last_entry_that_is_not_behind_the_offset_is_found(offset: int, position: int) -> None:
    assert position_at_or_before(index_of((105, 40), (112, 90)), offset) == position


@pytest.mark.parametrize(("position", "offset"), [(0, 105), (40, 105), (41, 112), (90, 112), (91, None)])
def test_the_first_entry_at_or_past_a_position_bounds_a_read(position: int, offset: int | None) -> None:
    assert index_of((105, 40), (112, 90)).offset_past_position(position) == offset


def test_the_file_is_kafkas() -> None:
    index = index_of((105, 40), (112, 90))
    assert index.take_unwritten() == bytes.fromhex("00000005 00000028 0000000c 0000005a")


def test_only_new_entries_are_written() -> None:
    index = index_of((105, 40))
    first = index.take_unwritten()
    assert index.take_unwritten() == b""
    index.add(112, 90)
    second = index.take_unwritten()
    assert second == struct.pack(">ii", 12, 90)
    loaded = OffsetIndex.decode(BASE_OFFSET, first + second)
    assert loaded is not None
    assert loaded.take_unwritten() == b""
    assert loaded.last_offset == 112


def test_a_loaded_index_goes_on_where_it_was() -> None:
    loaded = OffsetIndex.decode(BASE_OFFSET, index_of((105, 40)).take_unwritten())
    assert loaded is not None
    loaded.add(112, 90)
    assert loaded.take_unwritten() == struct.pack(">ii", 12, 90)
    assert position_at_or_before(loaded, 112) == 90


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00" * 7, id="not whole entries"),
        pytest.param(struct.pack(">4i", 5, 40, 5, 90), id="the same offset twice"),
        pytest.param(struct.pack(">4i", 5, 40, 4, 90), id="offsets that descend"),
        pytest.param(struct.pack(">4i", 5, 40, 6, 40), id="the same position twice"),
        pytest.param(struct.pack(">4i", 5, 40, 6, 30), id="positions that descend"),
        pytest.param(struct.pack(">2i", -1, 40), id="an offset below the base"),
        pytest.param(struct.pack(">2i", 1, -40), id="a position before the file"),
        pytest.param(struct.pack(">4i", 5, 40, 0, 0), id="zeros behind the end, as of a file that was preallocated"),
    ],
)
def test_what_cannot_be_an_index_is_not_taken_for_one(data: bytes) -> None:
    assert OffsetIndex.decode(BASE_OFFSET, data) is None


def test_an_empty_file_is_an_index() -> None:
    index = OffsetIndex.decode(BASE_OFFSET, b"")
    assert index is not None
    assert len(index) == 0


ascending_entries = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), max_size=20).map(
    lambda steps: [
        (BASE_OFFSET + sum(step for step, _ in steps[: number + 1]), sum(size for _, size in steps[: number + 1]))
        for number in range(len(steps))
    ]
)


@given(ascending_entries, st.integers(BASE_OFFSET - 2, BASE_OFFSET + 200), st.integers(0, 1100))
def test_lookups_equal_a_walk_over_the_entries(entries: list[tuple[int, int]], offset: int, position: int) -> None:
    built = index_of(*entries)
    loaded = OffsetIndex.decode(BASE_OFFSET, built.take_unwritten())
    assert loaded is not None
    for index in (built, loaded):
        assert position_at_or_before(index, offset) == max((at for last, at in entries if last <= offset), default=0)
        assert index.offset_past_position(position) == min(
            (last for last, at in entries if at >= position), default=None
        )
