"""Building batches: for producers, for transaction markers, and again from what compaction keeps."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypedDict, Unpack

from crc32c import crc32c

from eagleray.protocol.records.compression import compress
from eagleray.protocol.records.control import CONTROL_KEY_VERSION, MARKER_VALUE_VERSION
from eagleray.protocol.records.header import (
    APPEND_TIME_BIT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    CompressionType,
    TimestampType,
)
from eagleray.protocol.records.record import NO_TIMESTAMP, NewRecord, Record, encode_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagleray.protocol.records.batch import RecordBatch
    from eagleray.protocol.records.control import EndTransactionMarker
    from eagleray.protocol.records.header import BytesLike
    from eagleray.protocol.records.record import Headers

_PREFIX = struct.Struct(">qiibI")
_SUMMED_HEADER = struct.Struct(">hiqqqhii")
"""The part of the header that the CRC covers."""

# A marker always has the same size and shape, so a whole one is packed at once: the summed header, then
# the record's length, attributes, deltas, key length, key, value length, value and header count.
_SUMMED_MARKER = struct.Struct(">hiqqqhiibbbbbhhbhib")
_MARKER_RECORD_LENGTH = 16
_MARKER_KEY_LENGTH = 4
_MARKER_VALUE_LENGTH = 6
_MARKER_BATCH_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES + _MARKER_RECORD_LENGTH + 1
_MARKER_ATTRIBUTES = TRANSACTIONAL_BIT | CONTROL_BIT


class BatchFields(TypedDict, total=False):
    """What the header of a new batch says besides its records. Left out, the offset is 0, and there is no producer."""

    base_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    compression: CompressionType
    timestamp_type: TimestampType
    leader_epoch: int


def build_batch(records: Sequence[NewRecord], **fields: Unpack[BatchFields]) -> bytes:
    """Build one batch with consecutive offsets. With append time, the latest timestamp is that of all."""
    builder = BatchBuilder()
    for record in records:
        builder.add(record)
    return builder.build(**fields)


class BatchBuilder:
    """Collects the records of one batch until it is full.

    Records are encoded as they come, so that the size is known; who produces them and how they are
    compressed is said at the end, because a producer learns its epoch and sequence when it sends.
    """

    __slots__ = ("_base_timestamp", "_encoded", "_max_bytes", "_max_timestamp", "_size_bytes")

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._encoded: list[bytes] = []
        self._size_bytes = HEADER_BYTES
        self._base_timestamp = NO_TIMESTAMP
        self._max_timestamp = NO_TIMESTAMP

    def __len__(self) -> int:
        return len(self._encoded)

    @property
    def size_bytes(self) -> int:
        """The size of the batch without compression, exactly."""
        return self._size_bytes

    def add(self, record: NewRecord) -> bool:
        """Take the record, unless the batch would get larger than it may; the first record always fits."""
        return self.append(record.value, record.key, record.timestamp, record.headers) >= 0

    def append(self, value: bytes | None, key: bytes | None, timestamp: int, headers: Headers) -> int:
        """Take a record and return its place in the batch, or -1 where the batch would get larger than it may.

        The first record always fits: a limit that refused it would leave it without any batch; the broker decides.
        """
        place = len(self._encoded)
        base_timestamp = self._base_timestamp if place else timestamp
        encoded = encode_record(place, timestamp - base_timestamp, key, value, headers)
        size_bytes = self._size_bytes + len(encoded)
        if self._max_bytes is not None and size_bytes > self._max_bytes and place:
            return -1
        self._encoded.append(encoded)
        self._size_bytes = size_bytes
        self._base_timestamp = base_timestamp
        if timestamp > self._max_timestamp or not place:
            self._max_timestamp = timestamp
        return place

    def build(self, **fields: Unpack[BatchFields]) -> bytes:
        """Return the batch of what was added, which has to be something. The builder can be used again."""
        block = b"".join(self._encoded)
        return build_from_block(block, len(self._encoded), self._base_timestamp, self._max_timestamp, **fields)


def build_from_block(
    block: bytes | memoryview,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    compression: CompressionType = CompressionType.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the batch of `count` records that are encoded already, at consecutive offset deltas from zero."""
    if count == 0:
        raise ValueError("a batch needs at least one record")
    attributes = int(compression)
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= APPEND_TIME_BIT
    return _assemble(
        block if compression is CompressionType.NONE else compress(compression, block),
        base_offset,
        leader_epoch,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )


def build_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Build the control batch that ends a producer's transaction in a partition."""
    summed = _SUMMED_MARKER.pack(
        _MARKER_ATTRIBUTES,
        0,  # last offset delta
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,  # record count
        _MARKER_RECORD_LENGTH << 1,  # zigzag varints of one byte, from here to the record's end
        0,  # attributes
        0,  # timestamp delta
        0,  # offset delta
        _MARKER_KEY_LENGTH << 1,
        CONTROL_KEY_VERSION,
        marker.control_type,
        _MARKER_VALUE_LENGTH << 1,
        MARKER_VALUE_VERSION,
        marker.coordinator_epoch,
        0,  # header count
    )
    return _PREFIX.pack(base_offset, _MARKER_BATCH_LENGTH, leader_epoch, MAGIC, crc32c(summed)) + summed


def build_keyed_batch(
    records: Sequence[tuple[bytes, bytes | None]], *, timestamp_ms: int, base_offset: int, leader_epoch: int
) -> bytes:
    """Build a batch of the broker's own records, keys and values alone, of one time and no producer."""
    encoded = [encode_record(offset_delta, 0, key, value) for offset_delta, (key, value) in enumerate(records)]
    count = len(records)
    return _assemble(
        b"".join(encoded),
        base_offset,
        leader_epoch,
        0,  # attributes
        count - 1,
        timestamp_ms,
        timestamp_ms,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        count,
    )


def rebuild_batch(batch: RecordBatch, retained: Sequence[Record], *, delete_horizon_ms: int | None) -> bytes:
    """Build the batch again with only the records that compaction keeps.

    Offsets, sequences and the producer stay as they are, with gaps where records were, because a leader that
    reloads its log learns the producer's state from them. A delete horizon takes the place of the base
    timestamp. When no record is left only the header stays, without codec or horizon.
    """
    header = batch.header
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if not retained:
        attributes &= ~COMPRESSION_MASK
        base_timestamp, max_timestamp, block = NO_TIMESTAMP, header.max_timestamp, b""
    else:
        base_timestamp = retained[0].timestamp
        if delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON_BIT
            base_timestamp = delete_horizon_ms
        max_timestamp = max(record.timestamp for record in retained)
        block = compress(header.compression, _encode_retained(retained, header.base_offset, base_timestamp))
    return _assemble(
        block,
        header.base_offset,
        header.partition_leader_epoch,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        len(retained),
    )


def _encode_retained(retained: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    return b"".join(
        encode_record(
            record.offset - base_offset,
            record.timestamp - base_timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for record in retained
    )


def _assemble(block: BytesLike, base_offset: int, leader_epoch: int, *summed_fields: int) -> bytes:
    summed = _SUMMED_HEADER.pack(*summed_fields)
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(block)
    prefix = _PREFIX.pack(base_offset, length, leader_epoch, MAGIC, crc32c(block, crc32c(summed)))
    return b"".join((prefix, summed, block))
