"""Snapshots of the producer state, in the format of Kafka's `.snapshot`, so that recovery need not read the whole log.

Version (int16, 1), CRC32C of what follows it (uint32), count (int32), then for each producer: id, epoch, the last batch
(last sequence, last offset, offset delta, timestamp), coordinator epoch, first offset of its open transaction. Only the
last batch of a producer is kept; the others of the five come back from the log behind the snapshot.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import crc32c

from eagleray.broker.log.producer_entry import LAST_SEQUENCE, NO_OFFSET, CachedBatch, ProducerEntry

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the bytes of a snapshot file."""
    packed = [_pack_entry(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(_VERSION, crc32c.crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry] | None:
    """Read a snapshot file; None where it is torn, damaged or of another version, and an older one has to serve."""
    if len(data) < _PREFIX.size + _COUNT.size:
        return None
    version, checksum = _PREFIX.unpack_from(data)
    body = memoryview(data)[_PREFIX.size :]
    if version != _VERSION or crc32c.crc32c(body) != checksum:
        return None
    (count,) = _COUNT.unpack_from(body)
    rows = body[_COUNT.size :]
    if len(rows) != count * _ENTRY.size:
        return None
    return [_unpack_entry(row) for row in _ENTRY.iter_unpack(rows)]


def _pack_entry(entry: ProducerEntry) -> bytes:
    if entry.batches:
        last = entry.batches[-1]
        batch = (last.last_sequence, last.last_offset, last.last_offset - last.first_offset)
    else:
        batch = (-1, NO_OFFSET, 0)
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        *batch,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.open_since_offset,
    )


def _unpack_entry(row: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, opened = row
    entry = ProducerEntry(producer_id, epoch)
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp_ms = timestamp_ms
    entry.open_since_offset = opened
    if last_offset != NO_OFFSET:
        first_sequence = _sequence_before(last_sequence, offset_delta)
        first_offset = last_offset - offset_delta
        entry.remember(CachedBatch(first_sequence, last_sequence, first_offset, last_offset, timestamp_ms))
    return entry


def _sequence_before(sequence: int, steps: int) -> int:
    if sequence < 0:
        return sequence
    return sequence - steps if sequence >= steps else LAST_SEQUENCE - (steps - sequence) + 1
