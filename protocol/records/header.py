"""The header of a record batch (magic 2): thirteen fields in 61 bytes, decoded at once.

offset  bytes  field
     0      8  base offset               assigned by the leader
     8      4  batch length              the bytes that follow this field
    12      4  partition leader epoch    assigned by the leader
    16      1  magic                     2
    17      4  CRC-32C                   of everything from the attributes to the end
    21      2  attributes                bits 0-2 compression, 3 append time, 4 transactional, 5 control,
                                         6 delete horizon
    23      4  last offset delta
    27      8  base timestamp            the delete horizon, when bit 6 is set
    35      8  max timestamp
    43      8  producer id
    51      2  producer epoch
    53      4  base sequence
    57      4  record count
    61         the records, compressed as one block
"""

from __future__ import annotations

import enum
import struct
from typing import NoReturn, TypeAlias

import msgspec

from eagleray.protocol.errors import CorruptRecord, UnsupportedCompression, UnsupportedMessageFormat

BytesLike: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""The base offset and the length, which the length itself does not count."""
PLACEMENT_BYTES = 16
"""The base offset, length and leader epoch: what a leader writes and the CRC does not cover."""
ATTRIBUTES_POSITION = 21
"""Where the bytes that the CRC covers begin."""

MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40
KNOWN_ATTRIBUTES_MASK = 0x7F

HEADER = struct.Struct(">qiibIhiqqqhii")
PLACEMENT = struct.Struct(">qii")

_MAGIC_POSITION = 16
_MIN_BATCH_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES
_MIN_OLD_MESSAGE_LENGTH = 14
_SEQUENCE_MASK = 0x7FFFFFFF


class CompressionType(enum.IntEnum):
    """How the records of a batch are compressed, as numbered in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_attributes(cls, attributes: int) -> CompressionType:
        """Return the codec that a batch's attributes name."""
        number = attributes & COMPRESSION_MASK
        if number > CompressionType.ZSTD:
            raise UnsupportedCompression(f"there is no compression codec {number}")
        return _CODECS[number]


_CODECS = tuple(CompressionType)


class TimestampType(enum.IntEnum):
    """Who set the timestamps of a batch: the producer, record by record, or the broker, for all at once."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch's header, as on the wire. Timestamps are milliseconds of the Unix epoch."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch on the wire and on disk, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record, also when compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The base offset of the batch that follows."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, which goes on at 0 after 2^31-1; -1 when there are none."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK

    @property
    def compression(self) -> CompressionType:
        """The codec of the records; raises UnsupportedCompression for a number that is none."""
        return CompressionType.from_attributes(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction; markers do as well."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker of the broker instead of records of an application."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction has set the time at which the batch's tombstones or marker may go."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time at which the batch's tombstones or marker may go, None while it is not decided."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer sent the batch."""
        return self.producer_id > NO_PRODUCER_ID


def decode_header(buffer: BytesLike, position: int = 0) -> BatchHeader:
    """Decode the header at `position`.

    Raises CorruptRecord when the buffer ends too early or the length cannot be one of a batch, and
    UnsupportedMessageFormat for the message sets before magic 2. Whether the buffer holds the whole batch
    is for the caller to check.
    """
    try:
        header = BatchHeader(*HEADER.unpack_from(buffer, position))
    except struct.error:
        _refuse_short(buffer, position)
    if header.magic != MAGIC or header.batch_length < _MIN_BATCH_LENGTH:
        _refuse(header.magic, header.batch_length, position)
    return header


def _refuse_short(buffer: BytesLike, position: int) -> NoReturn:
    # A message of an old format can be shorter than a header. Its sender deserves to hear about the format.
    available = len(buffer) - position
    if available > _MAGIC_POSITION:
        _, length, _ = PLACEMENT.unpack_from(buffer, position)
        _refuse_old_format(buffer[position + _MAGIC_POSITION], length)
    raise CorruptRecord(f"{available} bytes at {position} are too few for the header of a record batch")


def _refuse(magic: int, batch_length: int, position: int) -> NoReturn:
    _refuse_old_format(magic, batch_length)
    if magic != MAGIC:
        raise CorruptRecord(f"no record batch has magic {magic} (at {position})")
    raise CorruptRecord(f"no record batch has length {batch_length} (at {position})")


def _refuse_old_format(magic: int, length: int) -> None:
    if magic in (0, 1) and length >= _MIN_OLD_MESSAGE_LENGTH:
        raise UnsupportedMessageFormat(f"message sets with magic {magic} are not supported, only magic {MAGIC}")
