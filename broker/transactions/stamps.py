"""The times that the transaction log keeps, and what a coordinator makes of them.

A coordinator counts by a running time that is never set, so that whatever it has seen itself is as old as it is. The
log keeps the time of day, for the coordinators that come after it. Both are the same until the time of day is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from eagleray.broker.transactions.snapshot import NO_TIME_MS, Snapshot

TOO_LONG_AGO_MS: Final = 60 * 60 * 1000
"""A transaction that should have timed out so long ago was not looked after, or its time is of another clock."""


def for_log(snapshot: Snapshot, set_by_ms: int) -> Snapshot:
    """Give a snapshot the time of day, which is ahead of the running time by so much."""
    return _moved(snapshot, lambda time_ms: time_ms + set_by_ms) if set_by_ms else snapshot


def as_loaded(snapshot: Snapshot, set_by_ms: int, now_ms: int) -> Snapshot:
    """Give a snapshot from the log the running time, by which it counts from now on.

    What lies in the future by that was written by a clock that was ahead, and counts as of now. So does the beginning
    of a transaction that should have timed out long ago: a clock that is wrong on the next coordinator must not end
    every transaction that is open, and one that is left over is aborted a timeout later.
    """
    snapshot = _moved(snapshot, lambda time_ms: min(time_ms - set_by_ms, now_ms))
    if snapshot.can_time_out and now_ms - snapshot.start_ms > snapshot.timeout_ms + TOO_LONG_AGO_MS:
        return replace(snapshot, start_ms=now_ms)
    return snapshot


def _moved(snapshot: Snapshot, move: Callable[[int], int]) -> Snapshot:
    def moved(time_ms: int) -> int:
        return time_ms if time_ms == NO_TIME_MS else move(time_ms)

    start_ms, updated_ms, preparation = moved(snapshot.start_ms), moved(snapshot.updated_ms), snapshot.preparation
    if preparation is not None:
        asked_ms, prepared_ms = moved(preparation.asked_ms), moved(preparation.prepared_ms)
        if (asked_ms, prepared_ms) != (preparation.asked_ms, preparation.prepared_ms):
            preparation = replace(preparation, asked_ms=asked_ms, prepared_ms=prepared_ms)
    elif start_ms == snapshot.start_ms and updated_ms == snapshot.updated_ms:
        return snapshot
    return replace(snapshot, start_ms=start_ms, updated_ms=updated_ms, preparation=preparation)
