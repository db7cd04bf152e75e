"""Coordinators with one rule broken, and compactions of what they keep."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from eagleray.actors.internal_topic import InternalTopic
from eagleray.broker.groups import requests
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import OffsetsState, StoredOffset
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.log import compaction_plan
from eagleray.broker.log.offset_map import OffsetMap, _name_of
from eagleray.broker.log.partition_log import PartitionLog
from eagleray.broker.log.readable_log import ReadableLog
from eagleray.broker.messages import Message
from tests.simulation.cluster.places import OFFSETS, TRANSACTIONS

# What coordinators make of their logs


def _coordinating_at_once(topic: str) -> AbstractContextManager[Any]:
    """A coordinator that takes what it decides for logged as soon as it is appended."""
    original = InternalTopic.replicate

    def replicate(self: InternalTopic, outcomes: dict[int, list[Message]]) -> list[Message]:
        now = original(self, outcomes)
        if self._name == topic:
            for token, (end_offset, waiting) in self._outcomes.items():
                now += waiting
                self._outcomes[token] = end_offset, []
        return now

    return mock.patch.object(InternalTopic, "replicate", replicate)


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

    def unstable(shard: Shard, name: str, group: object) -> set[TopicPartition]:
        return set()

    return mock.patch.object(requests, "_unstable_partitions", unstable)


# Compaction


def _dropping_the_newest() -> AbstractContextManager[Any]:
    """A compaction that takes the newest record of a key for superseded."""

    def is_superseded(self: OffsetMap, key: bytes, offset: int) -> bool:
        return offset <= self._newest_offsets.get(_name_of(key), -1)

    return mock.patch.object(OffsetMap, "is_superseded", is_superseded)


def _compacting_what_may_be_undone() -> AbstractContextManager[Any]:
    """A compaction that goes up to the end of the log, replicated and decided or not."""
    original = compaction_plan._find_cleanable

    def find(log: PartitionLog, now_ms: int) -> Any:
        with mock.patch.object(ReadableLog, "last_stable_offset", property(lambda self: self.log_end_offset)):
            return original(log, now_ms)

    return mock.patch.object(compaction_plan, "_find_cleanable", find)


COORDINATOR_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "coordinator that answers at once": lambda: _coordinating_at_once(TRANSACTIONS.topic),
    "group coordinator that answers at once": lambda: _coordinating_at_once(OFFSETS.topic),
    "offsets that count before their marker": _showing_pending_offsets,
    "offsets of an aborted transaction that count": _applying_aborted_offsets,
    "unstable offsets that are told": _telling_unstable_offsets,
    "compaction that drops the newest of a key": _dropping_the_newest,
    "compaction of what may be undone": _compacting_what_may_be_undone,
}
