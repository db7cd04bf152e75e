"""Decoding into columns gives row by row what the decoder of single records gives, or refuses what that refuses."""

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eagleray.pipelines.columnar import RecordColumns, decode, record_schema
from eagleray.protocol.errors import InvalidRecord, ProtocolError
from eagleray.protocol.records import NewRecord, Record, RecordBatch, build_batch, rebuild_batch, split_batches
from tests.property.record_strategies import (
    MAX_INT32,
    MAX_INT64,
    codecs,
    header_lists,
    new_records,
    nullable_bytes,
    producers,
    record_lists,
    small_record_lists,
    timestamp_types,
    timestamps,
)
from tests.property.test_record_damage import sealed

LAST_MILLISECOND = MAX_INT64 // 1000
EVERYTHING = RecordColumns("orders", 3, 0, MAX_INT64, include_headers=True)

plain_records = st.builds(NewRecord, value=nullable_bytes, key=nullable_bytes, timestamp=timestamps)
regular_records = st.builds(NewRecord, value=st.just(b"v" * 200), timestamp=st.integers(0, 100))
"""Mostly of the same length, which is decoded in another way."""
lists = (
    record_lists
    | st.lists(plain_records, min_size=1, max_size=90)
    | st.lists(regular_records, min_size=1, max_size=300)
    | st.lists(new_records, min_size=1, max_size=2)
)
many_lists = st.builds(
    lambda few, times: few * times, st.lists(small_record_lists, min_size=2, max_size=5), st.integers(6, 8)
)
"""Of which some come again: drawing each anew would cost more than all that is done with them."""


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Batches at ascending offsets, with gaps where compaction or markers were."""
    batches = []
    offset = draw(st.integers(0, 1000))
    for records in draw(st.lists(lists, max_size=6) | many_lists):
        built = build_batch(
            records,
            base_offset=offset,
            compression=draw(codecs),
            timestamp_type=draw(timestamp_types),
            **draw(producers),
        )
        (batch,) = split_batches(built)
        if draw(st.booleans()):
            retained = [record for record in batch.records() if draw(st.booleans())]
            (batch,) = split_batches(rebuild_batch(batch, retained, delete_horizon_ms=draw(st.none() | timestamps)))
        batches.append(batch)
        offset = batch.header.next_offset + draw(st.integers(0, 3))
    return batches


def expected_row(record: Record, batch: RecordBatch, columns: RecordColumns) -> dict:
    headers = [{"key": name, "value": value} for name, value in record.headers]
    has_time = -LAST_MILLISECOND <= record.timestamp <= LAST_MILLISECOND
    return {
        "key": record.key,
        "value": record.value,
        "topic": columns.topic,
        "partition": columns.partition,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000 if has_time else None,
        "timestampType": int(batch.header.timestamp_type),
        "headers": headers or None,
    }


def expected_rows(batches: list[RecordBatch], columns: RecordColumns) -> list[dict]:
    return [
        expected_row(record, batch, columns)
        for batch in batches
        for record in batch.records()
        if columns.start_offset <= record.offset < columns.end_offset
    ]


def rows_of(decoded: pa.RecordBatch) -> list[dict]:
    decoded.validate(full=True)
    position = decoded.schema.get_field_index("timestamp")
    # Python's own dates end long before ours do.
    return decoded.set_column(position, "timestamp", decoded["timestamp"].view(pa.int64())).to_pylist()


@given(logs(), st.integers(0, 1500), st.integers(0, 1500))
def test_columns_hold_the_records(batches, start, length):
    columns = RecordColumns("orders", 3, start, start + length, include_headers=True)
    for wanted in (EVERYTHING, columns):
        decoded = decode(batches, wanted)
        assert decoded.schema == record_schema(include_headers=True)
        assert rows_of(decoded) == expected_rows(batches, wanted)


@given(logs(), st.permutations(record_schema(include_headers=True).names), st.integers(1, 8))
def test_some_of_the_columns(batches, names, count):
    whole = decode(batches, EVERYTHING)
    some = decode(batches, RecordColumns("orders", 3, 0, MAX_INT64, include_headers=True, names=tuple(names[:count])))
    assert some.schema.names == names[:count]
    assert all(some[name].equals(whole[name]) for name in some.schema.names)


def check_same(batches: list[RecordBatch]) -> None:
    """Both decoders give the same rows, or both refuse."""
    try:
        expected = expected_rows(batches, EVERYTHING)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decode(batches, EVERYTHING)
        return
    decoded = decode(batches, EVERYTHING)
    # Names that are no UTF-8 cannot be compared: there are no such strings in Arrow.
    if all(_is_text(header["key"]) for row in expected for header in row["headers"] or ()):
        assert rows_of(decoded) == expected


def _is_text(name: str) -> bool:
    with suppress(UnicodeEncodeError):
        name.encode()
        return True
    return False


@given(st.lists(lists, min_size=1, max_size=3) | st.lists(small_record_lists, min_size=12, max_size=14), st.data())
def test_damage_is_refused_as_by_the_plain_decoder(record_lists, data):
    built = [bytearray(build_batch(records, base_offset=1000 * index)) for index, records in enumerate(record_lists)]
    for _ in range(data.draw(st.integers(1, 4))):
        damaged = data.draw(st.sampled_from(built))
        position = data.draw(st.integers(21, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    check_same(split_batches(b"".join(map(sealed, built))))


@given(small_record_lists, st.data())
def test_a_block_that_is_cut_short_is_refused(records, data):
    whole = bytearray(build_batch(records))
    cut = whole[: data.draw(st.integers(61, len(whole) - 1))]
    cut[8:12] = (len(cut) - 12).to_bytes(4)
    (batch,) = split_batches(sealed(cut))
    with pytest.raises(InvalidRecord):
        decode([batch], EVERYTHING)


@given(st.binary(max_size=200), st.integers(-3, 20), st.integers(-3, 40))
@example(b"\x0c\x00\x00\x00\x01\x01\x00" * 20, 20, 40)
@example(b"\xff\xff\xff\xff\x0f" * 20, 5, 5)
@example(b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80" * 20, 20, 20)
def test_noise_behind_a_good_header(block, count, last_offset_delta):
    header = bytearray(61)
    header[8:12] = (49 + len(block)).to_bytes(4)
    header[16] = 2
    header[23:27] = last_offset_delta.to_bytes(4, signed=True)
    header[57:61] = count.to_bytes(4, signed=True)
    check_same(split_batches(sealed(header + block)))


@given(header_lists, st.integers(0, 200), st.integers(0, MAX_INT32))
def test_headers_far_apart(headers, distance, seed):
    records = [NewRecord(b"v")] * distance + [NewRecord(b"w", headers=headers)] + [NewRecord(None)] * (seed % 7)
    batches = split_batches(build_batch(records))
    assert rows_of(decode(batches, EVERYTHING)) == expected_rows(batches, EVERYTHING)
