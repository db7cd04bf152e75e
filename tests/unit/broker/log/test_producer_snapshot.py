"""Producer state as a file in Kafka's format."""

import struct

import pytest
from crc32c import crc32c

from eagleray.broker.log.producer_entry import LAST_SEQUENCE, CachedBatch, ProducerEntry
from eagleray.broker.log.producer_snapshot import decode_snapshot, encode_snapshot
from eagleray.broker.log.producer_state import Origin, ProducerState
from eagleray.protocol.records import EndTransactionMarker
from tests.support.batches import NOW_MS, data_header, marker_header


def reloaded(state: ProducerState) -> ProducerState:
    entries = decode_snapshot(encode_snapshot(state))
    assert entries is not None
    return ProducerState(entries)


def test_the_file_is_kafkas() -> None:
    state = ProducerState()
    state.apply_data(data_header(7, epoch=2, sequence=10, count=3, transactional=True), 100, NOW_MS)
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 2, 12, 102, 2, NOW_MS, -1, 100)
    assert encode_snapshot(state) == struct.pack(">hI", 1, crc32c(body)) + body


def test_no_producers_are_a_snapshot_too() -> None:
    assert decode_snapshot(encode_snapshot([])) == []


def test_everything_but_older_batches_comes_back() -> None:
    state = ProducerState()
    state.apply_data(data_header(7, sequence=0), 0, NOW_MS)
    state.apply_data(data_header(7, sequence=1, count=4, transactional=True), 1, NOW_MS)
    state.apply_data(data_header(8, epoch=3, sequence=5), 5, NOW_MS)
    state.apply_marker(marker_header(8, epoch=3, timestamp_ms=NOW_MS + 9), EndTransactionMarker(True, 12), 6, NOW_MS)
    again = reloaded(state)
    first, second = again
    assert (first.producer_id, first.epoch, first.coordinator_epoch, first.open_since_offset) == (7, 0, -1, 1)
    assert first.batches == [CachedBatch(1, 4, 1, 4, NOW_MS)]
    assert (second.producer_id, second.epoch, second.coordinator_epoch, second.open_since_offset) == (8, 3, 12, -1)
    assert second.last_timestamp_ms == NOW_MS + 9
    assert again.unstable.first_undecided_offset == 1
    assert again.check_data(data_header(7, sequence=5, transactional=True), Origin.CLIENT, NOW_MS) is None


def test_a_producer_that_only_got_a_marker_comes_back() -> None:
    state = ProducerState()
    state.apply_marker(marker_header(7, epoch=4), EndTransactionMarker(False, 2), 0, NOW_MS)
    (entry,) = reloaded(state)
    assert (entry.epoch, entry.coordinator_epoch, entry.batches, entry.next_sequence) == (4, 2, [], 0)


@pytest.mark.parametrize(
    ("sequence", "count"), [(0, 1), (LAST_SEQUENCE, 1), (LAST_SEQUENCE, 2), (LAST_SEQUENCE - 2, 5), (-1, 3)]
)
def test_the_first_sequence_is_found_from_the_last(sequence: int, count: int) -> None:
    state = ProducerState()
    header = data_header(7, sequence=sequence, count=count)
    state.apply_data(header, 50, NOW_MS)
    (entry,) = reloaded(state)
    assert entry.batches == [CachedBatch(sequence, header.last_sequence, 50, 49 + count, NOW_MS)]


def test_the_last_batch_is_still_recognised_when_it_is_repeated() -> None:
    state = ProducerState()
    header = data_header(7, sequence=LAST_SEQUENCE - 1, count=4)
    state.apply_data(header, 50, NOW_MS)
    assert reloaded(state).check_data(header, Origin.CLIENT, NOW_MS) == CachedBatch(
        LAST_SEQUENCE - 1, 1, 50, 53, NOW_MS
    )


def test_a_batch_at_offset_zero_is_not_mistaken_for_none() -> None:
    state = ProducerState()
    state.apply_data(data_header(7), 0, NOW_MS)
    (entry,) = reloaded(state)
    assert len(entry.batches) == 1


def snapshot() -> bytes:
    entry = ProducerEntry(7, 1)
    entry.remember(CachedBatch(0, 4, 10, 14, NOW_MS))
    return encode_snapshot([entry, ProducerEntry(8, 0)])


@pytest.mark.parametrize("position", range(len(snapshot())))
def test_a_changed_byte_anywhere_is_noticed(position: int) -> None:
    data = bytearray(snapshot())
    data[position] ^= 0x40
    assert decode_snapshot(bytes(data)) is None


def test_a_torn_file_is_noticed_at_every_length() -> None:
    data = snapshot()
    assert decode_snapshot(data) is not None
    assert [length for length in range(len(data)) if decode_snapshot(data[:length]) is not None] == []
    assert decode_snapshot(data + b"\x00") is None


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_does_not_fit_the_file_is_noticed(count: int) -> None:
    body = struct.pack(">i", count) + snapshot()[10:]
    assert decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body) is None


@pytest.mark.parametrize("version", [0, 2, -1])
def test_another_version_is_not_read(version: int) -> None:
    assert decode_snapshot(struct.pack(">h", version) + snapshot()[2:]) is None
