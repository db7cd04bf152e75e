"""Records to Arrow columns and back, beside the decoder and builder of single records.

`python -m benchmarks.columnar` takes 20,000 rows with values of 200 bytes, in batches of several sizes. The targets are
0.6 µs a row for decoding and 0.8 µs for encoding, in batches of a hundred records and more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.report import Row, measure, rounds_table
from eagleray.client.producer.partitioner import partition_for_key
from eagleray.pipelines.columnar import RecordColumns, Rows, decode, encode
from eagleray.pipelines.columnar.headers import HEADERS
from eagleray.protocol.records import BatchBuilder, CompressionType, NewRecord, RecordBatch, build_batch, split_batches

ROWS = 20_000
PARTITIONS = 8
NOW_MS = 1_700_000_000_000
BATCH_BYTES = 128 * 1024


def main() -> None:
    console = Console()
    console.print(rounds_table("Record batches to columns, µs a row: at most 0.6", decoding_rows()))
    console.print(rounds_table("Columns to record batches, µs a row: at most 0.8", encoding_rows()))


def decoding_rows() -> list[Row]:
    columns = RecordColumns("orders", 0, 0, ROWS)
    with_headers = RecordColumns("orders", 0, 0, ROWS, include_headers=True)
    hundreds = _batches(100)
    rows = [
        _per_row(f"batches of {length:,}, values of {kind}", partial(decode, _batches(length, spread), columns))
        for length in (1, 5, 100, 1000, ROWS)
        for spread, kind in ((0, "200 bytes"), (100, "150 to 250"))
    ]
    return [
        *rows,
        _per_row("batches of 100, zstd", partial(decode, _batches(100, codec=CompressionType.ZSTD), columns)),
        _per_row("batches of 100, 2 headers", partial(decode, _batches(100, headers=2), with_headers)),
        _per_row("batches of 100, one by one: RecordBatch.records()", lambda: [b.records() for b in hundreds]),
    ]


def encoding_rows() -> list[Row]:
    value = pa.array(_values(0), pa.binary())
    key = pa.array(_keys(), pa.binary())
    timestamp = pa.array(np.arange(ROWS) + NOW_MS).view(pa.timestamp("ms"))
    headers = pa.array([[{"key": "name", "value": b"value"}] * 2] * ROWS, HEADERS)
    kinds = {
        "without keys": Rows(value, "orders"),
        "keys": Rows(value, "orders", key),
        "keys and times": Rows(value, "orders", key, timestamp=timestamp),
        "keys and 2 headers": Rows(value, "orders", key, headers),
    }
    measured = [
        _per_row(f"{name}, in batches of {size >> 10} KiB", partial(_encode, rows, size))
        for name, rows in kinds.items()
        for size in (16 * 1024, 1024 * 1024)
    ]
    return [*measured, _per_row("keys, one by one: BatchBuilder", partial(_encode_one_by_one, _keys(), _values(0)))]


def _per_row(name: str, operation: Callable[[], object]) -> Row:
    row = measure(name, operation, 1)
    return Row(row.name, tuple(microseconds / ROWS for microseconds in row.microseconds))


def _encode(rows: Rows, max_batch_bytes: int) -> list[bytes]:
    encoded = encode(rows, partition_counts={"orders": PARTITIONS}, max_batch_bytes=max_batch_bytes, now_ms=NOW_MS)
    return [
        prepared.build(
            producer_id=1, producer_epoch=0, base_sequence=0, transactional=True, compression=CompressionType.NONE
        )
        for _, prepared in encoded
    ]


def _encode_one_by_one(keys: list[bytes], values: list[bytes]) -> list[bytes]:
    builders = [BatchBuilder(BATCH_BYTES) for _ in range(PARTITIONS)]
    built = []
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        partition = partition_for_key(key, PARTITIONS)
        record = NewRecord(value, key, NOW_MS + index)
        if not builders[partition].add(record):
            built.append(builders[partition].build())
            builders[partition] = BatchBuilder(BATCH_BYTES)
            builders[partition].add(record)
    return built


def _batches(
    length: int, spread: int = 0, *, codec: CompressionType = CompressionType.NONE, headers: int = 0
) -> list[RecordBatch]:
    records = [
        NewRecord(value, key, NOW_MS + index // 10, (("name", b"value"),) * headers)
        for index, (key, value) in enumerate(zip(_keys(), _values(spread), strict=True))
    ]
    built = (
        build_batch(records[first : first + length], base_offset=first, compression=codec)
        for first in range(0, ROWS, length)
    )
    return split_batches(b"".join(built))


def _keys() -> list[bytes]:
    return [b"key-%06d" % index for index in range(ROWS)]


def _values(spread: int) -> list[bytes]:
    noise = os.urandom(1 << 20)
    return [noise[index : index + 200 - spread // 2 + index * 7919 % (spread + 1)] for index in range(ROWS)]


if __name__ == "__main__":
    main()
