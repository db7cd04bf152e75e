"""Record batches: what each step costs, beside kafka-python's own code where it takes the same step.

Every round measures all rows in turn; the table shows the median round and the fastest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from crc32c import crc32c
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from rich.console import Console
from rich.table import Table

from eagleray.protocol.records import (
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    build_batch,
    build_marker,
    check_client_batch,
    decode_header,
    place_in,
    placed_prefix,
    rebuild_batch,
    split_batches,
    stamp_append_time,
)

ROUNDS = 7
ROUND_SECONDS = 0.02
NOW_MS = 1_700_000_000_000

Step = tuple[str, int, Callable[[], object]]
"""A name, how many things one call handles, and the call."""


def main() -> None:
    console = Console()
    console.print(step_table("Batches as the broker handles them", "µs", broker_steps()))
    console.print(step_table("Records as a client handles them", "µs a record", client_steps()))


def broker_steps() -> list[Step]:
    small = _batch(1, 130)
    large = _batch(100, 150)
    (small_batch,), (large_batch,) = split_batches(small), split_batches(large)
    marker = EndTransactionMarker(True, 3)
    marker_bytes = build_marker(marker, producer_id=7, producer_epoch=1, timestamp_ms=NOW_MS)
    (marker_batch,) = split_batches(marker_bytes)
    buffer = bytearray(small)
    return [
        ("decode_header", 1, lambda: decode_header(small)),
        (f"crc32c of {len(small)} B", 1, lambda: crc32c(small)),
        (f"crc32c of {len(large):,} B", 1, lambda: crc32c(large)),
        (f"split_batches, {len(small)} B", 1, lambda: split_batches(small)),
        (f"split_batches, {len(large):,} B", 1, lambda: split_batches(large)),
        (f"split_batches, 64 of {len(small)} B, each", 64, _split(small * 64)),
        ("check_client_batch", 1, lambda: check_client_batch(small_batch)),
        ("placed_prefix", 1, lambda: placed_prefix(small_batch.header, 5, 1)),
        ("place_in", 1, lambda: place_in(buffer, 0, 5, 1)),
        (f"stamp_append_time, {len(large):,} B", 1, lambda: stamp_append_time(large_batch, NOW_MS)),
        (
            "build_marker",
            1,
            lambda: build_marker(marker, producer_id=7, producer_epoch=1, timestamp_ms=NOW_MS),
        ),
        ("end_transaction_marker", 1, marker_batch.end_transaction_marker),
    ]


def client_steps() -> list[Step]:
    one, hundred = _records(1, 130), _records(100, 150)
    with_headers = [NewRecord(it.value, it.key, it.timestamp, (("name", b"value"),)) for it in hundred]
    plain = build_batch(hundred)
    (plain_batch,) = split_batches(plain)
    (headers_batch,) = split_batches(build_batch(with_headers))
    retained = plain_batch.records()[::2]
    steps: list[Step] = [
        ("build_batch, 1 record", 1, lambda: build_batch(one)),
        ("build_batch, 100 records", 100, lambda: build_batch(hundred)),
        ("kafka-python builds 100 records", 100, lambda: _build_with_kafka_python(hundred)),
        ("records(), 100 records", 100, plain_batch.records),
        ("records(), with a header each", 100, headers_batch.records),
        ("kafka-python reads 100 records", 100, lambda: list(MemoryRecords(plain).next_batch())),
        ("rebuild_batch, 50 of 100 kept", 50, lambda: rebuild_batch(plain_batch, retained, delete_horizon_ms=None)),
    ]
    for codec in list(CompressionType)[1:]:
        (batch,) = split_batches(build_batch(hundred, compression=codec))
        steps.append((f"build_batch, 100 records, {codec.name.lower()}", 100, _build(hundred, codec)))
        steps.append((f"records(), {codec.name.lower()}", 100, batch.records))
    return steps


def step_table(title: str, unit: str, steps: list[Step]) -> Table:
    table = Table("step", f"{unit}, median", "fastest", title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    rounds = [[_microseconds(call) / count for _, count, call in steps] for _ in range(ROUNDS)]
    for (name, _, _), times in zip(steps, zip(*rounds, strict=True), strict=True):
        table.add_row(name, f"{statistics.median(times):.2f}", f"{min(times):.2f}")
    return table


def _microseconds(call: Callable[[], object]) -> float:
    """Return the time of one call, from as many as fill a round."""
    calls = 0
    start = now = time.perf_counter()
    while now - start < ROUND_SECONDS:
        for _ in range(50):
            call()
        calls += 50
        now = time.perf_counter()
    return (now - start) / calls * 1e6


def _records(count: int, value_bytes: int) -> list[NewRecord]:
    value = bytes(range(256)) * (value_bytes // 256 + 1)
    return [NewRecord(value[:value_bytes], b"key-%04d" % index, NOW_MS + index) for index in range(count)]


def _batch(count: int, value_bytes: int) -> bytes:
    return build_batch(
        _records(count, value_bytes), producer_id=7, producer_epoch=1, base_sequence=0, transactional=True
    )


def _build(records: list[NewRecord], codec: CompressionType) -> Callable[[], object]:
    return lambda: build_batch(records, compression=codec)


def _split(data: bytes) -> Callable[[], object]:
    return lambda: split_batches(data)


def _build_with_kafka_python(records: list[NewRecord]) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2**20)
    for record in records:
        builder.append(timestamp=record.timestamp, key=record.key, value=record.value, headers=[])
    builder.close()
    return bytes(builder.buffer())


if __name__ == "__main__":
    main()
