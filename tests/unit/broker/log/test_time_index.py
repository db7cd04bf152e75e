"""From a timestamp to an offset: the sparse time index."""

import struct

import pytest

from eagleray.broker.log.time_index import TimeIndex

BASE_OFFSET = 100


def index_of(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(BASE_OFFSET)
    for timestamp_ms, offset in entries:
        index.add(timestamp_ms, offset)
    return index


def test_without_entries_every_search_begins_at_the_start() -> None:
    index = TimeIndex(BASE_OFFSET)
    assert len(index) == 0
    assert index.largest_timestamp_ms == -1
    assert index.offset_of_largest_timestamp == BASE_OFFSET
    assert index.offset_before(5) == BASE_OFFSET


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"), [(9, 100), (10, 100), (11, 103), (20, 103), (21, 107), (30, 107), (31, 110), (99, 110)]
)
def test_a_search_begins_at_the_last_entry_that_is_older(timestamp_ms: int, offset: int) -> None:
    # A record at the offset of an entry can carry the entry's own timestamp, so an equal one is not skipped.
    assert index_of((10, 103), (20, 107), (30, 110)).offset_before(timestamp_ms) == offset


def test_the_last_entry_is_the_largest() -> None:
    index = index_of((10, 103), (20, 107))
    assert (index.largest_timestamp_ms, index.offset_of_largest_timestamp) == (20, 107)


@pytest.mark.parametrize("entry", [(20, 108), (19, 108), (21, 107), (21, 106)])
def test_what_does_not_ascend_is_left_out(entry: tuple[int, int]) -> None:
    index = index_of((20, 107))
    index.add(*entry)
    assert len(index) == 1
    assert (index.largest_timestamp_ms, index.offset_of_largest_timestamp) == (20, 107)


def test_the_file_is_kafkas() -> None:
    assert index_of((10, 103), (2**40, 107)).take_unwritten() == bytes.fromhex(
        "000000000000000a 00000003 0000010000000000 00000007"
    )


def test_only_new_entries_are_written() -> None:
    index = index_of((10, 103))
    first = index.take_unwritten()
    assert index.take_unwritten() == b""
    index.add(20, 107)
    second = index.take_unwritten()
    assert second == struct.pack(">qi", 20, 7)
    loaded = TimeIndex.decode(BASE_OFFSET, first + second)
    assert loaded is not None
    assert loaded.take_unwritten() == b""
    assert (len(loaded), loaded.largest_timestamp_ms, loaded.offset_before(15)) == (2, 20, 103)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x00" * 11, id="not whole entries"),
        pytest.param(struct.pack(">qiqi", 10, 3, 10, 4), id="the same timestamp twice"),
        pytest.param(struct.pack(">qiqi", 10, 3, 9, 4), id="timestamps that descend"),
        pytest.param(struct.pack(">qiqi", 10, 3, 11, 3), id="the same offset twice"),
        pytest.param(struct.pack(">qiqi", 10, 3, 0, 0), id="zeros behind the end, as of a file that was preallocated"),
    ],
)
def test_what_cannot_be_an_index_is_not_taken_for_one(data: bytes) -> None:
    assert TimeIndex.decode(BASE_OFFSET, data) is None
