"""Recovery: from the files of a partition's directory to the state of its log, whatever a crash left behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from eagleray.broker.log import names
from eagleray.broker.log.batch_locations import MAX_RELATIVE_OFFSET
from eagleray.broker.log.errors import LogDamaged
from eagleray.broker.log.producer_snapshot import decode_snapshot
from eagleray.broker.log.producer_state import CompletedTransaction, ProducerState
from eagleray.broker.log.segment import timestamp_of
from eagleray.broker.log.torn_or_rotten import Verdict
from eagleray.broker.log.transaction_index import AbortedTransaction
from eagleray.protocol.errors import ProtocolError
from eagleray.protocol.records import HEADER_BYTES, RecordBatch, scan_batches

if TYPE_CHECKING:
    from eagleray.broker.filesystem import FileSystem
    from eagleray.broker.log.leader_epochs import LeaderEpochs
    from eagleray.broker.log.segment import Segment

_SCAN_READ_BYTES = 128 * 1024


class Recovery(msgspec.Struct, kw_only=True):
    """What recovering a log found, for the caller that opened it to report."""

    log_end_offset: int = 0
    scanned_bytes: int = 0
    """Bytes whose checksums were verified."""

    known_bytes: int = 0
    """Bytes of the last segment that a bookmark covered, which were not read."""

    replayed_bytes: int = 0
    """Bytes read for the producers' state alone, because a snapshot was missing or damaged."""

    cut_bytes: int = 0
    """Bytes behind the last whole valid batch, which were cut off."""

    cut_segments: int = 0
    """Segments behind the place where the log was cut, which are none of its segments any more."""

    known_end_offset: int = 0
    """How far the log is known to have gone before, where that is further than it goes now."""

    verdict: Verdict | None = None
    """Why the log may be used although it was not valid up to where it should be; None where it was."""

    uncertain_from: int | None = None
    """The end of a sole replica that was not closed before its machine booted: what was acknowledged behind it, and not
    flushed yet, has left no trace. None where that cannot be, or where the log was cut, which says so itself."""

    is_loss_accepted: bool = False
    """Whether a person has accepted the loss of what was cut off."""

    kept_files: tuple[str, ...] = ()
    """The files in the log's directory that have what was cut off."""


def load_producers(
    file_system: FileSystem, directory: str, at_or_before: int, now_ms: int
) -> tuple[ProducerState, int]:
    """Return the newest valid snapshot that is not newer than an offset, and the offset it stands for."""
    for offset in sorted(snapshot_offsets(file_system, directory), reverse=True):
        if offset <= at_or_before:
            data = file_system.read_bytes(names.segment_file(directory, offset, names.SNAPSHOT_SUFFIX))
            entries = decode_snapshot(data)
            if entries is not None:
                return ProducerState(entries, now_ms=now_ms), offset
    return ProducerState(), 0


def remove_snapshots(file_system: FileSystem, directory: str, *, kept: Sequence[int]) -> None:
    """Remove the snapshots of all offsets but those in `kept`."""
    for offset in snapshot_offsets(file_system, directory):
        if offset not in kept:
            file_system.remove(names.segment_file(directory, offset, names.SNAPSHOT_SUFFIX))


def replay_producers(segments: Sequence[Segment], producers: ProducerState, start: int, end: int, now_ms: int) -> int:
    """Bring producer state from offset `start` up to `end` by stepping over intact batches; return bytes read."""
    replayed_bytes = 0
    for segment, next_segment in _with_next(segments):
        if segment.base_offset >= end or (next_segment is not None and next_segment.base_offset <= start):
            continue
        for position, header in segment.headers():
            if start <= header.base_offset < end and header.has_producer_id:
                size_bytes = header.size_bytes if header.is_control else HEADER_BYTES
                batch = RecordBatch(memoryview(segment.read(position, size_bytes)), header)
                try:
                    apply_batch(producers, batch, now_ms)
                except ProtocolError as error:
                    raise LogDamaged(f"the marker at offset {header.base_offset} cannot be read: {error}") from error
                replayed_bytes += size_bytes
    return replayed_bytes


def apply_batch(producers: ProducerState, batch: RecordBatch, now_ms: int) -> CompletedTransaction | None:
    """Apply to the producer state a batch that is in the log at the offset that its header says."""
    header = batch.header
    if not header.has_producer_id:
        return None
    if not header.is_control:
        producers.apply_data(header, header.base_offset, now_ms)
        return None
    # Compaction leaves a marker's batch empty once nothing is left of the transaction that it ended.
    marker = batch.end_transaction_marker() if header.record_count else None
    return producers.apply_marker(header, marker, header.base_offset, now_ms) if marker is not None else None


def index_completed(segment: Segment, completed: CompletedTransaction | None) -> None:
    """Enter a transaction that a marker in `segment` ended into its index, if it was aborted."""
    if completed is not None and completed.is_aborted:
        segment.transaction_index.add(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.marker_offset,
                completed.last_stable_offset,
            )
        )


class Expected(msgspec.Struct):
    """What the next batch of a log has to be like, beyond its checksum, which does not cover these."""

    next_offset: int
    may_have_gaps: bool = True
    """Whether offsets may be missing, because the log was compacted here or by a leader."""

    epoch: int = -1
    """The leader epoch of the batch before."""

    latest_epoch: int | None = None
    """The newest leader epoch that the partition has had, where the caller knows it."""

    def may_have_epoch(self, epoch: int) -> bool:
        """Whether the next batch may be of an epoch."""
        return self.epoch <= epoch and (self.latest_epoch is None or epoch <= self.latest_epoch)


def scan_segment(
    segment: Segment,
    producers: ProducerState,
    epochs: LeaderEpochs,
    expected: Expected,
    report: Recovery,
    *,
    now_ms: int,
    known_bytes: int = 0,
) -> int:
    """Verify the batches of a segment and index them in memory; return how many bytes are whole and valid.

    Where nothing of the segment is known yet, its indexes are built anew. No file is changed.
    """
    if not known_bytes:
        segment.forget_indexes()
    valid_bytes = known_bytes
    last_possible_offset = segment.base_offset + MAX_RELATIVE_OFFSET
    next_offset, epoch, may_have_gaps = expected.next_offset, expected.epoch, expected.may_have_gaps
    for position, batch in valid_batches(segment, known_bytes):
        header, size_bytes = batch.header, len(batch.view)
        base_offset = header.base_offset
        last_offset = base_offset + header.last_offset_delta
        # The checksum covers neither offset nor epoch, and an index has four bytes for an offset.
        if base_offset != next_offset and (base_offset < next_offset or not may_have_gaps):
            break
        if last_offset > last_possible_offset:
            break
        if header.partition_leader_epoch != epoch:
            if not expected.may_have_epoch(header.partition_leader_epoch):
                break
            epoch = expected.epoch = header.partition_leader_epoch
        if header.producer_id >= 0:
            try:
                completed = apply_batch(producers, batch, now_ms)
            except ProtocolError:
                break
            if completed is not None:
                index_completed(segment, completed)
        segment.note_batch(position, size_bytes, last_offset, timestamp_of(header))
        if epoch > epochs.latest_epoch:
            # Where a leader has compacted away what lay between, this may have been the epoch of that.
            epochs.assign(epoch, next_offset)
        next_offset = last_offset + 1
        valid_bytes = position + size_bytes
    expected.next_offset = next_offset
    report.scanned_bytes += segment.size_bytes - known_bytes
    report.log_end_offset = next_offset
    return valid_bytes


class SegmentBytes(Protocol):
    """The bytes of a segment, whether it is open as a part of a log or not."""

    @property
    def size_bytes(self) -> int:
        """How many there are."""

    def read(self, position: int, length: int) -> bytes:
        """Return some of them; fewer only at the end."""


def valid_batches(
    segment: SegmentBytes, position: int = 0, *, read_bytes: int = _SCAN_READ_BYTES
) -> Iterator[tuple[int, RecordBatch]]:
    """Yield the whole and undamaged batches from `position` on and where each begins, up to the first that is not."""
    wanted_bytes = read_bytes
    while position < segment.size_bytes:
        chunk = segment.read(position, wanted_bytes)
        scan = scan_batches(chunk)
        for batch in scan.batches:
            yield position, batch
            position += len(batch.view)
        wanted_bytes = read_bytes
        if not scan.batches:
            # Either the file is damaged here, or a batch is larger than what was read. A length that the file cannot
            # hold is damage, so it never causes an allocation.
            wanted_bytes = len(chunk) + scan.missing_bytes
            if not scan.missing_bytes or position + wanted_bytes > segment.size_bytes:
                return


def snapshot_offsets(file_system: FileSystem, directory: str) -> list[int]:
    """Return the offsets that there are snapshots of."""
    found = file_system.list_directory(directory)
    offsets = [names.base_offset_of(name) for name in found if name.endswith(names.SNAPSHOT_SUFFIX)]
    return [offset for offset in offsets if offset is not None]


def _with_next(segments: Sequence[Segment]) -> Iterator[tuple[Segment, Segment | None]]:
    return zip(segments, [*segments[1:], None], strict=True)
