"""Any bytes at all, as a batch, a block of records or a codec's input, raise nothing but our own errors."""

from contextlib import suppress

from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import (
    CompressionType,
    RecordBatch,
    RecordRules,
    build_batch,
    check_client_batch,
    check_records,
    decode_header,
    rebuild_batch,
    scan_batches,
    split_batches,
)
from eagleray.protocol.records.compression import decompress
from tests.property.record_strategies import codecs, producers, small_record_lists

LIMIT_BYTES = 1 << 20


def use_all_of(batch: RecordBatch) -> None:
    """Ask for everything that can be asked of a batch, as a broker or consumer would."""
    for question in (
        lambda: check_client_batch(batch),
        lambda: check_records(batch, RecordRules(max_bytes=LIMIT_BYTES)),
        batch.verify_crc,
        batch.end_transaction_marker,
        lambda: batch.header.compression,
        lambda: rebuild_batch(batch, batch.records(max_bytes=LIMIT_BYTES), delete_horizon_ms=None),
    ):
        with suppress(ProtocolError):
            question()


def sealed(data: bytearray) -> bytearray:
    """Make the checksum right, so that the damage reaches what lies behind it."""
    if len(data) > 21:
        data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4)
    return data


@given(st.binary(max_size=300))
@example(bytes(61))
@example(b"\xff" * 200)
def test_noise(data):
    with suppress(ProtocolError):
        decode_header(data)
    with suppress(ProtocolError):
        split_batches(data)
    for verify_crc in (True, False):
        scan = scan_batches(data, verify_crc=verify_crc)
        assert scan.valid_length == sum(batch.header.size_bytes for batch in scan.batches) <= len(data)


@given(small_record_lists, codecs, producers, st.data())
def test_damage_behind_a_good_checksum(records, codec, producer, data):
    damaged = bytearray(build_batch(records, compression=codec, **producer))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        for batch in split_batches(sealed(damaged)):
            use_all_of(batch)


@given(small_record_lists, codecs, st.data())
def test_damage_is_never_taken_for_the_original(records, codec, data):
    original = build_batch(records, compression=codec)
    position = data.draw(st.integers(16, len(original) - 1))
    damaged = bytearray(original)
    damaged[position] ^= data.draw(st.integers(1, 255))
    scan = scan_batches(damaged)
    assert (scan.batches, scan.valid_length) == ([], 0)


@given(st.binary(max_size=200), st.integers(0, 127), st.integers(-3, 40), st.integers(-3, 40))
def test_noise_behind_a_good_header(block, attributes, count, last_offset_delta):
    header = bytearray(61)
    header[8:12] = (49 + len(block)).to_bytes(4)
    header[16] = 2
    header[21:23] = attributes.to_bytes(2)
    header[23:27] = last_offset_delta.to_bytes(4, signed=True)
    header[57:61] = count.to_bytes(4, signed=True)
    (batch,) = split_batches(sealed(header + block))
    use_all_of(batch)


@given(st.sampled_from(list(CompressionType)[1:]), st.binary(max_size=300))
def test_noise_in_a_codec(codec, data):
    with suppress(ProtocolError):
        assert len(decompress(codec, data, max_bytes=LIMIT_BYTES)) <= LIMIT_BYTES
