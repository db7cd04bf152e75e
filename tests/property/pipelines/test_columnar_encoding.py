"""Encoding columns gives, byte for byte, the batches of the builder of single records, in the same partitions."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eagleray.broker.identities import TopicPartition
from eagleray.client.producer.partitioner import partition_for_key
from eagleray.pipelines.columnar import Rows, encode
from eagleray.pipelines.columnar.headers import HEADERS
from eagleray.protocol.records import HEADER_BYTES, NewRecord, build_batch, split_batches
from tests.property.record_strategies import codecs, header_lists, nullable_bytes, timestamps

NOW_MS = 1_700_000_000_000
COUNTS = {"orders": 5, "payments": 1, "ünïcode": 300}
PRODUCER = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40, "transactional": True}

row_values = st.fixed_dictionaries(
    {
        "key": nullable_bytes,
        "value": nullable_bytes,
        "headers": st.none() | header_lists,
        "timestamp": st.none() | timestamps,
        "topic": st.sampled_from(sorted(COUNTS)),
        "partition": st.none() | st.just(0),
    }
)
keyless = st.fixed_dictionaries({"value": nullable_bytes, "topic": st.just("orders")})
tables = (
    st.lists(row_values, max_size=60) | st.lists(row_values, min_size=30, max_size=90) | st.lists(keyless, max_size=200)
)
NAMES = ("key", "value", "headers", "timestamp", "topic", "partition")


def as_record(row: dict) -> NewRecord:
    timestamp = row.get("timestamp")
    return NewRecord(
        row["value"], row.get("key"), NOW_MS if timestamp is None else timestamp, tuple(row.get("headers") or ())
    )


def as_columns(rows: list[dict]) -> Rows:
    def column(name: str, column_type: pa.DataType) -> pa.Array:
        return pa.array([row.get(name) for row in rows], column_type)

    headers = [
        None if row.get("headers") is None else [{"key": name, "value": value} for name, value in row["headers"]]
        for row in rows
    ]
    return Rows(
        column("value", pa.binary()),
        column("topic", pa.string()),
        column("key", pa.binary()),
        pa.array(headers, HEADERS),
        column("partition", pa.int32()),
        column("timestamp", pa.int64()).view(pa.timestamp("ms")),
    )


@given(tables, st.integers(70, 4000), codecs, st.integers(0, 7))
def test_batches_are_what_the_builder_gives(rows, max_batch_bytes, codec, first):
    encoded = encode(
        as_columns(rows),
        partition_counts=COUNTS,
        max_batch_bytes=max_batch_bytes,
        now_ms=NOW_MS,
        first_keyless_partition=first,
    )
    written: dict[TopicPartition, list[NewRecord]] = {}
    for partition, prepared in encoded:
        built = prepared.build(**PRODUCER, compression=codec)
        (batch,) = split_batches(built)
        records = [NewRecord(record.value, record.key, record.timestamp, record.headers) for record in batch.records()]
        assert len(prepared) == len(records) == batch.header.record_count
        assert built == build_batch(records, **PRODUCER, compression=codec)
        assert prepared.size_bytes == len(build_batch(records))
        assert prepared.size_bytes <= max_batch_bytes or len(records) == 1
        written.setdefault(partition, []).extend(records)
    check_places(rows, written)


def check_places(rows: list[dict], written: dict[TopicPartition, list[NewRecord]]) -> None:
    """Every row is where it belongs, in the order of the rows; keyless ones are somewhere in their topic."""
    left = {partition: iter(records) for partition, records in written.items()}
    fixed: dict[TopicPartition, list[NewRecord]] = {}
    loose: list[tuple[str, NewRecord]] = []
    for row in rows:
        partition = expected_partition(row)
        if partition is None:
            loose.append((row["topic"], as_record(row)))
        else:
            fixed.setdefault(TopicPartition(row["topic"], partition), []).append(as_record(row))
    for partition, records in fixed.items():
        assert is_subsequence(records, written[partition])
    assert sum(map(len, written.values())) == len(rows)
    for topic in COUNTS:
        here = [record for partition, records in written.items() if partition.topic == topic for record in records]
        expected = [as_record(row) for row in rows if row["topic"] == topic]
        assert sorted(map(repr, here)) == sorted(map(repr, expected))
    assert all(0 <= partition.partition < COUNTS[partition.topic] for partition in left)


def expected_partition(row: dict) -> int | None:
    if row.get("partition") is not None:
        return row["partition"]
    return None if row.get("key") is None else partition_for_key(row["key"], COUNTS[row["topic"]])


def is_subsequence(wanted: list[NewRecord], records: list[NewRecord]) -> bool:
    left = iter(records)
    return all(record in left for record in wanted)


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"k" * size for size in range(300)]), max_size=80),
    st.integers(1, 1000),
    st.integers(0, 5),
)
def test_keys_go_where_kafka_s_clients_put_them(keys, partitions, skipped):
    column = pa.array([*[b"skipped"] * skipped, *keys], pa.binary())[skipped:]
    encoded = encode(
        Rows(column, "orders", column), partition_counts={"orders": partitions}, max_batch_bytes=1 << 20, now_ms=NOW_MS
    )
    placed = {}
    for partition, prepared in encoded:
        assert prepared.size_bytes > HEADER_BYTES
        (batch,) = split_batches(prepared.build(**PRODUCER, compression=0))
        placed.update({record.key: partition.partition for record in batch.records()})
    assert placed == {key: partition_for_key(key, partitions) for key in keys}
