"""Torn or rotten: what may be done about a log whose batches are not valid up to where they should be (ADR 32).

A torn end is what the last write has left when its process died, or its machine lost power. Nothing of it was ever
acknowledged. Rotten is what was written whole and is not any more. The two look alike where the scan stops; what tells
them apart is how far the log is known to have been good, and what lies behind.
"""

from __future__ import annotations

import enum

import msgspec


class Verdict(enum.StrEnum):
    """What becomes of a log in which the scan stopped too early."""

    CUT = "cut"
    """What lies behind was never acknowledged: it is cut off, and its bytes are kept."""

    CUT_AND_FOLLOW = "cut and follow"
    """What lies behind was not flushed, and others have it: it is cut off, kept, and taken from the leader again."""

    CUT_UNFLUSHED = "cut unflushed"
    """The unflushed end of a sole replica is lost, as `flush=os` allows: it is cut off, kept, and said loudly."""

    COPY_ANEW = "copy anew"
    """The disk has changed what was good: the replica is put aside and copied from those that are in sync."""

    OFFLINE = "offline"
    """The disk has changed what was good, and no other replica has it: nothing is changed before a person decides."""

    @property
    def cuts(self) -> bool:
        """Whether the log goes on, without what lies behind."""
        return self in _CUTS


_CUTS = frozenset({Verdict.CUT, Verdict.CUT_AND_FOLLOW, Verdict.CUT_UNFLUSHED})


class ScanEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where the scan of a log that was not closed ended too early, and what else is known of the log."""

    stop_offset: int
    """All before it is there, whole and in order."""

    recovery_point: int
    """All before it was flushed."""

    known_end: int
    """All before it was in the log once: the greatest of the recovery point, the high watermark that was noted, and the
    end of the bookmark."""

    log_start_offset: int
    """What lies before it was deleted, and is not missed."""

    is_same_boot: bool
    """Whether the machine has not booted since the log was open, so that its page cache had every byte."""

    is_in_last_segment: bool
    has_valid_batch_behind: bool
    """Whether a whole batch, with the right checksum, lies where the scan stopped or anywhere behind it."""

    flushes_first: bool
    """Whether `flush=commit`: nothing is acknowledged before it is flushed."""

    others_in_sync: bool
    """Whether other replicas have all that was acknowledged."""

    is_known_end_certain: bool = True
    """Whether nothing that was noted of how far the log went is damaged."""


def judge(end: ScanEnd) -> Verdict:
    """Decide about a log by the table of ADR 32."""
    if end.is_same_boot:
        is_torn = (
            end.is_in_last_segment
            and not end.has_valid_batch_behind
            and end.is_known_end_certain
            and not _lacks(end, end.known_end)
        )
        return Verdict.CUT if is_torn else _damaged(end)
    if _lacks(end, end.recovery_point):
        return _damaged(end)
    if end.others_in_sync:
        return Verdict.CUT_AND_FOLLOW
    if not end.flushes_first:
        return Verdict.CUT_UNFLUSHED
    return Verdict.OFFLINE if end.has_valid_batch_behind else Verdict.CUT


def _lacks(end: ScanEnd, offset: int) -> bool:
    """Whether something is missing that lies before an offset and was not deleted."""
    return end.stop_offset < offset and offset > end.log_start_offset


def _damaged(end: ScanEnd) -> Verdict:
    return Verdict.COPY_ANEW if end.others_in_sync else Verdict.OFFLINE
