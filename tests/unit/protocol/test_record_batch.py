"""Batches as views: found in a request, found after a crash, placed in a log, stamped by a broker."""

import pytest

from eagleray.protocol.errors import CorruptRecord, InvalidRecord, ProtocolError, UnsupportedMessageFormat
from eagleray.protocol.records import (
    PLACEMENT_BYTES,
    EndTransactionMarker,
    NewRecord,
    TimestampType,
    build_batch,
    build_marker,
    decode_header,
    place_in,
    placed_prefix,
    scan_batches,
    split_batches,
    stamp_append_time,
)
from eagleray.protocol.records.control import decode_marker
from tests.unit.protocol.forge import forge, forge_bytes

FIRST = build_batch([NewRecord(b"one", b"k", 10), NewRecord(b"two", None, 12)], base_offset=0)
SECOND = build_batch([NewRecord(None, b"k", 13)], base_offset=2, producer_id=4, producer_epoch=0, base_sequence=0)
THIRD = build_marker(EndTransactionMarker(True, 3), producer_id=4, producer_epoch=0, timestamp_ms=14, base_offset=3)
LOG = FIRST + SECOND + THIRD
BOUNDARIES = [0, len(FIRST), len(FIRST + SECOND), len(LOG)]
# A leader writes these fields after the CRC was made, so their damage is not for the CRC to find.
PLACED_BYTES = {*range(8), *range(12, 16)}


def test_a_buffer_is_split_without_copying():
    buffer = bytearray(LOG)
    batches = split_batches(buffer)
    assert [bytes(batch.view) for batch in batches] == [FIRST, SECOND, THIRD]
    buffer[:8] = (77).to_bytes(8)
    assert decode_header(batches[0].view).base_offset == 77


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_will_do(kind):
    assert [batch.header.base_offset for batch in split_batches(kind(LOG))] == [0, 2, 3]
    assert scan_batches(kind(LOG)).valid_length == len(LOG)


def test_nothing_splits_into_nothing():
    assert split_batches(b"") == []


@pytest.mark.parametrize("cut", range(1, len(LOG)))
def test_split_takes_whole_batches_only(cut):
    if cut in BOUNDARIES:
        assert len(split_batches(LOG[:cut])) == BOUNDARIES.index(cut)
    else:
        with pytest.raises(CorruptRecord):
            split_batches(LOG[:cut])


@pytest.mark.parametrize("cut", range(len(LOG) + 1))
def test_scan_keeps_whole_batches_and_says_what_is_missing(cut):
    scan = scan_batches(LOG[:cut])
    whole = max(index for index, boundary in enumerate(BOUNDARIES) if boundary <= cut)
    assert scan.valid_length == BOUNDARIES[whole]
    assert len(scan.batches) == whole
    assert (scan.stopped_by is None) == (cut == scan.valid_length) == (scan.missing_bytes == 0)
    if scan.missing_bytes:
        more = scan_batches(LOG[: cut + scan.missing_bytes])
        assert more.valid_length > scan.valid_length or more.missing_bytes > 0


@pytest.mark.parametrize("position", range(len(FIRST)))
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_found_unless_a_leader_writes_it(position, flip):
    damaged = bytearray(LOG)
    damaged[position] ^= flip
    if position in PLACED_BYTES:
        assert split_batches(damaged)[0].records()[0].value == b"one"
        assert scan_batches(damaged).valid_length == len(LOG)
        return
    with pytest.raises(ProtocolError):
        split_batches(damaged)
    scan = scan_batches(damaged)
    assert (scan.batches, scan.valid_length) == ([], 0)
    assert scan.stopped_by


def test_scan_stops_at_the_first_damage_even_when_more_follows():
    damaged = bytearray(LOG)
    damaged[BOUNDARIES[1] + 30] ^= 1
    scan = scan_batches(damaged)
    assert scan.valid_length == BOUNDARIES[1]
    assert "CRC" in (scan.stopped_by or "")
    assert scan.missing_bytes == 0


def test_scan_starts_where_it_is_told():
    scan = scan_batches(LOG, BOUNDARIES[1])
    assert [batch.header.base_offset for batch in scan.batches] == [2, 3]
    assert scan.valid_length == len(LOG)


def test_scan_can_trust_the_checksums():
    damaged = bytearray(LOG)
    damaged[-1] ^= 1
    assert scan_batches(damaged, verify_crc=False).valid_length == len(LOG)
    assert len(split_batches(damaged, verify_crc=False)) == 3


def test_a_tail_of_zeros_is_not_a_batch():
    scan = scan_batches(LOG + bytes(4096))
    assert scan.valid_length == len(LOG)
    assert scan.missing_bytes == 0


def test_old_message_sets_stop_a_scan_and_fail_a_split():
    old = forge_bytes(magic=1)
    assert "magic 1" in (scan_batches(LOG + old).stopped_by or "")
    with pytest.raises(UnsupportedMessageFormat):
        split_batches(LOG + old)


def test_a_wrong_checksum_shows_both_values():
    (batch,) = split_batches(FIRST)
    damaged = bytearray(FIRST)
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecord, match=f"{batch.header.crc:#010x}.*0x"):
        split_batches(damaged)


@pytest.mark.parametrize("length", [2**31 - 1, 2**31 - 13, len(FIRST) - 11])
def test_a_length_that_the_buffer_cannot_hold_allocates_nothing(length):
    huge = forge_bytes(FIRST[61:], batch_length=length)
    with pytest.raises(CorruptRecord, match="ends at"):
        split_batches(huge)
    scan = scan_batches(huge)
    assert scan.valid_length == 0
    assert scan.missing_bytes == length + 12 - len(huge)


def test_placing_changes_only_what_the_checksum_does_not_cover():
    (batch,) = split_batches(FIRST)
    placed = placed_prefix(batch.header, 1234, 5) + bytes(batch.view[PLACEMENT_BYTES:])
    (again,) = split_batches(placed)
    assert (again.header.base_offset, again.header.partition_leader_epoch) == (1234, 5)
    assert [record.offset for record in again.records()] == [1234, 1235]

    buffer = bytearray(LOG)
    place_in(buffer, BOUNDARIES[1], 2**40, 9)
    second = split_batches(buffer)[1]
    assert (second.header.base_offset, second.header.partition_leader_epoch) == (2**40, 9)
    place_in(memoryview(buffer), 0, 1234, 5)
    assert buffer.startswith(placed)


def test_append_time_is_that_of_every_record():
    (batch,) = split_batches(FIRST)
    (stamped,) = split_batches(stamp_append_time(batch, 5_000))
    assert stamped.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert stamped.header.max_timestamp == 5_000
    assert [record.timestamp for record in stamped.records()] == [5_000, 5_000]
    assert [record.timestamp for record in batch.records()] == [10, 12]
    assert [record.value for record in stamped.records()] == [b"one", b"two"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_back(commit):
    marker = EndTransactionMarker(commit, 2**31 - 1)
    data = build_marker(marker, producer_id=2**40, producer_epoch=32767, timestamp_ms=1, base_offset=8, leader_epoch=2)
    (batch,) = split_batches(data)
    assert batch.end_transaction_marker() == marker
    assert batch.header.is_control
    assert batch.header.is_transactional
    assert batch.header.base_sequence == -1
    assert (batch.header.producer_id, batch.header.producer_epoch) == (2**40, 32767)
    assert (batch.header.base_offset, batch.header.partition_leader_epoch) == (8, 2)


def test_a_batch_of_records_has_no_marker():
    with pytest.raises(InvalidRecord, match="not a control batch"):
        split_batches(FIRST)[0].end_transaction_marker()


CONTROL = 0x20


@pytest.mark.parametrize("control_type", [-1, 2, 3, 32767])
def test_other_control_types_are_tolerated(control_type):
    key = b"\x00\x00" + control_type.to_bytes(2, signed=True)
    batch = forge(b"\x14\x00\x00\x00\x08" + key + b"\x00\x00", attributes=CONTROL)
    assert batch.end_transaction_marker() is None


@pytest.mark.parametrize(
    "record",
    [
        b"\x0c\x00\x00\x00\x01\x01\x00",  # no key
        b"\x10\x00\x00\x00\x04\x00\x00\x01\x00",  # a key of two bytes
        b"\x14\x00\x00\x00\x08\xff\xff\x00\x01\x01\x00",  # a negative key version
        b"\x14\x00\x00\x00\x08\x00\x00\x00\x01\x01\x00",  # no value
        b"\x1e\x00\x00\x00\x08\x00\x00\x00\x01\x0a\x00\x00\x00\x00\x00\x00",  # a value of five bytes
        b"\x20\x00\x00\x00\x08\x00\x00\x00\x01\x0c\xff\xff\x00\x00\x00\x00\x00",  # a negative value version
    ],
)
def test_a_marker_that_cannot_be_read_is_invalid(record):
    with pytest.raises(InvalidRecord):
        forge(record, attributes=CONTROL).end_transaction_marker()


def test_a_marker_of_a_later_version_may_have_more_fields():
    record = b"\x26\x00\x00\x00\x08\x00\x05\x00\x01\x12\x00\x05\x00\x00\x00\x09abc\x00"
    assert forge(record, attributes=CONTROL).end_transaction_marker() == EndTransactionMarker(True, 9)


def test_a_control_batch_holds_one_record():
    record = b"\x14\x00\x00\x00\x08\x00\x00\x00\x01\x01\x00"
    with pytest.raises(InvalidRecord, match="2 records"):
        forge(record * 2, attributes=CONTROL, record_count=2, last_offset_delta=1).end_transaction_marker()


@pytest.mark.parametrize("position", range(21, len(THIRD)))
def test_the_short_way_to_a_marker_leads_where_the_long_one_does(position):
    """A byte that changes makes it another marker, another record or none; both ways have to agree on which."""
    for mask in (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF):
        data = bytearray(THIRD)
        data[position] ^= mask
        (batch,) = split_batches(data, verify_crc=False)
        if batch.header.is_control:
            assert outcome(batch.end_transaction_marker) == outcome(lambda batch=batch: marker_of_record(batch))


def marker_of_record(batch):
    (record,) = batch.records()
    return decode_marker(record.key, record.value)


def outcome(read):
    try:
        return read()
    except (ProtocolError, ValueError):
        return "refused"
