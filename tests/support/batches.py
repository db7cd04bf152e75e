"""Batches in a few words, for tests of the log."""

from collections.abc import Sequence

import msgspec

from eagleray.protocol.records import (
    BatchHeader,
    CompressionType,
    EndTransactionMarker,
    NewRecord,
    Record,
    RecordBatch,
    build_batch,
    build_marker,
    decode_header,
    place_in,
    scan_batches,
    split_batches,
)

NOW_MS = 1_700_000_000_000


def data_batch(
    count: int = 1,
    *,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    timestamps_ms: Sequence[int] = (),
    value: bytes = b"value",
    keys: Sequence[bytes | None] = (),
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: CompressionType = CompressionType.NONE,
) -> RecordBatch:
    """Build a batch of `count` records as a producer sends it; without a producer id it has no sequence either."""
    timestamps = list(timestamps_ms) or [NOW_MS] * count
    names = list(keys) or [None] * count
    records = [
        NewRecord(value, key=key, timestamp=timestamp_ms) for timestamp_ms, key in zip(timestamps, names, strict=True)
    ]
    has_producer = producer_id >= 0
    data = build_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=epoch if has_producer else -1,
        base_sequence=sequence if has_producer else -1,
        transactional=transactional,
        compression=compression,
        leader_epoch=leader_epoch,
    )
    return one_batch(data)


def marker_batch(
    producer_id: int,
    *,
    epoch: int = 0,
    commit: bool = True,
    coordinator_epoch: int = 0,
    timestamp_ms: int = NOW_MS,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> RecordBatch:
    """Build a commit or abort marker as it stands in a log."""
    data = build_marker(
        EndTransactionMarker(commit, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
    )
    return one_batch(data)


def data_header(
    producer_id: int,
    *,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> BatchHeader:
    """Make the header of a producer's batch without its records, for any number of them."""
    batch = data_batch(
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
        timestamps_ms=[timestamp_ms],
    )
    return msgspec.structs.replace(batch.header, last_offset_delta=count - 1, record_count=count)


def marker_header(producer_id: int, *, epoch: int = 0, timestamp_ms: int = NOW_MS) -> BatchHeader:
    """Make the header of a marker."""
    return marker_batch(producer_id, epoch=epoch, timestamp_ms=timestamp_ms).header


def one_batch(data: bytes) -> RecordBatch:
    """View bytes that are exactly one batch."""
    (batch,) = split_batches(data)
    return batch


def whole_batches(data: bytes) -> list[RecordBatch]:
    """Split what a read returned, leaving out a last batch that was cut short."""
    scan = scan_batches(data)
    assert scan.stopped_by is None or scan.missing_bytes, f"not a cut at the end: {scan.stopped_by}"
    return scan.batches


def records_of(data: bytes) -> list[Record]:
    """Decode all records of the whole batches in `data`, markers included."""
    return [record for batch in whole_batches(data) for record in batch.records()]


def offsets_of(data: bytes) -> list[int]:
    """Return the offsets of the records of the whole batches in `data`."""
    return [record.offset for record in records_of(data)]


def placed(batch: RecordBatch, base_offset: int, leader_epoch: int) -> RecordBatch:
    """Return a copy of a batch that stands at an offset, as a leader hands it to its replicas."""
    data = bytearray(batch.view)
    place_in(data, 0, base_offset, leader_epoch)
    return RecordBatch(memoryview(bytes(data)), decode_header(data))
