"""Record batches against kafka-python's own record code, which we did not write, in both directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import snappy_encode
from kafka.record import MemoryRecords
from kafka.record.default_records import ControlRecord, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from eagleray.protocol.errors import ErrorCode, UnsupportedMessageFormat
from eagleray.protocol.records import (
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    TimestampType,
    build_batch,
    build_marker,
    check_client_batch,
    check_records,
    rebuild_batch,
    scan_batches,
    split_batches,
    stamp_append_time,
)
from eagleray.protocol.records.compression import decompress
from tests.property.record_strategies import codecs, nullable_bytes, producers

# Text without lone surrogates, which kafka-python cannot encode, and times that it lets through.
new_records = st.builds(
    NewRecord,
    value=nullable_bytes,
    key=nullable_bytes,
    timestamp=st.integers(1, 2**62),
    headers=st.lists(st.tuples(st.text(max_size=12), nullable_bytes), max_size=4).map(tuple),
)
record_lists = st.lists(new_records, min_size=1, max_size=80)
COMPRESSIBLE = [NewRecord(b"value " * 100, b"key", 1000 + index, (("header", b"x"),)) for index in range(100)]


def build_with_kafka_python(
    records, compression, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False
):
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(compression),
        is_transactional=transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=2**30,
    )
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def read_with_kafka_python(data):
    """Return kafka-python's batch, its checksum verified, and its records."""
    batch = MemoryRecords(data).next_batch()
    assert batch.validate_crc()
    return batch, list(batch)


def as_tuples(records):
    return [(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in records]


@given(record_lists, producers)
def test_both_build_the_same_bytes(records, producer):
    ours = build_batch(records, leader_epoch=0, **producer)
    assert ours == build_with_kafka_python(records, CompressionType.NONE, **producer)


@given(record_lists, codecs, producers)
def test_kafka_python_reads_what_we_build(records, codec, producer):
    data = build_batch(records, base_offset=500, compression=codec, leader_epoch=7, **producer)
    theirs, their_records = read_with_kafka_python(data)
    (ours,) = split_batches(data)
    assert as_tuples(their_records) == as_tuples(ours.records())
    header = ours.header
    assert theirs.base_offset == header.base_offset
    assert theirs.size_in_bytes == header.size_bytes
    assert theirs.leader_epoch == header.partition_leader_epoch
    assert theirs.crc == header.crc
    assert theirs.attributes == header.attributes
    assert theirs.last_offset_delta == header.last_offset_delta
    assert theirs.next_offset == header.next_offset
    assert theirs.first_timestamp == header.base_timestamp
    assert theirs.max_timestamp == header.max_timestamp
    assert theirs.producer_id == header.producer_id
    assert theirs.producer_epoch == header.producer_epoch
    assert theirs.base_sequence == header.base_sequence
    assert theirs.last_sequence == header.last_sequence
    assert theirs.records_count == header.record_count
    assert theirs.compression_type == header.compression
    assert theirs.timestamp_type == header.timestamp_type
    assert theirs.is_transactional == header.is_transactional
    assert theirs.has_producer_id() == header.has_producer_id


@given(record_lists, codecs, producers)
def test_we_read_what_kafka_python_builds(records, codec, producer):
    (batch,) = split_batches(build_with_kafka_python(records, codec, **producer))
    check_client_batch(batch)
    check_records(batch)
    assert [(record.timestamp, record.key, record.value, record.headers) for record in batch.records()] == [
        (record.timestamp, record.key, record.value, record.headers) for record in records
    ]


@pytest.mark.parametrize("codec", CompressionType)
def test_every_codec_is_used_in_both_directions(codec):
    # kafka-python sends small batches uncompressed; these are not small.
    (from_theirs,) = split_batches(build_with_kafka_python(COMPRESSIBLE, codec))
    assert from_theirs.header.compression is codec
    assert [record.value for record in from_theirs.records()] == [record.value for record in COMPRESSIBLE]
    theirs, their_records = read_with_kafka_python(build_batch(COMPRESSIBLE, compression=codec))
    assert theirs.compression_type == codec
    assert [record.value for record in their_records] == [record.value for record in COMPRESSIBLE]


@pytest.mark.parametrize("framed", [True, False])
def test_snappy_of_kafka_python_is_read_with_and_without_framing(framed):
    data = b"some text " * 10_000
    assert decompress(CompressionType.SNAPPY, snappy_encode(data, xerial_compatible=framed)) == data


@pytest.mark.parametrize("codec", CompressionType)
def test_kafka_python_reads_what_a_broker_makes_of_a_batch(codec):
    (batch,) = split_batches(build_batch(COMPRESSIBLE, base_offset=10, compression=codec))
    theirs, their_records = read_with_kafka_python(stamp_append_time(batch, 99_000))
    assert theirs.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in their_records} == {99_000}

    retained = batch.records()[3:90:7]
    for horizon_ms in (None, 123_456):
        data = rebuild_batch(batch, retained, delete_horizon_ms=horizon_ms)
        _, their_records = read_with_kafka_python(data)
        assert as_tuples(their_records) == as_tuples(retained)
    _, their_records = read_with_kafka_python(rebuild_batch(batch, [], delete_horizon_ms=None))
    assert their_records == []


@pytest.mark.parametrize("commit", [True, False])
def test_kafka_python_reads_our_markers(commit):
    marker = build_marker(
        EndTransactionMarker(commit, 6), producer_id=3, producer_epoch=1, timestamp_ms=55, base_offset=77
    )
    batch, (record,) = read_with_kafka_python(marker)
    assert batch.is_control_batch
    assert batch.is_transactional
    assert isinstance(record, ControlRecord)
    assert (record.commit, record.abort) == (commit, not commit)
    assert (record.offset, record.timestamp, record.version) == (77, 55, 0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("count", [1, 50])
def test_the_message_sets_of_old_clients_are_refused(magic, codec, count):
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=2**20)
    for offset in range(count):
        builder.append(offset, timestamp=1000, key=b"k", value=b"v")
    data = bytes(builder.build())
    with pytest.raises(UnsupportedMessageFormat) as refusal:
        split_batches(data)
    assert refusal.value.error_code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert scan_batches(data).valid_length == 0
