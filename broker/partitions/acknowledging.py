"""Answers that wait until what they speak of is replicated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import TypeAlias

from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.events import Answer, Effect, Produced, RecordsDeleted
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.replication.events import LeaderEffect, Replicated
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode

Unacknowledged: TypeAlias = list[Produced] | RecordsDeleted | MarkerRequest
"""Answers that are ready, or a request that has an answer once all of its partitions have what they wait for."""


class Acknowledgements:
    """Who waits, at all partitions of one leader actor, for what they wrote to be replicated.

    Owns: the answers, each under a number of its own. The partitions' `ReplicationLeader`s know how long to wait, and
    tell the numbers back with what became of it. Each is answered once: a number that was told before, or whose
    partition has been resigned since, means nothing any more.
    """

    def __init__(self) -> None:
        self._ids = count(1)
        self._waiting: dict[int, tuple[TopicPartition, Unacknowledged]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(
        self, replication: ReplicationLeader, end_offset: int, deadline_ms: int, unacknowledged: Unacknowledged
    ) -> None:
        """Let somebody wait until everything before an offset is replicated."""
        replication.wait(self._new_id(replication.partition, unacknowledged), end_offset, deadline_ms)

    def wait_for_start(self, replication: ReplicationLeader, deadline_ms: int, deleted: RecordsDeleted) -> None:
        """Let an answer wait until the logs of all replicas in sync begin no earlier than it says."""
        request_id = self._new_id(replication.partition, deleted)
        replication.wait_for_start(request_id, deleted.log_start_offset, deadline_ms)

    def _new_id(self, partition: TopicPartition, unacknowledged: Unacknowledged) -> int:
        request_id = next(self._ids)
        self._waiting[request_id] = (partition, unacknowledged)
        return request_id

    def replicated(self, event: Replicated) -> Sequence[Answer]:
        """Give the answers for which something was replicated, or will not be as far as anybody knows."""
        waiting = self._waiting.pop(event.request_id, None)
        return () if waiting is None else _answer(*waiting, event.error_code)

    def taken_from(self, effects: Iterable[LeaderEffect]) -> list[Effect]:
        """Put answers in the place of what a leader says has been replicated; the rest is for others."""
        taken: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Replicated):
                taken += self.replicated(effect)
            else:
                taken.append(effect)
        return taken

    def resign(self, partition: TopicPartition) -> list[Answer]:
        """Answer everybody who waits on a partition that is led here no more: the outcome is unknown."""
        ended = [request_id for request_id, (waits_for, _) in self._waiting.items() if waits_for == partition]
        return [
            answer
            for request_id in ended
            for answer in _answer(*self._waiting.pop(request_id), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        ]


def _answer(partition: TopicPartition, unacknowledged: Unacknowledged, error_code: ErrorCode) -> Sequence[Answer]:
    if isinstance(unacknowledged, MarkerRequest):
        unacknowledged.settled(partition, error_code)
        return unacknowledged.answers()
    if isinstance(unacknowledged, RecordsDeleted):
        is_done = error_code is ErrorCode.NONE
        return (unacknowledged if is_done else RecordsDeleted(unacknowledged.request_id, error_code),)
    if error_code is ErrorCode.NONE:
        return unacknowledged
    message = "the batch is in the leader's log, and it is unknown whether it will be replicated"
    return [Produced(answer.request_id, error_code, message=message) for answer in unacknowledged]
