"""Single records and their varints, from bytes that are right and bytes that are not."""

import pytest

from eagleray.protocol.errors import InvalidRecord
from eagleray.protocol.records import NewRecord, Record, build_batch, split_batches
from eagleray.protocol.records.record import decode_records, encode_record
from eagleray.protocol.records.varint import decode_longer, decode_varint, encode_varint
from tests.unit.protocol.forge import forge

# Numbers and their encodings, as in the specification of protocol buffers' sint32 and sint64.
VARINTS = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    1023: "fe0f",
    1024: "8010",
    2**31 - 1: "feffffff0f",
    -(2**31): "ffffffff0f",
}
VARLONGS = {2**31: "8080808010", 2**63 - 1: "feffffffffffffffff01", -(2**63): "ffffffffffffffffff01"}


@pytest.mark.parametrize(("number", "encoded"), VARINTS.items())
def test_a_varint_has_its_known_bytes(number, encoded):
    assert encode_varint(number).hex() == encoded
    assert decode_varint(bytes.fromhex("ee" + encoded + "ee"), 1) == (number, 1 + len(encoded) // 2)


@pytest.mark.parametrize(("number", "encoded"), VARLONGS.items())
def test_a_varlong_has_its_known_bytes(number, encoded):
    data = bytes.fromhex(encoded)
    assert encode_varint(number) == data
    assert decode_longer(data, 1, 64) == (number, len(data))
    with pytest.raises(InvalidRecord, match="more than 32 bits"):
        decode_varint(data, 0)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_more_than_64_bits_are_not_encoded(number):
    with pytest.raises(ValueError, match="64 bits"):
        encode_varint(number)


@pytest.mark.parametrize("encoded", ["8080808080", "ffffffff1f", "ffffffffffff", "808080808000"])
def test_a_varint_ends_after_32_bits(encoded):
    with pytest.raises(InvalidRecord, match="more than 32 bits"):
        decode_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["80" * 10, "ff" * 9 + "02", "80" * 10 + "00", "ff" * 30])
def test_a_varlong_ends_after_64_bits(encoded):
    with pytest.raises(InvalidRecord, match="more than 64 bits"):
        decode_longer(bytes.fromhex(encoded), 1, 64)


def test_a_varint_may_be_longer_than_it_needs():
    assert decode_varint(b"\x82\x80\x00", 0) == (1, 3)


def read(block: bytes, count: int = 1, **fields: int) -> list[Record]:
    return forge(block, record_count=count, last_offset_delta=count - 1, **fields).records()


def test_a_record_has_its_known_bytes():
    # length, attributes, timestamp delta, offset delta, key, value, headers
    block = bytes.fromhex("2c 00 04 00 06 6b6579 0a 76616c7565 04 02 61 01 04 6262 02 7a".replace(" ", ""))
    expected = Record(7, 1002, b"key", b"value", (("a", None), ("bb", b"z")))
    assert read(block, base_offset=7, base_timestamp=1000) == [expected]
    assert encode_record(0, 2, b"key", b"value", (("a", None), ("bb", b"z"))) == block


def test_null_is_not_empty():
    (batch,) = split_batches(build_batch([NewRecord(None), NewRecord(b"", b"")]))
    nothing, empty = batch.records()
    assert (nothing.key, nothing.value, nothing.headers) == (None, None, ())
    assert (empty.key, empty.value) == (b"", b"")


def test_the_attributes_of_a_record_are_not_looked_at():
    assert read(b"\x0c\xff\x00\x00\x01\x01\x00") == [Record(0, 0, None, None)]


def test_a_header_name_that_is_not_utf_8_survives():
    block = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    (record,) = read(block)
    assert record.headers == (("\udcff", None),)
    assert encode_record(0, 0, None, None, record.headers) == block


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 1023, 1024, 8191, 8192, 70_000])
def test_lengths_around_the_widths_of_varints(size):
    new = NewRecord(b"v" * size, b"k" * size, size, (("h" * size, b"x" * size),))
    (batch,) = split_batches(build_batch([new, new]))
    assert batch.records()[1] == Record(1, size, new.key, new.value, new.headers)


SOUND = encode_record(0, 5, b"key", b"value", (("name", b"header"), ("other", None)))


@pytest.mark.parametrize("cut", range(len(SOUND)))
def test_a_record_that_ends_early_is_invalid(cut):
    with pytest.raises(InvalidRecord):
        read(SOUND[:cut])


@pytest.mark.parametrize("position", range(len(SOUND)))
def test_a_record_with_a_wrong_byte_is_read_or_invalid(position):
    for value in range(256):
        block = SOUND[:position] + bytes([value]) + SOUND[position + 1 :]
        try:
            (record,) = read(block)
        except InvalidRecord:
            continue
        assert record.offset == 0
        assert len(record.key or b"") + len(record.value or b"") < len(SOUND)


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (b"", 1),
        (b"", 2**31 - 1),
        (SOUND, 2),
        (SOUND, 0),
        (SOUND, 2**31 - 1),
        (SOUND + b"\x00", 1),
        (SOUND + SOUND, 1),
    ],
)
def test_the_count_has_to_be_right(block, count):
    with pytest.raises(InvalidRecord):
        forge(block, record_count=count, last_offset_delta=1).records()


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_a_negative_count_is_invalid(count):
    with pytest.raises(InvalidRecord, match="do not fit"):
        forge(SOUND, record_count=count).records()


def test_a_batch_without_records_is_read_as_such():
    for codec in range(5):
        assert forge(attributes=codec, record_count=0).records() == []


def lengthened(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


HUGE = encode_varint(2**31 - 1)


@pytest.mark.parametrize(
    "block",
    [
        HUGE + SOUND,  # the length of the record
        encode_varint(-1) + SOUND,
        encode_varint(-(2**31)) + SOUND,
        lengthened(b"\x00\x00\x00" + HUGE + b"key\x01\x00"),  # of the key
        lengthened(b"\x00\x00\x00\x01" + HUGE + b"value\x00"),  # of the value
        lengthened(b"\x00\x00\x00\x01\x01" + HUGE + b"\x02a\x01"),  # the number of headers
        lengthened(b"\x00\x00\x00\x01\x01\x01\x02a\x01"),
        lengthened(b"\x00\x00\x00\x01\x01\x02" + HUGE + b"a\x01"),  # the length of a header's name
        lengthened(b"\x00\x00\x00\x01\x01\x02\x01\x01"),
        lengthened(b"\x00\x00\x00\x01\x01\x02\x02a" + HUGE),  # the length of a header's value
        HUGE + b"\x00\x00\x00\x01\x01\x02\x02a" + encode_varint(2**31 - 1 - 13) + b"value",  # both, to agree
    ],
)
def test_lengths_that_do_not_fit_are_invalid(block):
    with pytest.raises(InvalidRecord):
        read(block)


@pytest.mark.parametrize("delta", [-1, 2, 2**31 - 1, -(2**31)])
def test_an_offset_outside_of_the_batch_is_invalid(delta):
    block = encode_record(delta, 0, None, None) + encode_record(1, 0, None, None)
    with pytest.raises(InvalidRecord, match="outside of its batch"):
        read(block, 2)


@pytest.mark.parametrize(
    ("base", "delta", "timestamp"),
    [
        (2**63 - 1, 1, -(2**63)),
        (-(2**63), -1, 2**63 - 1),
        (2**62, 2**62, -(2**63)),
        (2**63 - 1, 2**63 - 1, -2),
        (2**63 - 1, -(2**63), -1),
    ],
)
def test_timestamps_wrap_as_they_do_in_kafka(base, delta, timestamp):
    assert read(encode_record(0, delta, None, None), base_timestamp=base) == [Record(0, timestamp, None, None)]
    assert encode_record(0, timestamp - base, None, None) == encode_record(0, delta, None, None)


def test_append_time_comes_before_what_the_records_say():
    block = encode_record(0, 2**63 - 1, None, None)
    (record,) = decode_records(
        block, 1, base_offset=0, last_offset_delta=0, base_timestamp=2**63 - 1, append_timestamp=5
    )
    assert record.timestamp == 5
