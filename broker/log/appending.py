"""Appends: many batches checked one by one and written together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.config import LogConfig, TimestampType
from eagleray.broker.log.producer_state import CachedBatch, Origin, Rejection
from eagleray.broker.log.recovery import apply_batch, index_completed
from eagleray.broker.log.segment import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, Segment
from eagleray.broker.log.tail import TAIL_BYTES
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import (
    LOG_OVERHEAD_BYTES,
    PLACEMENT_BYTES,
    BatchHeader,
    BytesLike,
    EndTransactionMarker,
    RecordBatch,
    build_keyed_batch,
    build_marker,
    decode_header,
    placed_prefix,
    stamp_append_time,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagleray.broker.log.partition_log import PartitionLog

_ALWAYS = 2**63
_NEVER = NO_TIMESTAMP - 1


class Appended(msgspec.Struct, frozen=True, gc=False):
    """A batch that is in the log, from this append or, for an exact repeat, from an earlier one."""

    base_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP
    """When the log's clock stamped the batch, or -1 where the producer's timestamps stand."""

    is_duplicate: bool = False


class NewMarker(msgspec.Struct, frozen=True, gc=False):
    """A marker that a transaction coordinator wants in this partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 1


class AppendRun:
    """One coalesced append: each batch is decided on the state that the batches before it leave behind.

    The state in memory runs ahead of the file until `write` returns. Where `write` raises, the log has to take its
    state from the file again.
    """

    __slots__ = (
        "_buffers",
        "_earliest_ms",
        "_first_offset",
        "_last_possible_offset",
        "_latest_epoch",
        "_latest_ms",
        "_leader_epoch",
        "_log",
        "_max_batch_bytes",
        "_max_index_bytes",
        "_max_segment_bytes",
        "_now_ms",
        "_position",
        "_producers",
        "_roll_after_ms",
        "_segment",
        "_stamps_append_time",
    )

    def __init__(self, log: PartitionLog, leader_epoch: int, now_ms: int) -> None:
        config = log.config
        self._log = log
        self._producers = log.producers
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._max_segment_bytes = config.segment_bytes
        self._max_index_bytes = config.segment_index_bytes
        self._latest_epoch = log.epochs.latest_epoch
        self._buffers: list[BytesLike] = []
        self._first_offset = log.log_end_offset
        self._enter(log.active_segment)

    def _enter(self, segment: Segment) -> None:
        """Work out once what a segment has room for, for all the batches of this run that go into it."""
        self._segment = segment
        self._position = segment.size_bytes
        self._last_possible_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        self._roll_after_ms = self._end_of_segment_ms()

    def add_all(self, batches: Sequence[RecordBatch], origin: Origin) -> list[Appended | Rejection]:
        """Decide about data batches, one after the other, and stage them."""
        config = self._log.config
        self._max_batch_bytes = _max_batch_bytes(config)
        self._earliest_ms = self._now_ms - config.message_timestamp_before_max_ms
        self._latest_ms = self._now_ms + config.message_timestamp_after_max_ms
        self._stamps_append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return [self._add(batch, origin) for batch in batches]

    def _add(self, batch: RecordBatch, origin: Origin) -> Appended | Rejection:
        header = batch.header
        if header.batch_length + LOG_OVERHEAD_BYTES > self._max_batch_bytes:
            return _too_large(header.size_bytes, self._log.config)
        if not self._earliest_ms <= header.max_timestamp <= self._latest_ms and self._is_untimely(header):
            return self._untimely(header)
        has_producer = header.producer_id >= 0
        if has_producer:
            verdict = self._producers.check_data(header, origin)
            if verdict is not None:
                return self._answer_of(verdict)
        append_time_ms = NO_TIMESTAMP
        if self._stamps_append_time:
            append_time_ms = self._now_ms
            batch = _stamped(batch, append_time_ms)
            header = batch.header
        base_offset = self._log.log_end_offset
        last_offset = self._place(header, base_offset)
        self._buffers += (placed_prefix(header, base_offset, self._leader_epoch), batch.view[PLACEMENT_BYTES:])
        if has_producer:
            self._producers.apply_data(header, base_offset)
        return Appended(base_offset, last_offset, append_time_ms)

    def add_marker(self, new: NewMarker) -> Appended | Rejection:
        """Decide about one marker and stage it."""
        offset = self._log.log_end_offset
        marker = EndTransactionMarker(new.commit, new.coordinator_epoch)
        data = build_marker(
            marker,
            producer_id=new.producer_id,
            producer_epoch=new.producer_epoch,
            timestamp_ms=self._now_ms,
            base_offset=offset,
            leader_epoch=self._leader_epoch,
        )
        header = decode_header(data)
        rejection = self._producers.check_marker(header, marker, transaction_version=new.transaction_version)
        if rejection is not None:
            return rejection
        self._place(header, offset)
        self._buffers.append(data)
        index_completed(self._segment, self._producers.apply_marker(header, marker, offset))
        return Appended(offset, offset)

    def add_records(self, records: Sequence[tuple[bytes, bytes | None]]) -> Appended | Rejection:
        """Stage one batch of the broker's own records."""
        base_offset = self._log.log_end_offset
        data = build_keyed_batch(
            records, timestamp_ms=self._now_ms, base_offset=base_offset, leader_epoch=self._leader_epoch
        )
        size_bytes, last_offset = len(data), base_offset + len(records) - 1
        if size_bytes > _max_batch_bytes(self._log.config):
            return _too_large(size_bytes, self._log.config)
        self._take_room(base_offset, last_offset, size_bytes, self._now_ms)
        self._buffers.append(data)
        return Appended(base_offset, last_offset)

    def add_replicated(self, batch: RecordBatch) -> Appended | Rejection:
        """Stage a batch that another log has placed already: its offsets and leader epoch stay as they are."""
        header = batch.header
        base_offset = header.base_offset
        if base_offset < self._log.log_end_offset:
            return Rejection(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"a replicated batch begins at offset {base_offset}, but the log already ends at "
                f"{self._log.log_end_offset}: truncate it to the leader's epochs first",
            )
        self._leader_epoch = header.partition_leader_epoch
        last_offset = self._place(header, base_offset)
        self._buffers.append(batch.view)
        if header.producer_id >= 0:
            completed = apply_batch(self._producers, batch)
            if completed is not None:
                index_completed(self._segment, completed)
        return Appended(base_offset, last_offset)

    def write(self) -> None:
        """Write what was staged in one go."""
        if not self._buffers:
            return
        buffers, self._buffers = self._buffers, []
        size_bytes, tail = self._position - self._segment.size_bytes, self._log.tail
        if size_bytes > TAIL_BYTES:
            self._segment.append(buffers, size_bytes)
            tail.clear()
            return
        # Copying so little costs less than to tell the system where each piece of it lies.
        data = b"".join(buffers)
        self._segment.append((data,), size_bytes)
        if tail.is_wanted:
            tail.add(self._first_offset, data)

    def _place(self, header: BatchHeader, base_offset: int) -> int:
        """Give a batch its place behind what is staged; return its last offset."""
        last_offset = base_offset + header.last_offset_delta
        # A leader's compaction leaves batches without a record that could be found by its timestamp.
        timestamp_ms = header.max_timestamp if header.record_count else NO_TIMESTAMP
        self._take_room(base_offset, last_offset, header.batch_length + LOG_OVERHEAD_BYTES, timestamp_ms)
        return last_offset

    def _take_room(self, base_offset: int, last_offset: int, size_bytes: int, timestamp_ms: int) -> None:
        """Put a batch behind what is staged, rolling the segment if it must."""
        if last_offset > self._last_possible_offset or (
            self._position
            and (
                self._position + size_bytes > self._max_segment_bytes
                or timestamp_ms > self._roll_after_ms
                or self._segment.index_bytes >= self._max_index_bytes
            )
        ):
            self._roll(base_offset, last_offset)
        if self._leader_epoch > self._latest_epoch:
            # Where a leader has compacted away what lay between, this may have been the epoch of it. Nobody may take
            # it for that of the records before: another log that has such records there would seem to agree.
            self._log.epochs.assign(self._leader_epoch, self._log.log_end_offset)
            self._latest_epoch = self._leader_epoch
        position = self._position
        self._segment.note_batch(position, size_bytes, last_offset, timestamp_ms)
        self._position = position + size_bytes
        if not position:
            self._roll_after_ms = self._end_of_segment_ms()
        self._log.log_end_offset = last_offset + 1

    def _roll(self, base_offset: int, last_offset: int) -> None:
        self.write()
        # A segment begins where the last one ends, even if the leader has compacted away what lay between.
        end_offset = self._first_offset = self._log.log_end_offset
        has_room = last_offset - end_offset <= MAX_RELATIVE_OFFSET
        self._enter(self._log.roll(end_offset if has_room else base_offset, self._now_ms))

    def _end_of_segment_ms(self) -> int:
        """The largest timestamp that still belongs into the segment, by its first batch or else by the clock."""
        segment, segment_ms = self._segment, self._log.config.roll_ms
        if segment.first_timestamp_ms >= 0:
            return segment.first_timestamp_ms + segment_ms
        return _ALWAYS if self._now_ms - segment.created_ms <= segment_ms else _NEVER

    def _answer_of(self, verdict: CachedBatch | Rejection) -> Appended | Rejection:
        """Return the rejection, or for a repeated batch what it was answered the first time."""
        if isinstance(verdict, Rejection):
            return verdict
        append_time_ms = verdict.timestamp_ms if self._stamps_append_time else NO_TIMESTAMP
        return Appended(verdict.first_offset, verdict.last_offset, append_time_ms, is_duplicate=True)

    def _is_untimely(self, header: BatchHeader) -> bool:
        return header.max_timestamp != NO_TIMESTAMP and not self._stamps_append_time

    def _untimely(self, header: BatchHeader) -> Rejection:
        return Rejection(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} is outside of {self._earliest_ms} to {self._latest_ms}: see "
            f"message.timestamp.before.max.ms and message.timestamp.after.max.ms",
        )


def _max_batch_bytes(config: LogConfig) -> int:
    return min(config.max_message_bytes, config.segment_bytes)


def _stamped(batch: RecordBatch, timestamp_ms: int) -> RecordBatch:
    data = stamp_append_time(batch, timestamp_ms)
    return RecordBatch(memoryview(data), decode_header(data))


def _too_large(size_bytes: int, config: LogConfig) -> Rejection:
    if size_bytes > config.max_message_bytes:
        return Rejection(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size_bytes} bytes is larger than max.message.bytes ({config.max_message_bytes}): "
            f"send smaller batches or raise the topic's limit",
        )
    return Rejection(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"a batch of {size_bytes} bytes does not fit into a segment of segment.bytes ({config.segment_bytes}): "
        f"send smaller batches or raise the topic's segment size",
    )
