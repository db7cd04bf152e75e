"""Coordinators with one rule broken, and compactions of what they keep."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from eagleray.broker.groups.events import FetchOffsets
from eagleray.broker.groups.requests import GroupRequestServer
from eagleray.broker.groups.state import OffsetsState, StoredOffset
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log.compaction_plan import Cleanable, plan_compaction
from eagleray.broker.log.offset_map import OffsetMap
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.readable_log import ReadableLog
from eagleray.broker.replication.leader import ReplicationLeader
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
        self: OffsetsState, producer: ProducerIdentity, group: str, partition: TopicPartition, offset: StoredOffset
    ) -> None:
        original(self, producer, group, partition, offset)
        self.commit(group, partition, offset)

    return mock.patch.object(OffsetsState, "commit_in_transaction", commit)


def _applying_aborted_offsets() -> AbstractContextManager[Any]:
    """Offsets of a transaction that count whatever its marker says."""
    original = OffsetsState.end_transaction

    def end(
        self: OffsetsState, producer: ProducerIdentity, coordinator_epoch: int, now_ms: int, *, commit: bool
    ) -> None:
        original(self, producer, coordinator_epoch, now_ms, commit=True)

    return mock.patch.object(OffsetsState, "end_transaction", end)


def _telling_unstable_offsets() -> AbstractContextManager[Any]:
    """A coordinator that tells what is about to change, although it was asked for what is stable."""
    original = GroupRequestServer.fetch

    def fetch(self: GroupRequestServer, request: FetchOffsets, now_ms: int) -> None:
        original(self, msgspec.structs.replace(request, require_stable=False), now_ms)

    return mock.patch.object(GroupRequestServer, "fetch", fetch)


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
    "compaction that drops the newest of a key": _dropping_the_newest,
    "compaction of what may be undone": _compacting_what_may_be_undone,
}
