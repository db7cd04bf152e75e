"""Appends: batches are checked one by one (Kafka's log validation and producer state) and written together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from eagleray.broker.log.batch_locations import MAX_RELATIVE_OFFSET
from eagleray.broker.log.config import LogConfig, TimestampType
from eagleray.broker.log.producer_entry import CachedBatch
from eagleray.broker.log.producer_state import Origin, Rejection
from eagleray.broker.log.recovery import apply_batch, index_completed
from eagleray.broker.log.segment import NO_TIMESTAMP, Segment
from eagleray.broker.log.tail import TAIL_BYTES
from eagleray.broker.log.undoing import AppendUndo
from eagleray.broker.messages import Marker
from eagleray.protocol.errors import ErrorCode, ProtocolError
from eagleray.protocol.records import (
    LOG_OVERHEAD_BYTES,
    PLACEMENT_BYTES,
    BatchHeader,
    BytesLike,
    EndTransactionMarker,
    RecordBatch,
    RecordRules,
    RecordsRefused,
    build_keyed_batch,
    build_marker,
    check_records,
    correct_max_timestamp,
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
    """A batch that is in the log, from this append or, for a duplicate, from an earlier one."""

    base_offset: int
    last_offset: int
    append_time_ms: int = NO_TIMESTAMP
    """When the log's clock stamped the batch, or -1 where the producer's timestamps stand."""

    is_duplicate: bool = False


class AppendRun:
    """One coalesced append: each batch is decided on the state that the batches before it leave behind.

    The state in memory runs ahead of the file until `write` returns. Where anything raises, `undo` takes it back.
    """

    __slots__ = (
        "_buffers",
        "_first_offset",
        "_last_possible_offset",
        "_leader_epoch",
        "_log",
        "_max_index_bytes",
        "_max_segment_bytes",
        "_now_ms",
        "_position",
        "_producers",
        "_roll_after_ms",
        "_rules",
        "_segment",
        "_stamps_append_time",
        "undo",
    )

    def __init__(self, log: PartitionLog, leader_epoch: int, now_ms: int) -> None:
        config = log.config
        self._log = log
        self.undo = AppendUndo.of(log)
        self._producers = log.producers
        self._leader_epoch = leader_epoch
        self._now_ms = now_ms
        self._max_segment_bytes = config.segment_bytes
        self._max_index_bytes = config.segment_index_bytes
        self._buffers: list[BytesLike] = []
        self._first_offset = log.log_end_offset
        self._enter(self.undo.segment)

    def _enter(self, segment: Segment) -> None:
        """Work out once what room a segment has, for all the batches of this run that go into it."""
        self._segment = segment
        self._position = segment.size_bytes
        self._last_possible_offset = segment.base_offset + MAX_RELATIVE_OFFSET
        roll_ms = self._log.roll_ms
        # The largest timestamp that still belongs into the segment, by its first batch or else by the clock.
        if segment.first_timestamp_ms >= 0:
            self._roll_after_ms = segment.first_timestamp_ms + roll_ms
        else:
            self._roll_after_ms = _ALWAYS if self._now_ms - segment.created_ms <= roll_ms else _NEVER

    def add_all(self, batches: Sequence[RecordBatch], origin: Origin) -> list[Appended | Rejection]:
        """Decide about data batches, one after the other, and stage them."""
        config = self._log.config
        self._stamps_append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        # A coordinator has built its batches itself.
        self._rules = _rules_of(self._log, self._now_ms) if origin is Origin.CLIENT else None
        return [self._add(batch, origin) for batch in batches]

    def _add(self, batch: RecordBatch, origin: Origin) -> Appended | Rejection:
        header = batch.header
        if header.batch_length + LOG_OVERHEAD_BYTES > self._log.max_batch_bytes:
            return _too_large(header.size_bytes, self._log.config)
        has_producer = header.producer_id >= 0
        if has_producer:
            verdict = self._producers.check_data(header, origin, self._now_ms)
            if verdict is not None:
                return self._answer_of(header, verdict)
        max_timestamp = header.max_timestamp
        if self._rules is not None:
            try:
                max_timestamp = check_records(batch, self._rules)
            except ProtocolError as error:
                record_errors = error.record_errors if isinstance(error, RecordsRefused) else ()
                return Rejection(error.error_code, str(error), record_errors)
        append_time_ms = NO_TIMESTAMP
        if self._stamps_append_time:
            append_time_ms = self._now_ms
            batch = _decoded(stamp_append_time(batch, append_time_ms))
            header = batch.header
        elif max_timestamp != header.max_timestamp:
            batch = _decoded(correct_max_timestamp(batch, max_timestamp))
            header = batch.header
        base_offset = self._log.log_end_offset
        last_offset = self._place(header, base_offset)
        self._buffers += (placed_prefix(header, base_offset, self._leader_epoch), batch.view[PLACEMENT_BYTES:])
        if has_producer:
            self._producers.apply_data(header, base_offset, self._now_ms)
        return Appended(base_offset, last_offset, append_time_ms)

    def add_markers(self, markers: Sequence[Marker]) -> list[Appended | Rejection]:
        """Decide about markers, one after the other, and stage them."""
        return [self._add_marker(marker) for marker in markers]

    def _add_marker(self, marker: Marker) -> Appended | Rejection:
        rejection = self._producers.check_marker(marker)
        if rejection is not None:
            return rejection
        offset = self._log.log_end_offset
        record = EndTransactionMarker(marker.commit, marker.coordinator_epoch)
        data = build_marker(
            record,
            producer_id=marker.producer.producer_id,
            producer_epoch=marker.producer.epoch,
            timestamp_ms=self._now_ms,
            base_offset=offset,
            leader_epoch=self._leader_epoch,
        )
        header = decode_header(data)
        self._place(header, offset)
        self._buffers.append(data)
        index_completed(self._segment, self._producers.apply_marker(header, record, offset, self._now_ms))
        return Appended(offset, offset)

    def add_records(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[Appended | Rejection]:
        """Stage one batch of the broker's own records."""
        base_offset = self._log.log_end_offset
        data = build_keyed_batch(
            records, timestamp_ms=self._now_ms, base_offset=base_offset, leader_epoch=self._leader_epoch
        )
        size_bytes, last_offset = len(data), base_offset + len(records) - 1
        if size_bytes > self._log.max_batch_bytes:
            return [_too_large(size_bytes, self._log.config)]
        self._take_room(base_offset, last_offset, size_bytes, self._now_ms)
        self._buffers.append(data)
        return [Appended(base_offset, last_offset)]

    def add_replicated(self, batches: Sequence[RecordBatch]) -> list[Appended | Rejection]:
        """Stage batches that another log has placed already: their offsets and leader epochs stay as they are."""
        return [self._add_replicated(batch) for batch in batches]

    def _add_replicated(self, batch: RecordBatch) -> Appended | Rejection:
        header = batch.header
        base_offset = header.base_offset
        if base_offset < self._log.log_end_offset:
            return Rejection(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"a replicated batch begins at offset {base_offset}, but the log already ends at "
                f"{self._log.log_end_offset}: truncate it to the leader's epochs first",
            )
        if base_offset > self._log.log_end_offset:
            self._log.expect_gaps()
        self._leader_epoch = header.partition_leader_epoch
        last_offset = self._place(header, base_offset)
        self._buffers.append(batch.view)
        if header.producer_id >= 0:
            completed = apply_batch(self._producers, batch, self._now_ms)
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
        # Copying so little costs less than telling the system where each piece of it lies.
        data = b"".join(buffers)
        self._segment.append((data,), size_bytes)
        if tail.is_wanted:
            tail.add(self._first_offset, data)

    def _place(self, header: BatchHeader, base_offset: int) -> int:
        last_offset = base_offset + header.last_offset_delta
        # A leader's compaction leaves batches without a record that could be found by its timestamp.
        timestamp_ms = header.max_timestamp if header.record_count else NO_TIMESTAMP
        self._take_room(base_offset, last_offset, header.batch_length + LOG_OVERHEAD_BYTES, timestamp_ms)
        return last_offset

    def _take_room(self, base_offset: int, last_offset: int, size_bytes: int, timestamp_ms: int) -> None:
        if last_offset > self._last_possible_offset or (
            self._position
            and (
                self._position + size_bytes > self._max_segment_bytes
                or timestamp_ms > self._roll_after_ms
                or self._segment.index_bytes >= self._max_index_bytes
            )
        ):
            self._roll(base_offset, last_offset)
        if self._leader_epoch > self._log.epochs.latest_epoch:
            # Where a leader has compacted away what lay between, this may have been the epoch of it. It must not be
            # taken for that of the records before: another log that has such records there would seem to agree.
            self.undo.keep_epochs(self._log.epochs)
            self._log.epochs.assign(self._leader_epoch, self._log.log_end_offset)
        position = self._position
        self._segment.note_batch(position, size_bytes, last_offset, timestamp_ms)
        self._position = position + size_bytes
        if not position and timestamp_ms >= 0:
            self._roll_after_ms = timestamp_ms + self._log.roll_ms
        self._log.log_end_offset = last_offset + 1

    def _roll(self, base_offset: int, last_offset: int) -> None:
        self.write()
        # A segment begins where the last one ends, even if the leader has compacted away what lay between.
        end_offset = self._first_offset = self._log.log_end_offset
        has_room = last_offset - end_offset <= MAX_RELATIVE_OFFSET
        self.undo.begin_roll(end_offset)
        self._enter(self._log.roll(end_offset if has_room else base_offset, self._now_ms))
        self.undo.rolled(self._log)

    def _answer_of(self, header: BatchHeader, verdict: CachedBatch | Rejection) -> Appended | Rejection:
        if isinstance(verdict, Rejection):
            return verdict
        self._producers.heard_of(header.producer_id, self._now_ms)
        append_time_ms = verdict.timestamp_ms if self._stamps_append_time else NO_TIMESTAMP
        return Appended(verdict.first_offset, verdict.last_offset, append_time_ms, is_duplicate=True)


def _rules_of(log: PartitionLog, now_ms: int) -> RecordRules:
    config = log.config
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return RecordRules(needs_keys=config.cleanup_compact, max_bytes=log.max_records_bytes)
    return RecordRules(
        config.cleanup_compact,
        now_ms - log.doubt_ms - config.message_timestamp_before_max_ms,
        now_ms + log.doubt_ms + config.message_timestamp_after_max_ms,
        log.max_records_bytes,
    )


def _decoded(data: bytes) -> RecordBatch:
    return RecordBatch(memoryview(data), decode_header(data))


def fenced(directory: str, leader_epoch: int, latest_epoch: int) -> Rejection:
    """Refuse an append of a leader that another one has replaced."""
    return Rejection(
        ErrorCode.FENCED_LEADER_EPOCH,
        f"{directory}: an append with leader epoch {leader_epoch} came after one with {latest_epoch}: "
        f"a newer leader has taken over, find it and send there",
    )


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
