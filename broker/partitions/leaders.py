"""The partitions that one actor leads, as a core does in a shard-per-core broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.partitions.events import (
    DeleteRecords,
    Effect,
    Event,
    Fetch,
    PartitionAdvanced,
    Produce,
    Produced,
    Query,
    RecordsDeleted,
    Tick,
    TransactionVerified,
    WriteMarkers,
)
from eagleray.broker.partitions.fetching import Fetches
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.partitions.queries import answer_query, check_deletion
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode

FLUSHED_ONE_BY_ONE: Final = 2
"""As many logs are flushed without more ado; beyond that it pays to flush their file system first."""


class PartitionLeaders:
    """Takes the events of one turn together, so that each partition that they touch is written and flushed once.

    Owns: the leaders, each with its log, and the fetches that wait. What order the batches and markers of a turn have
    for one partition, its log has too; reads and queries see all of them that are replicated. Answers that wait for
    replication wait at the `ReplicationLeader`s; the node that carries pushes, heartbeats and time to these has what
    they give back answered by `acknowledge`, and tells `PartitionAdvanced` here after everything that may have moved a
    high watermark.
    On failure of a partition's disk: only what touches that partition is answered with an error, and where its log has
    to be opened anew, `PartitionFailed` says so; the way is to `resign` the partition, open the log, and `lead` it at a
    later epoch.
    """

    def __init__(self, before_flushes: Callable[[], None] | None = None) -> None:
        """Lead nothing yet. `before_flushes` may help the disk when several logs are about to be flushed."""
        self._before_flushes = before_flushes
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._fetches = Fetches(self._leaders)
        # In the order in which they were touched, so that the same events always have the same effects.
        self._touched: dict[TopicPartition, None] = {}
        self._advanced: dict[TopicPartition, None] = {}
        self._marker_requests: list[MarkerRequest] = []
        self._reads: list[Fetch | Query | Tick] = []
        self._failures: list[Effect] = []
        self._verification_ids = count(1)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._leaders

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._leaders)

    def lead(self, partition: TopicPartition, replication: ReplicationLeader) -> None:
        """Begin to lead a partition whose log is open; the next turn makes durable what it has, and shows it."""
        self._leaders[partition] = PartitionLeader(
            replication, verification_ids=self._verification_ids, failures=self._failures
        )
        self._touched[partition] = None

    def resign(self, partition: TopicPartition) -> tuple[PartitionLog, list[Effect]]:
        """Stop leading a partition, and its `ReplicationLeader` with it; return its log, and answers to all who wait.

        Where the `ReplicationLeader` has resigned before, it has given back then what waited for replication.
        """
        leader = self._leaders.pop(partition)
        self._touched.pop(partition, None)
        effects: list[Effect] = [*leader.resign(), *self._fetches.moved([partition])]
        return leader.log, effects

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens, by the steady clock: a fetch has waited long enough."""
        return self._fetches.next_due_ms

    def handle(self, events: Sequence[Event], now_ms: int, steady_ms: int) -> list[Effect]:
        """Take the events of one turn and return what they make necessary.

        `now_ms` is the time of day, for the logs; `steady_ms` is of a clock that never jumps, for everybody who waits.
        """
        effects: list[Effect] = []
        self._fetches.now_ms = steady_ms
        for event in events:
            match event:
                case Produce():
                    self._on_produce(event, effects)
                case TransactionVerified():
                    self._on_verified(event, effects)
                case WriteMarkers():
                    self._on_markers(event, now_ms, steady_ms)
                case PartitionAdvanced():
                    self._advanced[event.partition] = None
                case _:
                    self._reads.append(event)
        self._commit(now_ms, steady_ms, effects)
        self._read(steady_ms, effects)
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

    def _on_markers(self, event: WriteMarkers, now_ms: int, steady_ms: int) -> None:
        """Write the markers of a request partition by partition, each partition's with one write."""
        request = MarkerRequest(event)
        for partition, markers in request.by_partition():
            leader = self._leaders.get(partition)
            if leader is not None:
                leader.write_markers(request, markers, now_ms, steady_ms)
                self._touched[partition] = None
        self._marker_requests.append(request)

    def _commit(self, now_ms: int, steady_ms: int, effects: list[Effect]) -> None:
        """Write and flush what the turn has brought, replicate it, and only then answer it."""
        leaders = [self._leaders[partition] for partition in self._touched]
        for leader in leaders:
            leader.write(now_ms, steady_ms)
        if self._before_flushes is not None and sum(leader.has_to_flush for leader in leaders) > FLUSHED_ONE_BY_ONE:
            self._before_flushes()
        for leader in leaders:
            effects += leader.commit(steady_ms)
        for request in self._marker_requests:
            for partition in [*request.unsettled]:
                self._leaders[partition].settle_markers(request, steady_ms)
            effects += request.answers()
        self._marker_requests = []

    def _read(self, steady_ms: int, effects: list[Effect]) -> None:
        """Read what the turn asked for, and look again at the fetches that wait for what it has moved."""
        for read in self._reads:
            match read:
                case Fetch():
                    fetched = self._fetches.fetch(read, steady_ms)
                    effects += () if fetched is None else (fetched,)
                case Tick():
                    effects += self._fetches.expire(steady_ms)
                case DeleteRecords():
                    effects += self._delete_records(read, steady_ms)
                case _:
                    effects.append(answer_query(self._leaders.get(read.partition), read))
        self._reads = []
        effects += self._fetches.moved(self._touched)
        self._touched = {}
        if self._advanced:
            effects += self._fetches.moved(self._advanced)
            self._advanced = {}

    def _delete_records(self, query: DeleteRecords, steady_ms: int) -> Sequence[Effect]:
        """Delete records here, and have the replicas in sync delete them before it is answered."""
        leader = self._leaders.get(query.partition)
        answer = check_deletion(leader, query, steady_ms) or answer_query(leader, query)
        if leader is None or not isinstance(answer, RecordsDeleted) or answer.error_code is not ErrorCode.NONE:
            return [answer]
        self._touched[query.partition] = None
        return leader.replicate_start(answer, steady_ms + query.timeout_ms, steady_ms)
