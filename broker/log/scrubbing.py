"""Looking for what a disk has changed by itself in the closed part of a log."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from eagleray.broker.log.errors import LogDamaged, LogReadFailed
from eagleray.broker.log.readable_log import BASE_OFFSET
from eagleray.broker.log.segment import is_gap
from eagleray.protocol.records import scan_batches

if TYPE_CHECKING:
    from eagleray.broker.log.partition_log import PartitionLog


class Scrub:
    """One look at every batch of the closed segments of a log, in steps between which the log goes on serving.

    Owns: how far it has come. It changes nothing. What was deleted or compacted away meanwhile is passed over. The
    active segment is left out: what was appended last is still in memory most of the time, and is looked at once its
    segment is closed.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._next_offset = log.log_start_offset

    def step(self, max_bytes: int) -> bool:
        """Look at some bytes; return whether there is more. Raises LogDamaged for what the log never wrote."""
        log = self._log
        offset, end_offset = max(self._next_offset, log.log_start_offset), log.active_segment.base_offset
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
        if self._has_lost_the_end_before(scan.batches[0].header.base_offset, offset):
            raise LogDamaged(f"nothing is left from offset {offset} to the end of its segment")
        self._next_offset = scan.batches[-1].header.next_offset
        return self._next_offset < end_offset

    def _has_lost_the_end_before(self, found_offset: int, offset: int) -> bool:
        """Whether a segment ends at an offset, before the next one begins, in which something was found."""
        segments = self._log.segments
        following = bisect_right(segments, offset, key=BASE_OFFSET)
        next_base_offset = segments[following].base_offset
        return next_base_offset <= found_offset and is_gap(offset, next_base_offset)
