"""Up to where two logs agree, found by their leader epochs (KIP-101, KIP-279).

At most one leader writes in an epoch, and it writes each offset once. So where two logs have an epoch in common, they
agree up to the end of the shorter one's part of it; the newest common epoch decides.
"""

from __future__ import annotations

from typing import NamedTuple

from eagleray.broker.log import PartitionLog
from eagleray.broker.replication.events import EPOCHS_TOLD, NO_LEADER_EPOCH, EpochBegun, PushAnswered


def told_epochs(log: PartitionLog) -> tuple[EpochBegun, ...]:
    """Return what a follower reports of its log: the newest leader epochs in it, ascending."""
    return tuple(EpochBegun(start.epoch, start.start_offset) for start in [*log.epochs][-EPOCHS_TOLD:])


class Agreement(NamedTuple):
    """Up to where two logs agree, and the leader epoch of the entry before, as far as that is known."""

    offset: int
    epoch: int = NO_LEADER_EPOCH


def find_agreement(log: PartitionLog, other: PushAnswered) -> Agreement | None:
    """Return up to where a leader's log agrees with the one that a follower has reported.

    Nothing can differ before the start of the follower's log, so they agree at least up to there. None where the leader
    cannot push from there, because its own log starts behind that offset, or ends before it.
    """
    found = _newest_shared(log, other) or Agreement(other.start_offset)
    agreement = max(found, Agreement(other.start_offset))
    return agreement if log.log_start_offset <= agreement.offset <= log.log_end_offset else None


def _newest_shared(log: PartitionLog, other: PushAnswered) -> Agreement | None:
    end_offset = other.end_offset
    for begun in reversed(other.epochs):
        # What was deleted here has left no epoch behind, and its records can no longer be compared.
        if begun.epoch in log.epochs:
            ours = log.end_of_epoch(begun.epoch)
            return Agreement(min(ours.end_offset, end_offset), begun.epoch)
        end_offset = begun.start_offset
    return None


def epoch_before(log: PartitionLog, offset: int) -> int:
    """Return the leader epoch of the entry before an offset; -1 where the log begins there or does not know."""
    return log.epochs.epoch_at(offset - 1) if log.log_start_offset < offset <= log.log_end_offset else -1
