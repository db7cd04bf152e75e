"""What a broker demands of the header of a batch before it takes it from a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagleray.protocol.errors import InvalidRecord, InvalidTimestamp, UnsupportedCompression
from eagleray.protocol.records.header import (
    APPEND_TIME_BIT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    KNOWN_ATTRIBUTES_MASK,
    TRANSACTIONAL_BIT,
    BatchHeader,
    CompressionType,
)

if TYPE_CHECKING:
    from eagleray.protocol.records.batch import RecordBatch

_BROKER_ONLY_BITS = APPEND_TIME_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
_REFUSED_BITS = ~KNOWN_ATTRIBUTES_MASK | _BROKER_ONLY_BITS
_LAST_CODEC = int(max(CompressionType))


def check_client_batch(batch: RecordBatch) -> None:
    """Check the header of a batch that a client has sent; the records are for `check_records`.

    Raises InvalidRecord, InvalidTimestamp or UnsupportedCompression when a broker must not take it.
    """
    header = batch.header
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"a batch of {header.record_count} records has last offset delta {header.last_offset_delta}"
        )
    if header.attributes & _REFUSED_BITS:
        _refuse_attributes(header)
    if header.attributes & COMPRESSION_MASK > _LAST_CODEC:
        raise UnsupportedCompression(f"there is no compression codec {header.attributes & COMPRESSION_MASK}")
    _check_producer(header)


def _refuse_attributes(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecord("only a broker writes control batches")
    if header.has_delete_horizon:
        raise InvalidRecord("only compaction sets a delete horizon")
    if header.attributes & ~KNOWN_ATTRIBUTES_MASK:
        raise InvalidRecord(f"the attributes {header.attributes & 0xFFFF:#06x} have bits without a meaning")
    raise InvalidTimestamp("only a broker sets the append time")


def _check_producer(header: BatchHeader) -> None:
    if header.producer_id >= 0:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise InvalidRecord(
                f"producer {header.producer_id} sends epoch {header.producer_epoch} and sequence {header.base_sequence}"
            )
    elif header.attributes & TRANSACTIONAL_BIT:
        raise InvalidRecord("a transactional batch has no producer id")
