"""Reads: a slice of the log for a fetch, and offsets by timestamp."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import RecordBatch

if TYPE_CHECKING:
    from eagleray.broker.log.segment import Segment


class Isolation(enum.IntEnum):
    """Up to where a reader sees the log; the numbers are those of Kafka's fetch request."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class LogSlice(msgspec.Struct, frozen=True, kw_only=True):
    """What one read of a partition gives, with what a fetch response says beside the records."""

    records: bytes
    """Batches from the one that holds the offset asked for; the last may be cut short by the size limit."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTransaction]
    """At read_committed: whose records in the slice a consumer has to leave out."""


class TimestampedOffset(msgspec.Struct, frozen=True, gc=False):
    """A record found by its timestamp."""

    timestamp_ms: int
    offset: int


def read_records(
    segments: Sequence[Segment], first: int, offset: int, end_offset: int, max_bytes: int
) -> tuple[bytes, int]:
    """Read from `offset` to before `end_offset`, from the first segment at or behind `first` that has something.

    Returns the bytes and an offset at or behind the end of what they hold. The first batch is whole even where it is
    larger than `max_bytes`, because a reader would otherwise never get past it.
    """
    for number in range(first, len(segments)):
        segment = segments[number]
        start = segment.locate(offset) if segment.base_offset < end_offset else None
        if start is None:
            # Compaction can leave a segment without a batch at or behind an offset that lies in its range.
            continue
        if start.base_offset >= end_offset:
            break
        stop_position, upper_offset = _end_of_read(segments, number, end_offset, start.position)
        length = min(max(max_bytes, start.size_bytes), stop_position - start.position)
        if start.position + length < stop_position:
            bound = segment.offset_index.offset_past_position(start.position + length)
            upper_offset = upper_offset if bound is None else bound
        return segment.read(start.position, length), min(upper_offset, end_offset)
    return b"", offset


def collect_aborted(
    segments: Sequence[Segment], first: int, start_offset: int, end_offset: int
) -> list[AbortedTransaction]:
    """Return the aborted transactions that touch a range of offsets, from all segments whose indexes may know."""
    found: list[AbortedTransaction] = []
    for segment in segments[first:]:
        search = segment.transaction_index.search(start_offset, end_offset)
        found += search.transactions
        if search.is_complete:
            break
    return found


def find_by_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampedOffset | None:
    """Return the first record from `start_offset` to before `end_offset` that is at least as young as a timestamp."""
    for segment in segments:
        if segment.largest_timestamp_ms < timestamp_ms:
            continue
        start = segment.locate(segment.time_index.offset_before(timestamp_ms))
        for batch_position, header in segment.headers(start.position) if start is not None else ():
            if header.base_offset >= end_offset:
                return None
            if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
                continue
            batch = RecordBatch(memoryview(segment.read(batch_position, header.size_bytes)), header)
            try:
                records = batch.records()
            except ProtocolError:
                # Unless the disk has changed it, an older version took it from a client as it is. The reader that
                # begins with it is told what is wrong.
                batch.verify_crc()
                return TimestampedOffset(header.max_timestamp, max(header.base_offset, start_offset))
            for record in records:
                if record.timestamp >= timestamp_ms and start_offset <= record.offset < end_offset:
                    return TimestampedOffset(record.timestamp, record.offset)
    return None


def find_largest_timestamp(segments: Sequence[Segment], start_offset: int, end_offset: int) -> TimestampedOffset | None:
    """Return the first record that carries the largest timestamp of the log."""
    stamped = [segment for segment in segments if segment.largest_timestamp_ms >= 0]
    if not stamped:
        return None
    largest_ms = max(segment.largest_timestamp_ms for segment in stamped)
    return find_by_timestamp(segments, largest_ms, start_offset, end_offset)


def _end_of_read(segments: Sequence[Segment], number: int, end_offset: int, from_position: int) -> tuple[int, int]:
    """Return the position in a segment where a read has to stop, and an offset that nothing before it reaches."""
    segment = segments[number]
    is_last = number + 1 == len(segments)
    if not is_last and segments[number + 1].base_offset <= end_offset:
        return segment.size_bytes, segments[number + 1].base_offset
    stop = segment.locate(end_offset, from_position=from_position)
    return (segment.size_bytes if stop is None else stop.position), end_offset
