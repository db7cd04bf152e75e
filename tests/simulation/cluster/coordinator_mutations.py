"""Coordinators with one rule broken, and compactions of what they keep."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from eagleray.broker.groups.coordinator import GroupCoordinator
from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.groups.requests import GroupRequestServer
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import OffsetsState, StoredOffset
from eagleray.broker.identities import TopicPartition
from eagleray.broker.log.compaction_plan import Cleanable, plan_compaction
from eagleray.broker.log.offset_map import OffsetMap
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.readable_log import ReadableLog
from eagleray.broker.partitions.decisions import FinishedDecisions
from eagleray.broker.replication.leader import ReplicationLeader
from eagleray.protocol.errors import ErrorCode
from tests.simulation.cluster.places import OFFSETS, TRANSACTIONS
from tests.simulation.replacing import replacing

# What coordinators make of their logs


def _coordinating_at_once(topic: str) -> AbstractContextManager[Any]:
    """A coordinator that takes what it decides for logged as soon as it is appended."""
    original = ReplicationLeader.is_replicated

    def is_replicated(self: ReplicationLeader, end_offset: int, now_ms: int) -> bool:
        return self.partition.topic == topic or original(self, end_offset, now_ms)

    return mock.patch.object(ReplicationLeader, "is_replicated", is_replicated)


# Offsets of transactions


def _showing_pending_offsets() -> AbstractContextManager[Any]:
    """Offsets of a transaction that count as soon as they are logged."""
    original = OffsetsState.commit_in_transaction

    def commit(
        self: OffsetsState, producer_id: int, group: str, partition: TopicPartition, offset: StoredOffset
    ) -> None:
        original(self, producer_id, group, partition, offset)
        self.commit(group, partition, offset)

    return mock.patch.object(OffsetsState, "commit_in_transaction", commit)


def _applying_aborted_offsets() -> AbstractContextManager[Any]:
    """Offsets of a transaction that count whatever its marker says."""
    original = OffsetsState.end_transaction

    def end(self: OffsetsState, producer_id: int, *, commit: bool) -> None:
        original(self, producer_id, commit=True)

    return mock.patch.object(OffsetsState, "end_transaction", end)


def _telling_unstable_offsets() -> AbstractContextManager[Any]:
    """A coordinator that tells what is about to change, although it was asked for what is stable."""
    original = GroupRequestServer.fetch

    def fetch(self: GroupRequestServer, request: FetchOffsets, now_ms: int) -> None:
        original(self, msgspec.structs.replace(request, require_stable=False), now_ms)

    return mock.patch.object(GroupRequestServer, "fetch", fetch)


def _seeing_transactions_late() -> AbstractContextManager[Any]:
    """A coordinator that takes offsets for stable as long as those of a transaction are not replicated."""
    original = GroupRequestServer.fetch

    def fetch(self: GroupRequestServer, request: FetchOffsets, now_ms: int) -> None:
        shard = self._find_shard(request.group)
        if isinstance(shard, Shard) and shard.held_back:
            request = msgspec.structs.replace(request, require_stable=False)
        original(self, request, now_ms)

    return mock.patch.object(GroupRequestServer, "fetch", fetch)


def _loading_without_transactions() -> AbstractContextManager[Any]:
    """A coordinator that knows nothing of the transactions that were open when it took over."""
    original = GroupCoordinator._loaded

    def loaded(self: GroupCoordinator, shard: Shard, state: OffsetsState, now_ms: int) -> None:
        for producer_id in [*state.undecided]:
            state.end_transaction(producer_id, commit=False)
        original(self, shard, state, now_ms)

    return mock.patch.object(GroupCoordinator, "_loaded", loaded)


# Markers


def _taking_late_markers() -> AbstractContextManager[Any]:
    """Leaders that take every marker of version 1, whichever transaction is open by then."""
    return mock.patch.object(FinishedDecisions, "refusal_of", return_value=ErrorCode.NONE)


# Compaction


def _dropping_the_newest() -> AbstractContextManager[Any]:
    """A compaction that takes the newest record of a key for superseded."""
    original = OffsetMap.is_superseded

    def is_superseded(self: OffsetMap, key: bytes, offset: int) -> bool:
        return original(self, key, offset - 1)

    return mock.patch.object(OffsetMap, "is_superseded", is_superseded)


def _compacting_what_may_be_undone() -> AbstractContextManager[Any]:
    """A compaction that goes up to the end of the log, replicated and decided or not."""

    def plan(log: PartitionLog, now_ms: int) -> Cleanable | None:
        with mock.patch.object(ReadableLog, "last_stable_offset", property(lambda self: self.log_end_offset)):
            return plan_compaction(log, now_ms)

    return replacing(plan_compaction, plan)


COORDINATOR_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "coordinator that answers at once": lambda: _coordinating_at_once(TRANSACTIONS.topic),
    "group coordinator that answers at once": lambda: _coordinating_at_once(OFFSETS.topic),
    "offsets that count before their marker": _showing_pending_offsets,
    "offsets of an aborted transaction that count": _applying_aborted_offsets,
    "unstable offsets that are told": _telling_unstable_offsets,
    "unstable offsets that are told until they are replicated": _seeing_transactions_late,
    "offsets of transactions that a takeover forgets": _loading_without_transactions,
    "late markers that are taken": _taking_late_markers,
    "compaction that drops the newest of a key": _dropping_the_newest,
    "compaction of what may be undone": _compacting_what_may_be_undone,
}
