"""One file of batches and its indexes."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from eagleray.broker.filesystem import FileSystem, LocalFileSystem
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.segment import Segment
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.records import RecordBatch
from tests.support.batches import NOW_MS, data_batch, placed
from tests.support.faults import Fault, Operation, Outcome
from tests.support.simulated_disk import SimulatedDisk

BASE_OFFSET = 1000
BATCH_BYTES = data_batch().header.size_bytes


def open_segment(directory: str, *, interval: int = 0, file_system: FileSystem | None = None) -> Segment:
    return Segment(
        file_system or LocalFileSystem(), directory, BASE_OFFSET, index_interval_bytes=interval, created_ms=NOW_MS
    )


def fill(segment: Segment, batches: Sequence[RecordBatch]) -> None:
    """Append batches that have their offsets, as a log does."""
    for batch in batches:
        header = batch.header
        segment.note_batch(segment.size_bytes, header.size_bytes, header.last_offset, header.max_timestamp)
        segment.append([batch.view], header.size_bytes)


def batches_at(*offsets: int, count: int = 1, first_timestamp_ms: int = NOW_MS) -> list[RecordBatch]:
    return [
        placed(data_batch(count, timestamps_ms=[first_timestamp_ms + number] * count), offset, 0)
        for number, offset in enumerate(offsets)
    ]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path)


def test_a_new_segment_is_an_empty_file(directory: str) -> None:
    segment = open_segment(directory)
    assert os.listdir(directory) == ["00000000000000001000.log"]
    assert segment.size_bytes == 0
    assert segment.locate(BASE_OFFSET) is None
    assert segment.last_location() is None
    assert (segment.first_timestamp_ms, segment.largest_timestamp_ms) == (-1, -1)
    segment.close()


@pytest.mark.parametrize("interval", [0, 2 * BATCH_BYTES, 10**6])
def test_every_offset_is_located_however_sparse_the_index(directory: str, interval: int) -> None:
    segment = open_segment(directory, interval=interval)
    fill(segment, batches_at(*range(1000, 1040, 2), count=2))
    size_bytes = segment.size_bytes // 20
    for offset in range(1000, 1040):
        location = segment.locate(offset)
        assert location is not None
        number = (offset - 1000) // 2
        assert (location.position, location.size_bytes) == (number * size_bytes, size_bytes)
        assert (location.base_offset, location.last_offset) == (1000 + 2 * number, 1001 + 2 * number)
        assert segment.batch_bytes(location) == segment.read(location.position, size_bytes)
    assert segment.locate(1040) is None
    last = segment.last_location()
    assert last is not None
    assert last.last_offset == 1039
    segment.close()


def test_offsets_that_compaction_removed_lead_to_the_next_batch(directory: str) -> None:
    segment = open_segment(directory)
    fill(segment, batches_at(1000, 1010, 1020))
    location = segment.locate(1003)
    assert location is not None
    assert location.base_offset == 1010
    assert segment.locate(1021) is None
    segment.close()


def test_a_search_can_begin_behind_a_position(directory: str) -> None:
    segment = open_segment(directory, interval=10**6)
    fill(segment, batches_at(1000, 1001, 1002))
    location = segment.locate(1000, from_position=BATCH_BYTES)
    assert location is not None
    assert location.base_offset == 1001
    segment.close()


def test_an_entry_is_added_once_more_than_the_interval_lies_behind_the_last(directory: str) -> None:
    segment = open_segment(directory, interval=2 * BATCH_BYTES)
    fill(segment, batches_at(*range(1000, 1010)))
    # The batches at positions 3, 6 and 9: two batches are not more than the interval, three are.
    assert len(segment.offset_index) == 3
    assert segment.offset_index.entry_at_or_before(1003)[1] == 3 * BATCH_BYTES
    assert segment.offset_index.entry_at_or_before(1005)[1] == 3 * BATCH_BYTES
    assert segment.offset_index.entry_at_or_before(1009)[1] == 9 * BATCH_BYTES
    assert segment.index_bytes == 3 * 12
    segment.close()


def test_batches_larger_than_what_is_read_at_once_are_stepped_over(directory: str) -> None:
    segment = open_segment(directory, interval=10**6)
    fill(segment, [placed(data_batch(value=b"x" * size), 1000 + size, 0) for size in (10, 8_000, 8_192, 30_000, 5)])
    assert [header.base_offset - 1000 for _, header in segment.headers()] == [10, 8_000, 8_192, 30_000, 5]
    segment.close()


def test_timestamps_are_those_of_the_first_batch_and_the_largest(directory: str) -> None:
    segment = open_segment(directory)
    stamps = [NOW_MS, NOW_MS + 9, NOW_MS + 4, NOW_MS + 9]
    fill(segment, [placed(data_batch(timestamps_ms=[stamp]), 1000 + at, 0) for at, stamp in enumerate(stamps)])
    assert segment.first_timestamp_ms == NOW_MS
    assert (segment.largest_timestamp_ms, segment.offset_of_largest_timestamp) == (NOW_MS + 9, 1001)
    segment.close()


def test_indexes_are_written_and_read_back(directory: str) -> None:
    segment = open_segment(directory, interval=2 * BATCH_BYTES)
    fill(segment, batches_at(*range(1000, 1010)))
    aborted = AbortedTransaction(7, 1001, 1004, 1005)
    segment.transaction_index.add(aborted)
    segment.write_indexes()
    segment.close()
    assert sorted(os.listdir(directory)) == [
        "00000000000000001000.checksums",
        "00000000000000001000.index",
        "00000000000000001000.log",
        "00000000000000001000.timeindex",
        "00000000000000001000.txnindex",
    ]
    again = open_segment(directory, interval=2 * BATCH_BYTES)
    assert again.load_indexes()
    assert len(again.offset_index) == 3
    assert again.offset_index.entry_at_or_before(1009)[1] == 9 * BATCH_BYTES
    assert (again.largest_timestamp_ms, again.offset_of_largest_timestamp) == (NOW_MS + 9, 1009)
    assert again.first_timestamp_ms == NOW_MS
    assert [again.transaction_index[number] for number in range(len(again.transaction_index))] == [aborted]
    again.close()


def test_checksums_of_another_segment_do_not_hide_aborted_transactions(directory: str) -> None:
    other, path = open_segment(directory), f"{directory}/00000000000000001000.checksums"
    other.write_indexes()
    checksums = Path(path).read_bytes()
    other.remove()

    segment = open_segment(directory)
    fill(segment, batches_at(*range(1000, 1010)))
    segment.transaction_index.add(AbortedTransaction(7, 1001, 1004, 1005))
    segment.write_indexes()
    segment.close()
    Path(path).write_bytes(checksums)
    again = open_segment(directory)
    assert not again.load_indexes()
    again.close()


def test_without_aborted_transactions_there_is_no_file_for_them(directory: str) -> None:
    segment = open_segment(directory)
    fill(segment, batches_at(1000))
    segment.write_indexes()
    segment.close()
    assert not any(name.endswith(".txnindex") for name in os.listdir(directory))
    again = open_segment(directory)
    assert again.load_indexes()
    assert len(again.transaction_index) == 0
    again.close()


def test_the_time_index_ends_with_the_largest_timestamp(directory: str) -> None:
    segment = open_segment(directory, interval=10**6)
    fill(segment, batches_at(1000, 1001, 1002))
    assert len(segment.time_index) == 0
    segment.write_indexes()
    assert (segment.time_index.largest_timestamp_ms, len(segment.time_index)) == (NOW_MS + 2, 1)
    segment.write_indexes()
    assert len(segment.time_index) == 1
    segment.close()


def test_records_without_timestamps_leave_the_time_index_empty(directory: str) -> None:
    segment = open_segment(directory, interval=10**6)
    fill(segment, [placed(data_batch(timestamps_ms=[-1]), 1000, 0)])
    segment.write_indexes()
    assert len(segment.time_index) == 0
    segment.close()


def index_file(directory: str, suffix: str) -> Path:
    return Path(directory) / f"00000000000000001000{suffix}"


def closed_segment(directory: str) -> None:
    segment = open_segment(directory)
    fill(segment, batches_at(*range(1000, 1010)))
    segment.transaction_index.add(AbortedTransaction(7, 1001, 1004, 1005))
    segment.write_indexes()
    segment.close()


def test_a_segment_without_its_offset_index_is_scanned(directory: str) -> None:
    closed_segment(directory)
    index_file(directory, ".index").unlink()
    segment = open_segment(directory)
    assert not segment.load_indexes()
    segment.close()


def test_a_segment_with_a_damaged_transaction_index_is_scanned(directory: str) -> None:
    closed_segment(directory)
    path = index_file(directory, ".txnindex")
    path.write_bytes(path.read_bytes()[:-1])
    segment = open_segment(directory)
    assert not segment.load_indexes()
    segment.close()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["cut", "scrambled", "removed"])
def test_a_damaged_sparse_index_is_built_anew(directory: str, suffix: str, damage: str) -> None:
    closed_segment(directory)
    path = index_file(directory, suffix)
    good = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(good[:-1] if damage == "cut" else good[::-1])
    segment = open_segment(directory)
    if not segment.load_indexes():
        assert (suffix, damage) == (".index", "removed")
    else:
        assert segment.offset_index.entry_at_or_before(1005)[1] == 5 * BATCH_BYTES
        assert segment.time_index.offset_before(NOW_MS + 5) == 1004
        assert len(segment.transaction_index) == 1
        segment.write_indexes()
        assert path.read_bytes() == good
    segment.close()


def test_stepping_over_a_torn_batch_is_refused(directory: str) -> None:
    segment = open_segment(directory)
    fill(segment, batches_at(1000, 1001, 1002))
    segment.truncate(3 * BATCH_BYTES - 1)
    with pytest.raises(LogDamaged, match=f"no batch begins at byte {2 * BATCH_BYTES}"):
        list(segment.headers())
    segment.truncate(2 * BATCH_BYTES)
    assert segment.size_bytes == 2 * BATCH_BYTES
    segment.close()


def test_a_write_that_fails_halfway_is_cut_off_again() -> None:
    disk = SimulatedDisk()
    disk.make_directories("/log")
    segment = open_segment("/log", file_system=disk)
    first, second = batches_at(1000, 1001)
    fill(segment, [first])
    state = segment.state()
    full = Fault(Outcome.FAIL, on=Operation.WRITE, done_bytes=20, error_number=errno.ENOSPC)
    with disk.injected(full), pytest.raises(OSError, match="No space left"):
        segment.append([second.view], BATCH_BYTES)
    segment.undo_append(state, 1001)
    assert segment.size_bytes == BATCH_BYTES
    assert disk.tree()["/log/00000000000000001000.log"] == bytes(first.view)
    fill(segment, [second])
    assert disk.tree()["/log/00000000000000001000.log"] == bytes(first.view) + bytes(second.view)


def test_a_removed_segment_leaves_no_file(directory: str) -> None:
    closed_segment(directory)
    segment = open_segment(directory)
    segment.remove()
    assert os.listdir(directory) == []
