"""Replies that wait until the records that they speak of are replicated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from eagleray.broker.partitions.events import Answer, Produced, RecordsDeleted
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.replication.events import Replicated
from eagleray.protocol.errors import ErrorCode

Unacknowledged: TypeAlias = list[Produced] | RecordsDeleted | MarkerRequest
"""What waits at a partition's `ReplicationLeader`: replies that are ready, or a request that is answered once all of
its partitions are replicated."""


def acknowledge(replicated: Replicated[Unacknowledged]) -> Sequence[Answer]:
    """Return the replies for something that was replicated, or of which it is unknown whether it will be."""
    unacknowledged, error_code = replicated.payload, replicated.error_code
    if isinstance(unacknowledged, MarkerRequest):
        unacknowledged.settled(replicated.partition, error_code)
        return unacknowledged.answers()
    if isinstance(unacknowledged, RecordsDeleted):
        is_done = error_code is ErrorCode.NONE
        return (unacknowledged if is_done else RecordsDeleted(unacknowledged.request_id, error_code),)
    if error_code is ErrorCode.NONE:
        return unacknowledged
    message = "the batch is in the leader's log, and it is unknown whether it will be replicated"
    return [Produced(answer.request_id, error_code, message=message) for answer in unacknowledged]
