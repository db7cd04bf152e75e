"""The rules by which a voter grants its vote, besides that it votes once in a term."""

from __future__ import annotations

from eagleray.broker.log import PartitionLog
from eagleray.broker.quorum.events import RequestVote


def is_up_to_date(candidate: RequestVote, log: PartitionLog) -> bool:
    """Whether a candidate has everything that the voter with this log could have helped to commit (Raft, 5.4.1)."""
    return (candidate.last_epoch, candidate.end_offset) >= (log.epochs.latest_epoch, log.log_end_offset)


def has_recent_leader(heard_ms: int, now_ms: int, election_timeout_ms: int) -> bool:
    """Whether a voter has heard from a leader so recently that the leader may still hold its lease (Raft, 4.2.3)."""
    return now_ms - heard_ms < election_timeout_ms
