"""Record batches as views over bytes: found, checked and placed without decoding what is in them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

import msgspec
from crc32c import crc32c

from eagleray.protocol.errors import CorruptRecord, InvalidRecord, ProtocolError
from eagleray.protocol.records.columns import RecordColumns, decode_columns
from eagleray.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, decompress
from eagleray.protocol.records.control import EndTransactionMarker, decode_marker, decode_usual_marker
from eagleray.protocol.records.header import (
    APPEND_TIME_BIT,
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    PLACEMENT,
    BatchHeader,
    BytesLike,
    CompressionType,
    TimestampType,
    decode_header,
)
from eagleray.protocol.records.record import Record, decode_records

Decoded = TypeVar("Decoded")

_CRC_POSITION = 17
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP_POSITION = 35
_MAX_TIMESTAMP = struct.Struct(">q")


class RecordBatch:
    """One batch: its decoded header and a view over exactly its bytes.

    It owns no bytes; it is valid as long as the buffer under the view is not changed. The header was
    checked, the rest only on request.
    """

    __slots__ = ("header", "view")

    def __init__(self, view: memoryview, header: BatchHeader) -> None:
        self.view = view
        self.header = header

    def __repr__(self) -> str:
        return f"RecordBatch({self.header!r})"

    def verify_crc(self) -> None:
        """Raise CorruptRecord unless the bytes are those that the producer checksummed."""
        computed = crc32c(self.view[ATTRIBUTES_POSITION:])
        if computed != self.header.crc:
            raise CorruptRecord(
                f"the batch at offset {self.header.base_offset} says its CRC is {self.header.crc:#010x}, "
                f"but its bytes give {computed:#010x}"
            )

    def records(self, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> list[Record]:
        """Decode the records, with absolute offsets and timestamps.

        Raises InvalidRecord when they cannot be decoded, UnsupportedCompression, and RecordTooLarge when they
        would unpack to more than `max_bytes`. As objects, tiny records take some twenty times their bytes.
        """
        return self._decode(decode_records, max_bytes)

    def columns(self, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> RecordColumns:
        """Decode the records into columns, for a reader of many; raises what `records` does."""
        return self._decode(decode_columns, max_bytes)

    def _decode(self, decode: Callable[..., Decoded], max_bytes: int) -> Decoded:
        header = self.header
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        return decode(
            bytes(self.records_block(max_bytes=max_bytes)),
            header.record_count,
            base_offset=header.base_offset,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            append_timestamp=header.max_timestamp if append_time else None,
        )

    def records_block(self, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> bytes | memoryview:
        """Return the encoded records, unpacked: a view of the batch's own bytes where they are not compressed.

        Raises InvalidRecord when they cannot be unpacked, UnsupportedCompression, and RecordTooLarge.
        """
        codec = self.header.compression
        block = self.view[HEADER_BYTES:]
        # Compaction leaves headers without records, and those have no compressed block either.
        if codec is CompressionType.NONE or not block:
            return block
        return decompress(codec, block, max_bytes=max_bytes)

    def end_transaction_marker(self) -> EndTransactionMarker | None:
        """Return the marker of a control batch, None when its control type is another one."""
        header = self.header
        if not header.is_control:
            raise InvalidRecord(f"the batch at offset {header.base_offset} is not a control batch")
        if header.record_count == 1 and not header.last_offset_delta and not header.attributes & COMPRESSION_MASK:
            marker = decode_usual_marker(self.view[HEADER_BYTES:])
            if marker is not None:
                return marker
        records = self.records()
        if len(records) != 1:
            raise InvalidRecord(f"a control batch has {len(records)} records instead of one")
        return decode_marker(records[0].key, records[0].value)


class Scan(msgspec.Struct, frozen=True):
    """What a buffer holds up to the first batch that is torn or damaged."""

    batches: list[RecordBatch]
    valid_length: int
    """The position in the buffer right after the last good batch."""
    stopped_by: str | None = None
    """Why the scan ended there, None when the buffer ends there."""
    missing_bytes: int = 0
    """How many bytes more the buffer needs at least to tell what comes next; 0 when more would not help."""


def split_batches(buffer: BytesLike, *, verify_crc: bool = True) -> list[RecordBatch]:
    """Return views of the batches of which the buffer consists; it has to consist of whole ones.

    This is for bytes that a peer has sent. Raises CorruptRecord, or UnsupportedMessageFormat for the message
    sets of old clients.
    """
    view = memoryview(buffer)
    size_bytes = len(view)
    batches: list[RecordBatch] = []
    position = 0
    while position < size_bytes:
        header = decode_header(view, position)
        end = position + LOG_OVERHEAD_BYTES + header.batch_length
        if end > size_bytes:
            raise CorruptRecord(f"the batch at {position} ends at {end}, but there are only {size_bytes} bytes")
        batch = RecordBatch(view[position:end], header)
        if verify_crc:
            batch.verify_crc()
        batches.append(batch)
        position = end
    return batches


def check_counts(header: BatchHeader) -> None:
    """Raise CorruptRecord for a batch of a log behind which no reader could go on: the next would begin before it."""
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptRecord(
            f"the batch at offset {header.base_offset} says that it has {header.record_count} records and last offset "
            f"delta {header.last_offset_delta}"
        )


def scan_batches(buffer: BytesLike, position: int = 0, *, verify_crc: bool = True) -> Scan:
    """Find the whole and undamaged batches from `position` on, as after a crash; never raises for damage."""
    view = memoryview(buffer)
    size_bytes = len(view)
    batches: list[RecordBatch] = []
    while position < size_bytes:
        missing_bytes = position + HEADER_BYTES - size_bytes
        if missing_bytes > 0:
            return Scan(batches, position, "the buffer ends inside a header", missing_bytes)
        try:
            header = decode_header(view, position)
            end = position + LOG_OVERHEAD_BYTES + header.batch_length
            if end > size_bytes:
                return Scan(batches, position, "the buffer ends inside a batch", end - size_bytes)
            check_counts(header)
            batch = RecordBatch(view[position:end], header)
            if verify_crc:
                batch.verify_crc()
        except ProtocolError as error:
            return Scan(batches, position, str(error))
        batches.append(batch)
        position = end
    return Scan(batches, position)


def placed_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes of the batch as the leader writes it, to go before `view[16:]`.

    They lie outside of the CRC, so a batch gets its place in the log without a copy or a new checksum.
    """
    return PLACEMENT.pack(base_offset, header.batch_length, leader_epoch)


def place_in(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at `position` its offset and leader epoch in place."""
    _, batch_length, _ = PLACEMENT.unpack_from(buffer, position)
    PLACEMENT.pack_into(buffer, position, base_offset, batch_length, leader_epoch)


def stamp_append_time(batch: RecordBatch, timestamp_ms: int) -> bytes:
    """Return the batch with the broker's time for all of its records, and the CRC that this asks for."""
    return _with_timestamp(batch, timestamp_ms, batch.header.attributes | APPEND_TIME_BIT)


def correct_max_timestamp(batch: RecordBatch, timestamp_ms: int) -> bytes:
    """Return the batch with the largest timestamp that its records have, and the CRC that this asks for."""
    return _with_timestamp(batch, timestamp_ms, batch.header.attributes)


def _with_timestamp(batch: RecordBatch, max_timestamp: int, attributes: int) -> bytes:
    changed = bytearray(batch.view)
    _ATTRIBUTES.pack_into(changed, ATTRIBUTES_POSITION, attributes)
    _MAX_TIMESTAMP.pack_into(changed, _MAX_TIMESTAMP_POSITION, max_timestamp)
    _CRC.pack_into(changed, _CRC_POSITION, crc32c(memoryview(changed)[ATTRIBUTES_POSITION:]))
    return bytes(changed)
