"""Whatever is built is read back, field by field, through every codec."""

from hypothesis import given
from hypothesis import strategies as st

from eagleray.protocol.records import (
    BatchBuilder,
    CompressionType,
    EndTransactionMarker,
    Record,
    RecordBatch,
    TimestampType,
    build_batch,
    build_marker,
    check_client_batch,
    check_records,
    place_in,
    placed_prefix,
    rebuild_batch,
    scan_batches,
    split_batches,
    stamp_append_time,
)
from eagleray.protocol.records.varint import decode_longer, decode_varint, encode_varint
from tests.property.record_strategies import (
    MAX_INT16,
    MAX_INT32,
    MAX_INT64,
    codecs,
    offsets,
    producers,
    record_lists,
    small_record_lists,
    timestamp_types,
    timestamps,
)


def only(data: bytes) -> RecordBatch:
    (batch,) = split_batches(data)
    return batch


@given(record_lists, codecs, timestamp_types, producers, offsets, st.integers(-1, MAX_INT32))
def test_a_batch_is_read_as_it_was_built(records, codec, timestamp_type, producer, base_offset, leader_epoch):
    data = build_batch(
        records,
        base_offset=base_offset,
        compression=codec,
        timestamp_type=timestamp_type,
        leader_epoch=leader_epoch,
        **producer,
    )
    batch = only(data)
    latest = max(record.timestamp for record in records)
    append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.records() == [
        Record(base_offset + index, latest if append_time else new.timestamp, new.key, new.value, new.headers)
        for index, new in enumerate(records)
    ]
    header = batch.header
    assert header.size_bytes == len(data)
    assert header.partition_leader_epoch == leader_epoch
    assert header.next_offset == base_offset + len(records)
    assert header.max_timestamp == latest
    assert header.compression is codec
    assert header.timestamp_type is timestamp_type
    assert header.is_transactional == producer.get("transactional", False)
    for field in ("producer_id", "producer_epoch", "base_sequence"):
        assert getattr(header, field) == producer.get(field, -1)
    check_records(batch)
    if not append_time and (not header.is_transactional or producer):
        check_client_batch(batch)


@given(record_lists, st.integers(61, 3000))
def test_a_builder_is_exact_about_its_size(records, max_bytes):
    builder = BatchBuilder(max_bytes)
    taken = [record for record in records if builder.add(record)]
    data = builder.build()
    assert len(builder) == len(taken)
    assert builder.size_bytes == len(data)
    assert len(data) <= max_bytes or len(taken) == 1
    assert data == build_batch(taken)


@given(small_record_lists, codecs, offsets, st.integers(0, MAX_INT32))
def test_placing_moves_every_offset_and_nothing_else(records, codec, base_offset, leader_epoch):
    batch = only(build_batch(records, compression=codec))
    placed = only(placed_prefix(batch.header, base_offset, leader_epoch) + batch.view[16:])
    in_place = bytearray(b"before" + batch.view)
    place_in(in_place, len(b"before"), base_offset, leader_epoch)
    assert in_place == b"before" + placed.view
    assert placed.header.crc == batch.header.crc
    assert placed.header.partition_leader_epoch == leader_epoch
    assert placed.records() == [
        Record(base_offset + record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in batch.records()
    ]


@given(small_record_lists, codecs, producers, timestamps)
def test_append_time_changes_the_time_only(records, codec, producer, timestamp_ms):
    batch = only(build_batch(records, compression=codec, **producer))
    stamped = only(stamp_append_time(batch, timestamp_ms))
    assert [(record.timestamp, record.key, record.value, record.headers) for record in stamped.records()] == [
        (timestamp_ms, record.key, record.value, record.headers) for record in records
    ]
    assert stamped.header.producer_id == batch.header.producer_id
    assert stamped.header.is_transactional == batch.header.is_transactional


@given(
    record_lists,
    codecs,
    timestamp_types,
    producers,
    offsets,
    st.none() | st.integers(0, MAX_INT64),
    st.randoms(use_true_random=False),
)
def test_compaction_keeps_what_it_is_told_and_the_rest_of_the_header(
    records, codec, timestamp_type, producer, base_offset, horizon_ms, random
):
    batch = only(
        build_batch(records, base_offset=base_offset, compression=codec, timestamp_type=timestamp_type, **producer)
    )
    retained = [record for record in batch.records() if random.random() < 0.5]
    rebuilt = only(rebuild_batch(batch, retained, delete_horizon_ms=horizon_ms))
    assert rebuilt.records() == retained
    assert rebuilt.header.delete_horizon_ms == (horizon_ms if retained else None)
    assert rebuilt.header.compression is (codec if retained else CompressionType.NONE)
    for field in ("base_offset", "last_offset", "last_sequence", "producer_id", "producer_epoch", "timestamp_type"):
        assert getattr(rebuilt.header, field) == getattr(batch.header, field)


@given(
    st.builds(EndTransactionMarker, st.booleans(), st.integers(-(2**31), MAX_INT32)),
    st.integers(0, MAX_INT64),
    st.integers(0, MAX_INT16),
    timestamps,
    offsets,
)
def test_a_marker_is_read_as_it_was_built(marker, producer_id, producer_epoch, timestamp_ms, base_offset):
    data = build_marker(
        marker,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
    )
    batch = only(data)
    assert batch.end_transaction_marker() == marker
    assert (batch.header.producer_id, batch.header.producer_epoch) == (producer_id, producer_epoch)
    assert (batch.header.base_offset, batch.header.last_offset) == (base_offset, base_offset)
    assert batch.records()[0].timestamp == timestamp_ms


@given(st.lists(small_record_lists, max_size=5), st.data())
def test_a_scan_finds_the_whole_batches_before_any_cut(batches, data):
    encoded = [build_batch(records) for records in batches]
    log = b"".join(encoded)
    cut = data.draw(st.integers(0, len(log)))
    scan = scan_batches(log[:cut])
    ends = [len(b"".join(encoded[:count])) for count in range(len(encoded) + 1)]
    assert scan.valid_length == max(end for end in ends if end <= cut)
    assert [bytes(batch.view) for batch in scan.batches] == encoded[: len(scan.batches)]
    assert (scan.stopped_by is None) == (cut in ends)


@given(st.integers(-(2**31), MAX_INT32), st.binary(max_size=3))
def test_varints(number, after):
    encoded = encode_varint(number)
    assert len(encoded) <= 5
    assert decode_varint(encoded + after, 0) == (number, len(encoded))


@given(st.integers(-(2**63), MAX_INT64))
def test_varlongs(number):
    encoded = encode_varint(number)
    assert len(encoded) <= 10
    if len(encoded) > 1:
        assert decode_longer(encoded, 1, 64) == (number, len(encoded))
