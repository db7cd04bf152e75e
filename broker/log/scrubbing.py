"""Scrubbing: reading the flushed part of a log to find what the disk has changed by itself."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from eagleray.broker.log.batch_locations import is_gap
from eagleray.broker.log.errors import LogDamaged, LogReadFailed
from eagleray.broker.log.readable_log import BASE_OFFSET
from eagleray.protocol.records import scan_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eagleray.broker.log.partition_log import PartitionLog
    from eagleray.protocol.records import RecordBatch


class Scrub:
    """One look at every batch of a log that is closed or flushed, in steps between which the log goes on serving.

    Owns: how far it has come. It changes nothing. What was deleted or compacted away meanwhile is skipped. What was
    appended to the active segment and not flushed since is left out: it is still in memory. Only where no node has the
    log open, that is looked at as well.
    """

    def __init__(self, log: PartitionLog, *, to_the_end: bool = False) -> None:
        self._log = log
        self._to_the_end = to_the_end
        self._next_offset = log.log_start_offset

    def step(self, max_bytes: int) -> bool:
        """Read some bytes; return whether there is more. Raises LogDamaged for what the log never wrote."""
        log = self._log
        offset = max(self._next_offset, log.log_start_offset)
        end_offset = max(log.active_segment.base_offset, log.recovery_point)
        if self._to_the_end:
            end_offset = log.log_end_offset
        if not log.is_online or offset >= end_offset:
            return False
        try:
            data = log.read_for_replica(offset, max_bytes=max_bytes)
        except LogReadFailed as error:
            if isinstance(error.__cause__, OSError):
                # The disk did not answer, which says nothing about what is on it.
                raise
            raise LogDamaged(str(error)) from error
        scan = scan_batches(data)
        if not scan.batches or (scan.stopped_by is not None and not scan.missing_bytes):
            raise LogDamaged(f"the batch after offset {offset} is not what was written: {scan.stopped_by}")
        self._require_in_place(scan.batches, offset)
        if self._has_lost_the_end_before(scan.batches[0].header.base_offset, offset):
            raise LogDamaged(f"nothing is left from offset {offset} to the end of its segment")
        self._next_offset = scan.batches[-1].header.next_offset
        return self._next_offset < end_offset

    def _require_in_place(self, batches: Sequence[RecordBatch], offset: int) -> None:
        """Look at what no checksum covers: where a batch lies, and the leader epoch of it."""
        for number, batch in enumerate(batches):
            header, epochs = batch.header, self._log.epochs
            is_first = not number and offset == self._log.log_start_offset
            is_gap = header.base_offset > offset and not self._log.may_have_gaps
            if is_gap or (header.base_offset < offset and not is_first):
                raise LogDamaged(f"the batch that should be at offset {offset} says {header.base_offset}")
            if header.partition_leader_epoch != epochs.epoch_at(header.last_offset):
                raise LogDamaged(f"the batch at offset {header.base_offset} has another leader epoch than was noted")
            offset = header.next_offset

    def _has_lost_the_end_before(self, found_offset: int, offset: int) -> bool:
        segments = self._log.segments
        following = bisect_right(segments, offset, key=BASE_OFFSET)
        if following == len(segments):
            return False
        next_base_offset = segments[following].base_offset
        return next_base_offset <= found_offset and is_gap(offset, next_base_offset)
