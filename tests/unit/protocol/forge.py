"""Batches that no builder makes: any block of records under any header, with a checksum that fits."""

from crc32c import crc32c

from eagleray.protocol.records import HEADER_BYTES, LOG_OVERHEAD_BYTES, RecordBatch, split_batches
from eagleray.protocol.records.header import ATTRIBUTES_POSITION, HEADER


def forge_bytes(
    block: bytes = b"",
    *,
    base_offset: int = 0,
    batch_length: int | None = None,
    leader_epoch: int = -1,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int = 0,
    base_timestamp: int = 0,
    max_timestamp: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    record_count: int = 1,
) -> bytes:
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES + len(block) if batch_length is None else batch_length

    def header(crc: int) -> bytes:
        return HEADER.pack(
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )

    return header(crc32c((header(0) + block)[ATTRIBUTES_POSITION:])) + block


def forge(block: bytes = b"", **fields: int) -> RecordBatch:
    (batch,) = split_batches(forge_bytes(block, **fields))
    return batch
