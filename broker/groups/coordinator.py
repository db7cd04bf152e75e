"""The group coordinator: what it decides, for the partitions of `__consumer_offsets` that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from eagleray.broker.groups.classic.groups import ClassicGroups
from eagleray.broker.groups.committing import CommitServer
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.consumer.groups import ConsumerGroups
from eagleray.broker.groups.context import GroupContext, OffsetsLog
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    Effect,
    Event,
    FetchOffsets,
    ListGroups,
    OffsetsOfTopicDeleted,
)
from eagleray.broker.groups.group_protocol import GroupProtocol
from eagleray.broker.groups.housekeeping import GroupHousekeeping
from eagleray.broker.groups.log_records import replay
from eagleray.broker.groups.marking import MarkerServer
from eagleray.broker.groups.requests import GroupRequestServer
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.partitions.events import LastDecisionAnswered, TransactionVerified, WriteMarkers
from eagleray.broker.runtime.connection_bindings import ConnectionClosed
from eagleray.broker.runtime.coordinator_events import TimeSet
from eagleray.broker.runtime.deadlines import Tick
from eagleray.broker.runtime.shard_lifecycle import ShardLifecycle
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

PROTOCOLS: Final[tuple[type[GroupProtocol], ...]] = (ClassicGroups, ConsumerGroups)
"""The protocols by which groups have members."""


class GroupCoordinator:
    """Keeps the offsets of the groups that hash to its partitions of `__consumer_offsets`, and leads those partitions.

    Owns: for each of its partitions, what replaying that partition gives. Persists: nothing itself; the changes of a
    turn are `AppendRecords`. A change takes effect when it is decided; what is said because of it, or from what it has
    changed, waits for `Committed` (see `CoordinatorRuntime`). What producers may do is for the log to say, by the state
    that it keeps of them.
    A request that fails unexpectedly is answered UNKNOWN_SERVER_ERROR and has changed nothing: the state of its
    partition is thrown away, and loaded again (`ReloadPartition`).
    On failure: where the log says beforehand that it takes nothing, requests are answered with that and nothing has
    changed. Where it fails all the same (`AppendFailed`), and where another coordinator takes over, the state of the
    partition is thrown away, and the clients that waited for it are told to try again.
    After a restart: the loaded log is the state; offsets of transactions whose marker is not there yet are pending
    until it comes.

    The times that come with events are of a clock that is never set; the log keeps the time of day (`TimeSet`).
    Members are the business of the protocols of groups (`GroupProtocol`), each with requests and records of its own.
    """

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        log: OffsetsLog,
        protocols: Iterable[type[GroupProtocol]] = PROTOCOLS,
    ) -> None:
        """Begin with nothing to lead; `new_id` gives a text each time that it never gave before."""
        self._context = GroupContext(config, new_id, log)
        self._protocols = [protocol(self._context) for protocol in protocols]
        self._housekeeping = GroupHousekeeping(self._context)
        commits, requests = CommitServer(self._context), GroupRequestServer(self._context)
        markers = MarkerServer(self._context)
        shards = self._context.shards
        self._lifecycle = ShardLifecycle(self._context.runtime, shards.new_shard, self._loaded, self._closed)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            CommitOffsets: commits.commit,
            CommitTransactionOffsets: commits.commit_in_transaction,
            TransactionVerified: commits.verified,
            ConnectionClosed: commits.connection_closed,
            FetchOffsets: requests.fetch,
            DeleteOffsets: requests.delete_offsets,
            DeleteGroup: requests.delete_group,
            ListGroups: requests.list_groups,
            WriteMarkers: markers.write,
            LastDecisionAnswered: markers.answered,
            OffsetsOfTopicDeleted: self._on_topics_deleted,
            Tick: self._on_tick,
            TimeSet: self._on_time_set,
            **self._lifecycle.handlers,
        }
        for protocol in self._protocols:
            self._handlers |= protocol.handlers()

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        return self.handle_all((event,), now_ms)

    def handle_all(self, events: Iterable[Event], now_ms: int) -> list[Effect]:
        """Take the events of a turn, one after the other, and return what they make necessary, in order."""
        for event in events:
            try:
                self._handlers[type(event)](event, now_ms)
            except Exception as error:  # noqa: BLE001 - the log has nothing of it yet, and the state is taken from there
                self._fail(event, error, now_ms)
        return self._context.end_turn()

    def _fail(self, event: Event, error: Exception, now_ms: int) -> None:
        """Let one request fail, or what is about one group or partition; raise the error where it is about more."""
        partitions = self._partitions_of(event)
        if not partitions and not hasattr(event, "request_id"):
            raise error
        self._lifecycle.failed(event, error, partitions, now_ms)

    def _partitions_of(self, event: Event) -> set[int]:
        match event:
            case WriteMarkers():
                return {partition.partition for marker in event.markers for partition in marker.partitions}
            case TransactionVerified() | LastDecisionAnswered():
                return {event.partition.partition}
        group = getattr(event, "group", None)
        return set() if group is None else {self._context.shards.partition_of(group)}

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        return min(self._housekeeping.next_due_ms, *[protocol.next_due_ms for protocol in self._protocols])

    def replay(self, batches: Iterable[RecordBatch]) -> OffsetsState:
        """Give what a log comes to, for `PartitionLoaded`; it changes nothing here, and may run in another thread."""
        return replay(batches, self._registered(OffsetsState(time_set_by_ms=self._context.time_set_by_ms)))

    def _registered(self, state: OffsetsState) -> OffsetsState:
        for protocol in self._protocols:
            protocol.register(state)
        return state

    # Partitions of `__consumer_offsets`

    def _loaded(self, shard: Shard, state: OffsetsState, now_ms: int) -> None:
        shard.state = self._registered(state)
        state.time_set_by_ms = self._context.time_set_by_ms
        for protocol in self._protocols:
            protocol.loaded(shard, now_ms)
        # Meanwhile topics may have been deleted.
        self._housekeeping.topics_deleted((), now_ms)

    def _closed(self, shard: Shard, error_code: ErrorCode, now_ms: int) -> None:
        for protocol in self._protocols:
            protocol.closed(shard, error_code, now_ms)
        for request in shard.verifications.void_all():
            self._context.reply(request.request_id, error_code)

    # The rest

    def _on_topics_deleted(self, event: OffsetsOfTopicDeleted, now_ms: int) -> None:
        self._housekeeping.topics_deleted(event.topics, now_ms)

    def _on_time_set(self, event: TimeSet, now_ms: int) -> None:  # noqa: ARG002 - nothing is due sooner or later by it
        self._context.time_set_by_ms = event.by_ms
        for shard in self._context.shards:
            shard.state.time_set_by_ms = event.by_ms

    def _on_tick(self, event: Tick, now_ms: int) -> None:
        # A group that loses its last member now is empty by the next tick.
        self._housekeeping.tick(now_ms, may_expire=event.may_expire)
        for protocol in self._protocols:
            protocol.tick(now_ms)
