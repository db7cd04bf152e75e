"""The header of a batch: every field at its place, every refusal for its reason."""

import struct

import pytest

from eagleray.protocol.errors import CorruptRecord, UnsupportedCompression, UnsupportedMessageFormat
from eagleray.protocol.records import HEADER_BYTES, CompressionType, TimestampType, decode_header
from tests.unit.protocol.forge import forge, forge_bytes

MAX_INT32 = 2**31 - 1


def test_every_field_is_read_from_its_place():
    data = forge_bytes(
        b"12345",
        base_offset=2**40,
        leader_epoch=7,
        attributes=0x10,
        last_offset_delta=4,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_009,
        producer_id=2**50,
        producer_epoch=11,
        base_sequence=99,
        record_count=5,
    )
    header = decode_header(b"junk" + data, 4)
    assert header.base_offset == int.from_bytes(data[0:8]) == 2**40
    assert header.batch_length == int.from_bytes(data[8:12]) == 54
    assert header.partition_leader_epoch == int.from_bytes(data[12:16]) == 7
    assert header.magic == data[16] == 2
    assert header.crc == int.from_bytes(data[17:21])
    assert header.attributes == int.from_bytes(data[21:23]) == 0x10
    assert header.last_offset_delta == int.from_bytes(data[23:27]) == 4
    assert header.base_timestamp == int.from_bytes(data[27:35]) == 1_700_000_000_000
    assert header.max_timestamp == int.from_bytes(data[35:43]) == 1_700_000_000_009
    assert header.producer_id == int.from_bytes(data[43:51]) == 2**50
    assert header.producer_epoch == int.from_bytes(data[51:53]) == 11
    assert header.base_sequence == int.from_bytes(data[53:57]) == 99
    assert header.record_count == int.from_bytes(data[57:61]) == 5
    assert header.size_bytes == len(data)
    assert header.last_offset == 2**40 + 4
    assert header.next_offset == 2**40 + 5


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [
        (0, 0, 0),
        (5, 9, 14),
        (MAX_INT32, 0, MAX_INT32),
        (MAX_INT32, 1, 0),
        (MAX_INT32 - 1, 3, 1),
        (-1, 4, -1),
    ],
)
def test_sequences_go_on_at_zero_after_the_largest(base, delta, last):
    assert forge(base_sequence=base, last_offset_delta=delta).header.last_sequence == last


def test_attributes_have_names():
    plain = forge().header
    assert (plain.compression, plain.timestamp_type) == (CompressionType.NONE, TimestampType.CREATE_TIME)
    assert not plain.is_transactional
    assert not plain.is_control
    assert not plain.has_delete_horizon
    assert plain.delete_horizon_ms is None
    full = forge(attributes=0x7C, base_timestamp=77).header
    assert (full.compression, full.timestamp_type) == (CompressionType.ZSTD, TimestampType.LOG_APPEND_TIME)
    assert full.is_transactional
    assert full.is_control
    assert full.has_delete_horizon
    assert full.delete_horizon_ms == 77


@pytest.mark.parametrize(("producer_id", "expected"), [(-1, False), (0, True), (2**60, True)])
def test_producer_id_zero_is_a_producer(producer_id, expected):
    assert forge(producer_id=producer_id).header.has_producer_id is expected


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_named(codec):
    with pytest.raises(UnsupportedCompression, match=str(codec)):
        _ = forge(attributes=codec).header.compression


@pytest.mark.parametrize("length", range(HEADER_BYTES))
def test_a_header_that_ends_early_is_corrupt(length):
    with pytest.raises(CorruptRecord, match="too few"):
        decode_header(forge_bytes(b"records")[:length])


def test_a_position_past_the_end_is_corrupt():
    with pytest.raises(CorruptRecord, match="too few"):
        decode_header(forge_bytes(), 1000)


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 1, 48])
def test_a_length_that_no_batch_has_is_corrupt(length):
    with pytest.raises(CorruptRecord, match="length"):
        decode_header(forge_bytes(batch_length=length))


@pytest.mark.parametrize("magic", [-128, -1, 3, 127])
def test_a_magic_that_does_not_exist_is_corrupt(magic):
    with pytest.raises(CorruptRecord, match="magic"):
        decode_header(forge_bytes(magic=magic))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_are_refused_by_name(magic):
    timestamp = b"" if magic == 0 else bytes(8)
    message = struct.pack(">Ibb", 0, magic, 0) + timestamp + struct.pack(">i1si5s", 1, b"k", 5, b"value")
    message_set = struct.pack(">qi", 0, len(message)) + message
    assert len(message_set) < HEADER_BYTES
    with pytest.raises(UnsupportedMessageFormat, match=f"magic {magic}"):
        decode_header(message_set)
    with pytest.raises(UnsupportedMessageFormat, match=f"magic {magic}"):
        decode_header(message_set * 10)


def test_zeros_are_damage_and_no_old_message_set():
    with pytest.raises(CorruptRecord):
        decode_header(bytes(1000))
