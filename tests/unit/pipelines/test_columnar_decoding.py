"""Record batches to columns, by example."""

import os

import pyarrow as pa
import pytest

from eagleray.pipelines.columnar import RecordColumns, decode, record_schema
from eagleray.protocol.errors import InvalidRecord, RecordTooLarge, UnsupportedCompression
from eagleray.protocol.records import CompressionType, NewRecord, RecordBatch, build_batch, rebuild_batch, split_batches
from eagleray.protocol.records.header import decode_header

NOW_MS = 1_700_000_000_000


def columns(start: int = 0, end: int = 1 << 40, **options) -> RecordColumns:
    return RecordColumns("orders", 3, start, end, **options)


def batches_of(*lengths: int, value_bytes: int = 200, **options) -> list[RecordBatch]:
    """One batch of each length, at consecutive offsets."""
    built, offset = [], 0
    for length in lengths:
        records = [NewRecord(os.urandom(value_bytes), b"k%d" % index, NOW_MS + index) for index in range(length)]
        built.append(build_batch(records, base_offset=offset, **options))
        offset += length
    return split_batches(b"".join(built))


def values_of(batches: list[RecordBatch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in batch.records()]


def test_the_types_are_those_of_spark_s_kafka_source():
    assert {field.name: str(field.type) for field in record_schema(include_headers=True)} == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int32",
        "offset": "int64",
        "timestamp": "timestamp[us, tz=UTC]",
        "timestampType": "int32",
        "headers": "list<item: struct<key: string, value: binary>>",
    }
    assert "headers" not in record_schema().names


@pytest.mark.parametrize(
    "lengths",
    [(1,), (20_000,), (3000, 1, 40), (1,) * 40, (5, 1, 900, 7) * 20, (1000,) * 20, (64,) * 11, (64,) * 12],
    ids=str,
)
@pytest.mark.parametrize("value_bytes", [0, 50, 200])
def test_many_records_of_one_length(lengths, value_bytes):
    batches = batches_of(*lengths, value_bytes=value_bytes)
    decoded = decode(batches, columns())
    assert decoded["value"].to_pylist() == values_of(batches)
    assert decoded["offset"].to_pylist() == list(range(sum(lengths)))


@pytest.mark.parametrize("batch_count", [1, 30])
@pytest.mark.parametrize("sizes", [(10_000,), (3, 70, 9000, 3_000_000), (1, 2, 60, 61, 62, 63, 64, 65)], ids=str)
def test_records_of_many_lengths(batch_count, sizes):
    sizes = [size if batch_count == 1 else min(size, 20_000) for size in sizes]
    records = [NewRecord(os.urandom(size)) for size in sizes * 50][:50]
    batches = split_batches(
        b"".join(build_batch(records[index:], base_offset=100 * index) for index in range(batch_count))
    )
    assert decode(batches, columns())["value"].to_pylist() == values_of(batches)


def test_no_batches_and_no_wanted_offsets_give_no_rows():
    for batches, wanted in (([], columns()), (batches_of(10), columns(4, 4)), (batches_of(10), columns(10, 20))):
        decoded = decode(batches, wanted)
        assert (decoded.num_rows, decoded.schema) == (0, record_schema())


def test_batches_of_which_compaction_left_only_the_header():
    batches = batches_of(*[3] * 40)
    emptied = [split_batches(rebuild_batch(batch, [], delete_horizon_ms=None))[0] for batch in batches]
    assert decode(emptied, columns()).num_rows == 0
    mixed = [pair[index % 2] for index, pair in enumerate(zip(batches, emptied, strict=True))]
    assert decode(mixed, columns())["value"].to_pylist() == values_of(batches[::2])


def test_a_range_that_begins_and_ends_inside_batches():
    decoded = decode(batches_of(10, 10, 10), columns(5, 25))
    assert decoded["offset"].to_pylist() == list(range(5, 25))
    assert decoded["timestamp"].view(pa.int64()).to_pylist()[:6] == [
        1000 * (NOW_MS + index) for index in (5, 6, 7, 8, 9, 0)
    ]


def test_a_batch_outside_of_the_range_is_not_even_unpacked():
    good, bad = batches_of(10, 10, compression=CompressionType.ZSTD)
    damaged = RecordBatch(memoryview(bytes(bad.view[:61]) + b"no zstd at all"), bad.header)
    assert decode([good, damaged], columns(0, 10)).num_rows == 10
    with pytest.raises(InvalidRecord, match="zstd"):
        decode([good, damaged], columns(0, 11))


def test_a_header_name_that_is_no_text_is_replaced_as_java_does():
    records = [NewRecord(b"v", headers=(("\udcff-name", b"x"), ("plain", None)))]
    decoded = decode(split_batches(build_batch(records)), columns(include_headers=True))
    assert decoded["headers"].to_pylist() == [[{"key": "\ufffd-name", "value": b"x"}, {"key": "plain", "value": None}]]


@pytest.mark.parametrize("records_with_headers", [1, 100])
def test_very_many_headers(records_with_headers):
    headers = tuple((f"name-{index}", b"x" * (index % 80)) for index in range(500))
    records = [NewRecord(b"v", headers=headers[index:]) for index in range(records_with_headers)]
    decoded = decode(split_batches(build_batch(records)), columns(include_headers=True))
    assert [[(header["key"], header["value"]) for header in row] for row in decoded["headers"].to_pylist()] == [
        list(record.headers) for record in records
    ]


def test_headers_that_were_not_asked_for_are_still_checked():
    damaged = bytearray(build_batch([NewRecord(b"v", headers=(("name", b"x"),))]))
    damaged[-2] = 0x20
    view = memoryview(bytes(damaged))
    with pytest.raises(InvalidRecord):
        decode([RecordBatch(view, decode_header(view))], columns())


def test_times_beyond_microseconds_are_null():
    records = [NewRecord(b"v", timestamp=timestamp) for timestamp in (2**62, -(2**62), -1, NOW_MS)]
    decoded = decode(split_batches(build_batch(records)), columns())
    assert decoded["timestamp"].view(pa.int64()).to_pylist() == [None, None, -1000, NOW_MS * 1000]


def test_damage_is_described_by_the_decoder_of_single_records():
    good, bad = batches_of(10, 10)
    cut = RecordBatch(bad.view[:-5], bad.header)
    with pytest.raises(InvalidRecord, match="the block of records ends inside record 9"):
        decode([good, cut], columns())


def test_unknown_codecs_and_blocks_that_unpack_to_too_much():
    (batch,) = batches_of(10)
    unknown = bytearray(batch.view)
    unknown[22] = 7
    with pytest.raises(UnsupportedCompression):
        decode([RecordBatch(memoryview(unknown), decode_header(unknown))], columns())
    (large,) = split_batches(build_batch([NewRecord(bytes(70 << 20))], compression=CompressionType.ZSTD))
    with pytest.raises(RecordTooLarge):
        decode([large], columns())
