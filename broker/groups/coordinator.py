"""The group coordinator: what it decides, for the partitions of `__consumer_offsets` that it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from eagleray.broker.groups.classic.groups import ClassicGroups
from eagleray.broker.groups.committing import CommitServer
from eagleray.broker.groups.config import GroupConfig
from eagleray.broker.groups.consumer.groups import ConsumerGroups
from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.events import (
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    Effect,
    Event,
    FetchOffsets,
    ListGroups,
    MarkersLogged,
    OffsetsAssigned,
    OffsetsLoaded,
    OffsetsLogged,
    OffsetsLost,
    OffsetsOfTopicDeleted,
    OffsetsResigned,
)
from eagleray.broker.groups.group_protocol import GroupProtocol
from eagleray.broker.groups.housekeeping import GroupHousekeeping
from eagleray.broker.groups.log_records import replay
from eagleray.broker.groups.marking import MarkerServer
from eagleray.broker.groups.requests import GroupRequestServer
from eagleray.broker.groups.shards import Append, MarkersAppend, OffsetsAppend, Shard
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.partitions.events import Tick, TransactionVerified, WriteMarkers
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.records import RecordBatch

_NONE = ErrorCode.NONE

PROTOCOLS: Final[tuple[type[GroupProtocol], ...]] = (ClassicGroups, ConsumerGroups)
"""The protocols by which groups have members."""


class GroupCoordinator:
    """Keeps the offsets of the groups that hash to its partitions of `__consumer_offsets`, and leads those partitions.

    Owns: for each of its partitions, what replaying that partition gives. Persists: nothing itself; every change is a
    `LogOffsets` or a `LogMarkers`, and counts and is answered only when the log has it, in the order of the log, in
    whatever order the log's answers come. On failure (`OffsetsLost`): everything is as before, and the client that
    waited is told. After a restart: the loaded log is the state; offsets of transactions whose marker is not there yet
    are pending until it comes.

    Members are the business of the protocols of groups (`GroupProtocol`), each with requests and records of its own.
    """

    def __init__(
        self, config: GroupConfig, new_id: Callable[[], str], protocols: Iterable[type[GroupProtocol]] = PROTOCOLS
    ) -> None:
        """Begin with nothing to lead; `new_id` gives a text each time that it never gave before."""
        self._context = GroupContext(config, new_id)
        self._shards = self._context.shards
        self._protocols = [protocol(self._context) for protocol in protocols]
        self._housekeeping = GroupHousekeeping(self._context)
        self._markers = MarkerServer(self._context)
        commits, requests = CommitServer(self._context), GroupRequestServer(self._context)
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            CommitOffsets: commits.commit,
            CommitTransactionOffsets: commits.commit_in_transaction,
            TransactionVerified: commits.verified,
            OffsetsLogged: self._on_logged,
            OffsetsLost: self._on_lost,
            FetchOffsets: requests.fetch,
            DeleteOffsets: requests.delete_offsets,
            DeleteGroup: requests.delete_group,
            ListGroups: requests.list_groups,
            WriteMarkers: self._on_markers,
            MarkersLogged: self._on_markers_logged,
            OffsetsAssigned: self._on_assigned,
            OffsetsLoaded: self._on_loaded,
            OffsetsResigned: self._on_resigned,
            OffsetsOfTopicDeleted: self._on_topics_deleted,
            Tick: self._on_tick,
        }
        for protocol in self._protocols:
            self._handlers |= protocol.handlers()

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """Take one event and return what it makes necessary, in order."""
        self._handlers[type(event)](event, now_ms)
        return self._context.drain()

    @property
    def next_due_ms(self) -> int:
        """When there is something to do though nothing happens; now or earlier means as soon as others were served."""
        return min(self._housekeeping.next_due_ms, *[protocol.next_due_ms for protocol in self._protocols])

    def replay(self, batches: Iterable[RecordBatch]) -> OffsetsState:
        """Give what a log comes to, for `OffsetsLoaded`; it changes nothing here, and may run in another thread."""
        return replay(batches, self._registered(OffsetsState()))

    def _registered(self, state: OffsetsState) -> OffsetsState:
        for protocol in self._protocols:
            protocol.register(state)
        return state

    # The log's answers

    def _on_logged(self, event: OffsetsLogged, now_ms: int) -> None:
        append = self._context.appends.pop(event.token, None)
        if append is not None:
            assert isinstance(append, OffsetsAppend), f"{event} does not answer a LogMarkers"
            append.outcome = _NONE
            self._finish_in_order(append.shard, now_ms)

    def _on_markers_logged(self, event: MarkersLogged, now_ms: int) -> None:
        append = self._context.appends.pop(event.token, None)
        if append is not None:
            assert isinstance(append, MarkersAppend), f"{event} does not answer a LogOffsets"
            append.outcome = event.error_codes or (_NONE,) * len(append.markers)
            self._finish_in_order(append.shard, now_ms)

    def _on_lost(self, event: OffsetsLost, now_ms: int) -> None:
        append = self._context.appends.pop(event.token, None)
        if append is not None:
            _give_up(append, event.error_code)
            self._finish_in_order(append.shard, now_ms)

    def _finish_in_order(self, shard: Shard, now_ms: int) -> None:
        """Finish what has an outcome, as far as everything before it in the log has one too."""
        in_flight = shard.in_flight
        while in_flight and in_flight[0].outcome is not None:
            self._finish(in_flight.popleft(), now_ms)

    def _finish(self, append: Append, now_ms: int) -> None:
        assert append.outcome is not None
        if isinstance(append, OffsetsAppend):
            self._context.finish_offsets(append, append.outcome, now_ms)
        else:
            self._context.finish_markers(append, append.outcome, now_ms)

    # Partitions of `__consumer_offsets`

    def _on_assigned(self, event: OffsetsAssigned, now_ms: int) -> None:
        known = self._shards.by_partition.get(event.offsets_partition)
        if known is None or known.epoch < event.epoch:
            if known is not None:
                self._close(known, now_ms)
            self._shards.open(event.offsets_partition, event.epoch)

    def _on_loaded(self, event: OffsetsLoaded, now_ms: int) -> None:
        shard = self._shards.by_partition.get(event.offsets_partition)
        if shard is None or shard.epoch != event.epoch or shard.is_loaded:
            return
        shard.load(self._registered(event.state))
        self._context.begin_behind(event.state.next_position)
        for protocol in self._protocols:
            protocol.loaded(shard, now_ms)
        # No client can have committed anything here since they were deleted.
        shard.deleted_topics = dict.fromkeys(shard.deleted_topics, self._context.next_token)
        self._housekeeping.delete_topics(shard)

    def _on_resigned(self, event: OffsetsResigned, now_ms: int) -> None:
        shard = self._shards.by_partition.get(event.offsets_partition)
        if shard is not None and shard.epoch <= event.epoch:
            self._close(shard, now_ms)

    def _close(self, shard: Shard, now_ms: int) -> None:
        """Forget a partition that is no longer led here, and tell all clients that wait on it."""
        del self._shards.by_partition[shard.offsets_partition]
        shard.is_loaded = False
        for protocol in self._protocols:
            protocol.closed(shard, now_ms)
        for append in shard.in_flight:
            # An answer of the log that waited for an earlier one stays true.
            if append.outcome is None:
                self._context.appends.pop(append.token)
                _give_up(append, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._finish(append, now_ms)
        for request in shard.verifications.void_all():
            self._context.reply(request.request_id, ErrorCode.NOT_COORDINATOR)

    # The rest

    def _on_markers(self, event: WriteMarkers, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        self._markers.write(event)

    def _on_topics_deleted(self, event: OffsetsOfTopicDeleted, now_ms: int) -> None:  # noqa: ARG002 - as above
        self._housekeeping.topics_deleted(event.topics)

    def _on_tick(self, event: Tick, now_ms: int) -> None:  # noqa: ARG002 - it says no more than that time has passed
        for protocol in self._protocols:
            protocol.tick(now_ms)
        self._housekeeping.tick(now_ms)


def _give_up(append: Append, error_code: ErrorCode) -> None:
    if isinstance(append, OffsetsAppend):
        append.outcome = error_code
    else:
        append.outcome = (error_code,) * len(append.markers)
