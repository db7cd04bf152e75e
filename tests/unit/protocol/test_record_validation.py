"""Which records a broker refuses from a client, and why."""

import pickle

import pytest

from eagleray.protocol.errors import ErrorCode, InvalidRecord, RecordTooLarge
from eagleray.protocol.records import (
    CompressionType,
    NewRecord,
    RecordBatch,
    RecordError,
    RecordRules,
    RecordsRefused,
    TimestampType,
    build_batch,
    check_records,
    split_batches,
)
from eagleray.protocol.records.header import HEADER_BYTES
from eagleray.protocol.records.layouts import is_proved
from eagleray.protocol.records.record import encode_record
from eagleray.protocol.records.validation import MOST_RECORD_ERRORS
from tests.unit.protocol.forge import forge

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TIMELY = RecordRules(earliest_ms=NOW_MS - HOUR_MS, latest_ms=NOW_MS + HOUR_MS)
COMPACTED = RecordRules(needs_keys=True)
CODECS = pytest.mark.parametrize("codec", CompressionType)


def batch_of(*records: NewRecord, codec: CompressionType = CompressionType.NONE) -> RecordBatch:
    (batch,) = split_batches(build_batch(records, compression=codec))
    return batch


def is_proved_by_columns(batch: RecordBatch, *, needs_keys: bool = False) -> bool:
    header = batch.header
    max_delta = header.max_timestamp - header.base_timestamp
    return is_proved(bytes(batch.view), HEADER_BYTES, header.record_count, max_delta, needs_keys=needs_keys)


def refusal_of(batch: RecordBatch, rules: RecordRules) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as refusal:
        check_records(batch, rules)
    return refusal.value


# What they are


@CODECS
@pytest.mark.parametrize("count", [1, 2, 64, 65, 300])
@pytest.mark.parametrize("step_ms", [0, 1, 7])
def test_good_records_have_their_largest_timestamp_told(codec, count, step_ms):
    records = [NewRecord(b"value", b"key", NOW_MS + step_ms * number) for number in range(count)]
    assert check_records(batch_of(*records, codec=codec)) == NOW_MS + step_ms * (count - 1)


@pytest.mark.parametrize("deltas", [(0, 0, 1), (0, 2, 1), (1, 2, 3), (0, 1, 1)])
def test_offset_deltas_have_to_be_consecutive(deltas):
    block = b"".join(encode_record(delta, 0, None, None) for delta in deltas)
    with pytest.raises(InvalidRecord, match=r"record \d has offset delta"):
        check_records(forge(block, record_count=len(deltas), last_offset_delta=2))


def test_nothing_may_follow_the_records():
    with pytest.raises(InvalidRecord, match="4 bytes follow"):
        check_records(forge(encode_record(0, 0, None, None) + b"more"))


def test_a_small_batch_cannot_claim_many_records():
    block = encode_record(0, 0, b"", None)
    with pytest.raises(InvalidRecord, match="2147483647 records do not fit into 7 bytes"):
        check_records(forge(block, record_count=2**31 - 1, last_offset_delta=2**31 - 2))


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"\x0e" + bytes(3) + b"\x01\x01\x00", "by its length"),  # one byte longer than it is
        (b"\x0a" + bytes(3) + b"\x01\x01\x00", "by its length"),
        (b"\x0c" + bytes(3) + b"\x08\x01\x00", "end inside record 0"),  # a key of four bytes
        (b"\x0c" + bytes(3) + b"\x01\x08\x00", "end inside record 0"),
        (b"\x0c" + bytes(3) + b"\x01\x01\x02", "headers"),
        (b"\x0c" + bytes(3) + b"\x01\x01\x01", "headers"),  # minus one of them
        (b"\x80" * 7, "end inside record 0|bits"),
        (b"\xff\xff\xff\xff\xff\x01\x00", "32 bits"),
    ],
)
def test_a_record_whose_lengths_do_not_fit_is_refused(block, reason):
    with pytest.raises(InvalidRecord, match=reason):
        check_records(forge(block))


@pytest.mark.parametrize("count", [1, 100])
def test_records_of_one_size_are_proved_by_columns(count):
    """The short way is taken: without this the other tests might not look at it."""
    for key in (None, b"", b"key"):
        assert is_proved_by_columns(batch_of(*[NewRecord(bytes(200), key, NOW_MS)] * count))
    assert is_proved_by_columns(batch_of(*[NewRecord(None, b"key", NOW_MS)] * count))


def test_no_byte_of_uniform_records_that_has_a_meaning_can_be_changed_unseen():
    batch = batch_of(*[NewRecord(b"v" * 70, b"key", NOW_MS + number) for number in range(100)])
    block = bytes(batch.view[HEADER_BYTES:])
    expected = batch.records()
    for position in range(len(block)):
        changed = bytearray(block)
        changed[position] ^= 0x40
        header = batch.header
        forged = forge(
            bytes(changed),
            record_count=header.record_count,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
        )
        try:
            latest = check_records(forged)
        except InvalidRecord:
            continue
        records = forged.records()
        assert latest == max(record.timestamp for record in records)
        assert [record.offset for record in records] == [record.offset for record in expected]


# Timestamps


@CODECS
def test_the_largest_timestamp_is_that_of_the_records_whatever_the_header_says(codec):
    (batch,) = split_batches(build_batch([NewRecord(b"value", b"key", NOW_MS + ms) for ms in (0, 5, 3)]))
    block = bytes(batch.view[HEADER_BYTES:])
    for claimed_ms in (0, NOW_MS, NOW_MS + 4, NOW_MS + 6, NOW_MS + 10**6):
        forged = forge(block, record_count=3, last_offset_delta=2, base_timestamp=NOW_MS, max_timestamp=claimed_ms)
        assert check_records(forged) == NOW_MS + 5
    assert check_records(batch_of(NewRecord(b"no time"), codec=codec)) == -1


@CODECS
def test_untimely_records_are_named(codec):
    timestamps = [NOW_MS, NOW_MS + HOUR_MS + 1, -1, NOW_MS - HOUR_MS - 1, NOW_MS + HOUR_MS, NOW_MS - HOUR_MS]
    refusal = refusal_of(batch_of(*(NewRecord(b"value", None, ms) for ms in timestamps), codec=codec), TIMELY)
    assert refusal.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refusal.record_errors] == [1, 3]
    assert "2 of 6 records are refused" in str(refusal)
    assert f"record 1: its timestamp {NOW_MS + HOUR_MS + 1} is outside of" in str(refusal)


def test_a_header_cannot_hide_an_untimely_record():
    block = encode_record(0, 0, None, b"now") + encode_record(1, 2 * HOUR_MS, None, b"later")
    forged = forge(block, record_count=2, last_offset_delta=1, base_timestamp=NOW_MS, max_timestamp=NOW_MS)
    assert [error.batch_index for error in refusal_of(forged, TIMELY).record_errors] == [1]


def test_timestamps_wrap_as_kafkas_do():
    block = encode_record(0, 0, None, None) + encode_record(1, 2, None, None)
    least, most = -(2**63), 2**63 - 1
    forged = forge(block, record_count=2, last_offset_delta=1, base_timestamp=most, max_timestamp=most)
    assert [record.timestamp for record in forged.records()] == [most, least + 1]
    assert check_records(forged) == most
    assert [error.batch_index for error in refusal_of(forged, TIMELY).record_errors] == [0, 1]


# Keys


@CODECS
def test_records_without_keys_are_named_where_the_topic_is_compacted(codec):
    batch = batch_of(*(NewRecord(b"value", key) for key in (b"key", None, b"", None)), codec=codec)
    assert check_records(batch) == -1
    refusal = refusal_of(batch, COMPACTED)
    assert refusal.error_code is ErrorCode.INVALID_RECORD
    why = "it has no key, and the topic is compacted"
    assert refusal.record_errors == (RecordError(1, why), RecordError(3, why))
    assert f"2 of 4 records are refused, and with them the batch: record 1: {why}; record 3: {why}" == str(refusal)


def test_uniform_records_without_keys_are_not_proved_for_a_compacted_topic():
    batch = batch_of(*[NewRecord(b"value", None, NOW_MS)] * 100)
    assert is_proved_by_columns(batch)
    assert not is_proved_by_columns(batch, needs_keys=True)
    refusal = refusal_of(batch, COMPACTED)
    assert len(refusal.record_errors) == 100
    assert str(refusal).endswith("; and 97 more")


def test_only_so_many_records_are_named():
    refusal = refusal_of(batch_of(*[NewRecord(b"value")] * 5000, codec=CompressionType.ZSTD), COMPACTED)
    assert [error.batch_index for error in refusal.record_errors] == [*range(MOST_RECORD_ERRORS)]
    assert str(refusal).startswith("at least 1000 of 5000 records are refused")


def test_records_that_lack_both_key_and_time_are_refused_as_kafka_does():
    late = NOW_MS + 2 * HOUR_MS
    rules = RecordRules(needs_keys=True, latest_ms=NOW_MS)
    of_the_key = refusal_of(batch_of(NewRecord(b"value", None, late)), rules)
    assert of_the_key.error_code is ErrorCode.INVALID_RECORD
    of_both = refusal_of(batch_of(NewRecord(b"value", None, late), NewRecord(b"value", b"key", late)), rules)
    assert of_both.error_code is ErrorCode.INVALID_TIMESTAMP
    assert ["key" in error.message for error in of_both.record_errors] == [True, False]


def test_a_refusal_survives_pickling():
    refusal = refusal_of(batch_of(NewRecord(b"value")), COMPACTED)
    copy = pickle.loads(pickle.dumps(refusal))
    assert (str(copy), copy.error_code, copy.record_errors) == (
        str(refusal),
        refusal.error_code,
        refusal.record_errors,
    )


# Compression


@pytest.mark.parametrize("codec", list(CompressionType)[1:])
def test_what_unpacks_to_more_than_allowed_is_refused(codec):
    batch = batch_of(NewRecord(bytes(100_000), b"key"), codec=codec)
    assert check_records(batch, RecordRules(max_bytes=100_100)) == -1
    with pytest.raises(RecordTooLarge):
        check_records(batch, RecordRules(max_bytes=100_000))


@pytest.mark.parametrize("codec", list(CompressionType)[1:])
def test_what_does_not_unpack_is_refused(codec):
    with pytest.raises(InvalidRecord):
        check_records(forge(b"no codec makes this of anything", attributes=int(codec)))


def test_timestamps_that_the_broker_has_set_are_not_asked_for():
    (batch,) = split_batches(build_batch([NewRecord(b"value")], timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert check_records(batch) == -1
