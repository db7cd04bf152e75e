"""The partitions that one actor leads, as a core does in a shard-per-core broker."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import count
from typing import Final

from eagleray.broker.identities import TopicPartition
from eagleray.broker.log import PartitionLog
from eagleray.broker.partitions.coordinator_epochs import CoordinatorEpochs
from eagleray.broker.partitions.events import (
    DeleteRecords,
    Effect,
    Event,
    Fetch,
    LastDecisionAnswered,
    PartitionAdvanced,
    Produce,
    Produced,
    Query,
    RecordsDeleted,
    TransactionVerified,
    WriteMarkers,
)
from eagleray.broker.partitions.failing import failed
from eagleray.broker.partitions.fetching import Fetches
from eagleray.broker.partitions.leader import PartitionLeader
from eagleray.broker.partitions.marking import MarkerRequest
from eagleray.broker.partitions.queries import answer_query, check_deletion
from eagleray.broker.replication.leader import ReplicationLeader, flush_all
from eagleray.broker.runtime.deadlines import NEVER_MS, Tick
from eagleray.broker.runtime.disk_watch import DiskWatch, Watermarks
from eagleray.protocol.errors import ErrorCode

LARGEST_EPOCH: Final = 2**31 - 1


class PartitionLeaders:
    """Takes the events of one turn together, so that each partition that they touch is written and flushed once.

    Owns: the leaders, each with its log, and the fetches that wait. The batches and markers of a turn have the same
    order in a partition's log; reads and queries see those that are replicated. Answers that wait for replication wait
    at the `ReplicationLeader`s. The node passes these their pushes, heartbeats and time, carries out their effects,
    turns what they give back into answers with `acknowledge`, and sends `PartitionAdvanced` here whenever a high
    watermark may have moved.
    A disk that is full takes no batches of producers, which may try again, and goes on taking markers.
    On failure of a partition's disk: only requests for that partition are answered with an error. Where its log has to
    be opened anew, `PartitionFailed` says so: `resign` the partition, open the log, and `lead` it at a later epoch.
    """

    def __init__(
        self,
        sync: Callable[[], None] = lambda: None,
        offline: Container[TopicPartition] = (),
        newest_coordinator_epoch: Callable[[], int] = lambda: LARGEST_EPOCH,
        disk: DiskWatch | None = None,
        on_asked_for: Callable[[TopicPartition], None] = lambda _: None,
    ) -> None:
        """Lead nothing yet. `sync` flushes the file system of the logs when many of them have to be; `offline` are
        the partitions that cannot be led here or anywhere else, because their log is damaged; no marker may have an
        epoch above the newest one of a coordinator. As long as `disk` says why nothing is written, producers are
        refused, and markers are not. `on_asked_for` hears of requests for partitions that are not led here, whose log
        may have to be opened.
        """
        self._on_asked_for = on_asked_for
        self._sync = sync
        self._disk = disk or DiskWatch(Watermarks(0, 0, 0), NEVER_MS)
        self._offline = offline
        self._coordinator_epochs = CoordinatorEpochs(newest_coordinator_epoch)
        self._leaders: dict[TopicPartition, PartitionLeader] = {}
        self._fetches = Fetches(self._leaders, self._code_without_leader)
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
        """Start leading a partition whose log is open; the next turn makes durable what it has, and shows it."""
        self._leaders[partition] = PartitionLeader(
            replication,
            verification_ids=self._verification_ids,
            failures=self._failures,
            coordinator_epochs=self._coordinator_epochs,
            disk=self._disk,
        )
        self._touched[partition] = None

    def resign(self, partition: TopicPartition) -> tuple[PartitionLog, list[Effect]]:
        """Stop leading a partition, and end its `ReplicationLeader`; return its log, and answers to all that waits.

        A `ReplicationLeader` that resigned before has already given back what waited for replication.
        """
        leader = self._leaders.pop(partition)
        self._touched.pop(partition, None)
        effects: list[Effect] = [*leader.resign(), *self._fetches.moved([partition])]
        return leader.log, effects

    @property
    def next_due_ms(self) -> int:
        """When a waiting fetch times out, by the steady clock."""
        return self._fetches.next_due_ms

    def handle(self, events: Sequence[Event], now_ms: int, steady_ms: int) -> list[Effect]:
        """Take the events of one turn and return their effects.

        `now_ms` is the time of day, for the logs; `steady_ms` is of a clock that never jumps, for timeouts and leases.
        """
        effects: list[Effect] = []
        self._fetches.begin_turn(steady_ms)
        for event in events:
            match event:
                case Produce():
                    self._on_produce(event, effects)
                case TransactionVerified():
                    self._on_verified(event, effects)
                case WriteMarkers():
                    self._on_markers(event, now_ms, steady_ms, effects)
                case LastDecisionAnswered():
                    self._on_last_decision(event)
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
        if leader is not None and self._disk.refusal:
            # Before its coordinator is asked about it, which has to write as well.
            if event.acks != 0:
                refusal = self._disk.refusal
                effects.append(Produced(event.request_id, ErrorCode.KAFKA_STORAGE_ERROR, message=refusal))
        elif leader is not None:
            try:
                effects += leader.produce(event)
            except Exception as error:  # noqa: BLE001 - nothing of it is staged
                effects += failed(event, error)
            self._touched[event.partition] = None
        elif event.acks != 0:
            effects.append(Produced(event.request_id, self._code_without_leader(event.partition)))

    def _code_without_leader(self, partition: TopicPartition) -> ErrorCode:
        """What is answered about a partition that is not led here: whether it may be led elsewhere or not."""
        self._on_asked_for(partition)
        is_offline = partition in self._offline
        return ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _on_verified(self, event: TransactionVerified, effects: list[Effect]) -> None:
        leader = self._leaders.get(event.partition)
        if leader is not None:
            effects += leader.verified(event)
            self._touched[event.partition] = None

    def _on_last_decision(self, event: LastDecisionAnswered) -> None:
        leader = self._leaders.get(event.partition)
        if leader is not None:
            leader.last_decision_answered(event)

    def _on_markers(self, event: WriteMarkers, now_ms: int, steady_ms: int, effects: list[Effect]) -> None:
        request = MarkerRequest(event)
        for partition, markers in request.by_partition():
            leader = self._leaders.get(partition)
            if leader is not None:
                effects += leader.write_markers(request, markers, now_ms, steady_ms)
                self._touched[partition] = None
            else:
                request.refused(partition, self._code_without_leader(partition))
        self._marker_requests.append(request)

    def _commit(self, now_ms: int, steady_ms: int, effects: list[Effect]) -> None:
        """Write and flush what the turn has brought, replicate it, and only then answer it."""
        leaders = [self._leaders[partition] for partition in self._touched]
        for leader in leaders:
            leader.write(now_ms, steady_ms)
        failed = flush_all([leader.replication for leader in leaders], self._sync)
        for leader in leaders:
            effects += leader.commit(failed.get(leader.partition) if failed else None, steady_ms)
        for request in self._marker_requests:
            for partition in [*request.unsettled]:
                self._leaders[partition].settle_markers(request, steady_ms)
            effects += request.answers()
        self._marker_requests = []

    def _read(self, steady_ms: int, effects: list[Effect]) -> None:
        for read in self._reads:
            if isinstance(read, Tick):
                effects += self._fetches.expire(steady_ms)
                continue
            try:
                effects += self._answer_read(read, steady_ms)
            except Exception as error:  # noqa: BLE001 - it was to be read, and has changed nothing
                effects += failed(read, error)
        self._reads = []
        effects += self._fetches.moved(self._touched)
        self._touched = {}
        if self._advanced:
            effects += self._fetches.moved(self._advanced)
            self._advanced = {}

    def _answer_read(self, read: Fetch | Query, steady_ms: int) -> Sequence[Effect]:
        match read:
            case Fetch():
                fetched = self._fetches.fetch(read, steady_ms)
                return () if fetched is None else (fetched,)
            case DeleteRecords():
                return self._delete_records(read, steady_ms)
            case _:
                return (self._answer_query(read),)

    def _answer_query(self, query: Query) -> Effect:
        code = self._code_without_leader(query.partition)
        return answer_query(self._leaders.get(query.partition), query, without_leader=code)

    def _delete_records(self, query: DeleteRecords, steady_ms: int) -> Sequence[Effect]:
        leader = self._leaders.get(query.partition)
        answer = check_deletion(leader, query, steady_ms) or self._answer_query(query)
        if leader is None or not isinstance(answer, RecordsDeleted) or answer.error_code is not ErrorCode.NONE:
            return [answer]
        self._touched[query.partition] = None
        return leader.replicate_start(answer, steady_ms + query.timeout_ms, steady_ms)
