"""The partitions that one actor leads, as a core does in a shard-per-core broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.partitions.events import (
    DeleteRecords,
    Effect,
    Event,
    Fetch,
    PartitionFailed,
    Produce,
    Produced,
    Query,
    Tick,
    TransactionVerified,
    WriteMarkers,
)
from eagleray.broker.partitions.fetching import Fetches
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.partitions.queries import answer_query
from eagleray.protocol.errors import ErrorCode

FLUSHED_ONE_BY_ONE: Final = 2
"""As many logs are flushed without more ado; beyond that it pays to flush their file system first."""


class PartitionLeaders:
    """Takes the events of one turn together, so that each partition that they touch is written and flushed once.

    Owns: the leaders, each with its log, and the fetches that wait. What order the batches and markers of a turn have
    for one partition, its log has too; reads and queries see all of them. On failure of a partition's disk: only what
    touches that partition is answered with an error, and where its log has to be opened anew, `PartitionFailed` says
    so; the way is to `resign` the partition, open the log, and `lead` it at a later epoch.
    """

    def __init__(self, before_flushes: Callable[[], None] | None = None) -> None:
        """Lead nothing yet. `before_flushes` may help the disk when several logs are about to be flushed."""
        self._before_flushes = before_flushes
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._fetches = Fetches(self._leaders)
        # In the order in which they were touched, so that the same events always have the same effects.
        self._touched: dict[TopicPartition, None] = {}
        self._marker_requests: list[MarkerRequest] = []
        self._reads: list[Fetch | Query | Tick] = []
        self._failures: list[PartitionFailed] = []
        self._verification_ids = count(1)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._leaders

    def lead(self, partition: TopicPartition, log: PartitionLog, leader_epoch: int) -> None:
        """Begin to lead a partition whose log is open; readers see all of it."""
        leader = PartitionLeader(
            partition, log, leader_epoch, verification_ids=self._verification_ids, failures=self._failures
        )
        leader.commit()
        self._leaders[partition] = leader

    def resign(self, partition: TopicPartition) -> tuple[PartitionLog, list[Effect]]:
        """Stop leading a partition; return its log, and answers to everybody who waits on it."""
        leader = self._leaders.pop(partition)
        effects: list[Effect] = [*leader.resign(), *self._fetches.moved([partition])]
        return leader.log, effects

    def handle(self, events: Sequence[Event], now_ms: int) -> list[Effect]:
        """Take the events of one turn and return what they make necessary."""
        effects: list[Effect] = []
        for event in events:
            match event:
                case Produce():
                    self._on_produce(event, effects)
                case TransactionVerified():
                    self._on_verified(event, effects)
                case WriteMarkers():
                    self._on_markers(event, now_ms)
                case _:
                    self._reads.append(event)
        self._commit(now_ms, effects)
        self._read(now_ms, effects)
        if self._failures:
            effects += self._failures
            self._failures.clear()
        return effects

    def _on_produce(self, event: Produce, effects: list[Effect]) -> None:
        leader = self._leaders.get(event.partition)
        if leader is not None:
            effects += leader.produce(event)
            self._touched[event.partition] = None
        elif event.acks != 0:
            effects.append(Produced(event.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _on_verified(self, event: TransactionVerified, effects: list[Effect]) -> None:
        leader = self._leaders.get(event.partition)
        if leader is not None:
            effects += leader.verified(event)
            self._touched[event.partition] = None

    def _on_markers(self, event: WriteMarkers, now_ms: int) -> None:
        """Write the markers of a request partition by partition, each partition's with one write."""
        request = MarkerRequest(event)
        for partition, markers in request.by_partition():
            leader = self._leaders.get(partition)
            if leader is not None:
                request.written(partition, leader.write_markers(markers, now_ms))
                self._touched[partition] = None
        self._marker_requests.append(request)

    def _commit(self, now_ms: int, effects: list[Effect]) -> None:
        """Write and flush what the turn has brought, and only then answer it."""
        failed: set[TopicPartition] = set()
        leaders = [self._leaders[partition] for partition in self._touched]
        for leader in leaders:
            leader.write(now_ms)
        if self._before_flushes is not None and sum(leader.has_to_flush for leader in leaders) > FLUSHED_ONE_BY_ONE:
            self._before_flushes()
        for partition, leader in zip(self._touched, leaders, strict=True):
            effects += leader.commit()
            if not leader.log.is_online:
                failed.add(partition)
        effects += [request.answer(failed) for request in self._marker_requests]
        self._marker_requests = []

    def _read(self, now_ms: int, effects: list[Effect]) -> None:
        """Read what the turn asked for, and look again at the fetches that wait for what it has moved."""
        for read in self._reads:
            match read:
                case Fetch():
                    fetched = self._fetches.fetch(read, now_ms)
                    effects += () if fetched is None else (fetched,)
                case Tick():
                    effects += self._fetches.expire(now_ms)
                case _:
                    effects.append(answer_query(self._leaders.get(read.partition), read))
                    if isinstance(read, DeleteRecords):
                        self._touched[read.partition] = None
        self._reads = []
        effects += self._fetches.moved(self._touched)
        self._touched = {}
