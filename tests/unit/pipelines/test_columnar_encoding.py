"""Columns to record batches, by example: where rows go, how they are cut, and what is refused."""

from collections import Counter

import pyarrow as pa
import pytest

from eagleray.client.producer.partitioner import murmur2 as plain_murmur2
from eagleray.pipelines.columnar import PreparedRecords, Rows, UnknownPartition, UnknownTopic, encode
from eagleray.pipelines.columnar.arrays import binary_parts
from eagleray.pipelines.columnar.routing import murmur2
from eagleray.protocol.records import CompressionType, Record, split_batches

NOW_MS = 1_700_000_000_000


def encode_rows(rows: Rows, *, max_batch_bytes: int = 1 << 20, first: int = 0, **counts: int):
    return encode(
        rows,
        partition_counts=counts or {"orders": 8},
        max_batch_bytes=max_batch_bytes,
        now_ms=NOW_MS,
        first_keyless_partition=first,
    )


def records_of(prepared: PreparedRecords) -> list[Record]:
    built = prepared.build(
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        transactional=False,
        compression=CompressionType.NONE,
    )
    (batch,) = split_batches(built)
    assert len(built) == prepared.size_bytes
    return batch.records()


def all_records(rows: Rows, **options) -> list[Record]:
    return [record for _, prepared in encode_rows(rows, **options) for record in records_of(prepared)]


def values(count: int, size: int = 10) -> pa.Array:
    return pa.array([b"%0*d" % (size, index) for index in range(count)], pa.binary())


def test_no_rows():
    assert encode_rows(Rows(pa.array([], pa.binary()), "orders")) == []


@pytest.mark.parametrize("first", [0, 3])
def test_rows_without_a_key_are_spread_in_whole_runs(first):
    encoded = encode_rows(Rows(values(8000), "orders"), first=first)
    assert Counter({partition.partition: len(prepared) for partition, prepared in encoded}) == dict.fromkeys(
        range(8), 1000
    )
    by_partition = {partition.partition: prepared for partition, prepared in encoded}
    in_order = [record.value for run in range(8) for record in records_of(by_partition[(first + run) % 8])]
    assert in_order == values(8000).to_pylist()


def test_few_rows_without_a_key_stay_together():
    assert [partition.partition for partition, _ in encode_rows(Rows(values(50), "orders"), first=13)] == [5]
    assert len(encode_rows(Rows(values(130), "orders"))) == 3


def test_batches_stay_below_their_limit_and_nearly_fill_it():
    encoded = encode_rows(Rows(values(5000, 200), "orders"), max_batch_bytes=16_384, orders=1)
    sizes = [prepared.size_bytes for _, prepared in encoded]
    assert max(sizes) <= 16_384
    assert min(sizes[:-1]) > 0.95 * 16_384
    assert [record.value for _, prepared in encoded for record in records_of(prepared)] == values(5000, 200).to_pylist()


def test_a_row_above_the_limit_gets_a_batch_of_its_own():
    column = pa.array([b"a", b"b", b"c" * 500, b"d", b"e"], pa.binary())
    encoded = encode_rows(Rows(column, "orders"), max_batch_bytes=100, orders=1)
    assert [[record.value[:1] for record in records_of(prepared)] for _, prepared in encoded] == [
        [b"a", b"b"],
        [b"c"],
        [b"d", b"e"],
    ]


@pytest.mark.parametrize(
    "column_type",
    [pa.string(), pa.large_string(), pa.large_binary(), pa.string_view(), pa.binary_view(), pa.binary(3)],
    ids=str,
)
def test_every_kind_of_text_or_bytes(column_type):
    column = pa.array(["abc", None, "déf"[:3]] if "string" in str(column_type) else [b"abc", None, b"def"], column_type)
    expected = [
        None if text is None else text.encode() if isinstance(text, str) else text for text in column.to_pylist()
    ]
    records = all_records(Rows(column, "orders", column), orders=1)
    assert [(record.key, record.value) for record in records] == list(zip(expected, expected, strict=True))


def test_columns_of_nulls():
    records = all_records(Rows(pa.nulls(2), "orders", pa.nulls(2), pa.nulls(2), pa.nulls(2)), orders=1)
    assert [(record.key, record.value, record.headers) for record in records] == [(None, None, ())] * 2


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_timestamps_of_every_unit(unit, factor):
    milliseconds = [NOW_MS - 5000, None, -2000]
    column = pa.array([None if number is None else int(number * factor) for number in milliseconds], pa.int64())
    rows = Rows(values(3), "orders", timestamp=column.view(pa.timestamp(unit, "UTC")))
    assert [record.timestamp for record in all_records(rows)] == [NOW_MS - 5000, NOW_MS, -2000]


def test_a_time_between_milliseconds_is_rounded_down():
    column = pa.array([1999, -1], pa.int64()).view(pa.timestamp("us"))
    assert [record.timestamp for record in all_records(Rows(values(2), "orders", timestamp=column))] == [1, -1]


def test_slices_of_columns():
    whole = pa.RecordBatch.from_pylist(
        [
            {"key": f"k{index}", "value": b"%d" % index, "headers": [{"key": "n", "value": b"%d" % index}] * index}
            for index in range(10)
        ],
        pa.schema(
            [
                ("key", pa.string()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ]
        ),
    )
    records = all_records(Rows.from_batch(whole[4:7], "orders"), orders=1)
    assert [(record.key, record.value, record.headers) for record in records] == [
        (b"k%d" % index, b"%d" % index, (("n", b"%d" % index),) * index) for index in (4, 5, 6)
    ]


def test_a_row_s_own_partition_goes_before_its_key():
    rows = Rows(values(3), "orders", values(3), partition=pa.array([7, 0, None], pa.int32()))
    placed = {record.value: partition.partition for partition, p in encode_rows(rows) for record in records_of(p)}
    assert (placed[b"0000000000"], placed[b"0000000001"]) == (7, 0)


@pytest.mark.parametrize("number", [8, -1])
def test_a_partition_that_is_not_there(number):
    partitions = pa.array([0, None, number, 99], pa.int32())
    with pytest.raises(UnknownPartition, match=f"row 2 is for partition {number} of the topic 'orders'.* 0 to 7"):
        encode_rows(Rows(values(4), "orders", partition=partitions))
    with pytest.raises(UnknownPartition, match=r"row 1 is for partition 1 of the topic 'b'.* 0 to 0"):
        encode_rows(Rows(values(2), pa.array(["a", "b"]), partition=pa.array([1, 1])), a=2, b=1)


def test_a_topic_that_is_not_there():
    with pytest.raises(UnknownTopic, match="row 0 is for the topic 'order', which does not exist"):
        encode_rows(Rows(values(4), "order"))
    with pytest.raises(UnknownTopic, match="row 2 is for the topic 'order', which does not exist"):
        encode_rows(Rows(values(3), pa.array(["orders", "orders", "order"])))
    with pytest.raises(UnknownTopic, match="row 1 has no topic"):
        encode_rows(Rows(values(2), pa.array(["orders", None])))


def test_types_that_cannot_be_written():
    numbers = pa.array([1, 2])
    for column, rows in {
        "value": Rows(numbers, "orders"),
        "key": Rows(values(2), "orders", numbers),
        "headers": Rows(values(2), "orders", headers=numbers),
        "partition": Rows(values(2), "orders", partition=pa.array(["1", "2"])),
        "timestamp": Rows(values(2), "orders", timestamp=numbers),
    }.items():
        with pytest.raises(TypeError, match=f"the column {column} has type"):
            encode_rows(rows)


def test_a_header_without_a_name():
    headers = pa.array(
        [None, [{"key": "n", "value": b"x"}], [{"key": "n", "value": None}, {"key": None, "value": b"x"}]],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    with pytest.raises(ValueError, match="row 2 has a header without a key"):
        encode_rows(Rows(values(3), "orders", headers=headers))


def test_rows_of_a_batch_need_a_value_and_a_topic():
    with pytest.raises(ValueError, match="a column named value; they have key"):
        Rows.from_batch(pa.RecordBatch.from_pydict({"key": [b"k"]}), "orders")
    with pytest.raises(ValueError, match="need the option topic"):
        Rows.from_batch(pa.RecordBatch.from_pydict({"value": [b"v"]}))
    batch = pa.RecordBatch.from_pydict({"value": [b"v"], "topic": ["there"]})
    assert Rows.from_batch(batch, "here").topic == "here"
    assert Rows.from_batch(batch).topic.to_pylist() == ["there"]


def test_keys_of_very_different_lengths_hash_as_one_by_one():
    keys = [b"x" * length for length in (0, 1, 2, 3, 4, 5, 7, 8, 9, 100_001)] * 3 + [b"%d" % n for n in range(50)]
    data, boundaries = binary_parts(pa.array(keys, pa.binary()))
    hashed = murmur2(data, boundaries[:-1], boundaries[1:] - boundaries[:-1])
    assert hashed.tolist() == [plain_murmur2(key) for key in keys]
