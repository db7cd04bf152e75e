"""The partitions of `__consumer_offsets` that a coordinator leads, and what is on its way to their logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

import msgspec

from eagleray.broker.groups.events import CommitTransactionOffsets, OffsetsCommitted
from eagleray.broker.groups.membership import NO_MEMBERS, LogRecord, Membership
from eagleray.broker.groups.state import OffsetsState, StoredOffset
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import ProducerIdentity, TopicPartition
from eagleray.broker.messages import Marker
from eagleray.broker.partitions.verification import Verifications
from eagleray.protocol.errors import ErrorCode

Changes: TypeAlias = tuple[tuple[TopicPartition, StoredOffset | None], ...]
"""What is to become of the offsets of some partitions; None deletes one."""


Finished: TypeAlias = Callable[[ErrorCode, int], None]
"""Told when something is in the log, or why it is not, and the time."""


class OffsetsAppend(msgspec.Struct):
    """Offsets or members of one group on their way to the log, and the answer that waits for them."""

    shard: Shard
    token: int
    group: str
    changes: Changes
    producer: ProducerIdentity | None = None
    answer: OffsetsCommitted | None = None
    members: tuple[LogRecord, ...] = ()
    """What the log is to say of the group's members."""

    finished: Finished | None = None
    outcome: ErrorCode | None = None


class MarkersRequest(msgspec.Struct):
    """A request with markers for one partition or for many, until each of them has its outcome."""

    request_id: int
    outcomes: list[ErrorCode]
    appends_left: int = 0


class MarkersAppend(msgspec.Struct):
    """Markers on their way to the log of one partition."""

    shard: Shard
    token: int
    request: MarkersRequest
    markers: tuple[Marker, ...]
    places: list[int]
    """Where in the request each of the markers stands."""

    outcome: tuple[ErrorCode, ...] | None = None


Append: TypeAlias = OffsetsAppend | MarkersAppend


class Shard:
    """One partition of `__consumer_offsets` at one epoch.

    Owns: the state that its log comes to, the appends that are under way, in the order of the log, and the commits that
    wait until their transaction is verified. Holds the groups that have members, for the protocols that they use.
    """

    __slots__ = (
        "confirmed",
        "deleted_topics",
        "epoch",
        "in_flight",
        "is_loaded",
        "live",
        "offsets_partition",
        "state",
        "verifications",
    )

    def __init__(self, offsets_partition: int, epoch: int, verification_ids: Iterator[int]) -> None:
        self.offsets_partition = offsets_partition
        self.epoch = epoch
        self.is_loaded = False
        self.state = OffsetsState()
        self.live: dict[str, Membership] = {}
        """The groups that have, or have had, members, each of one protocol."""
        self.in_flight: deque[Append] = deque()
        self.verifications: Verifications[CommitTransactionOffsets] = Verifications(verification_ids)
        self.confirmed: dict[int, int] = {}
        """By producer id, the epoch whose transaction surely sends a marker here: no need to ask about it again."""
        self.deleted_topics: dict[str, int] = {}
        """Topics whose offsets have to go, with the position from which on they may be those of a later topic."""

    def load(self, state: OffsetsState) -> None:
        """Take what the log holds."""
        self.is_loaded = True
        self.state = state
        self.confirmed = {
            producer_id: producer.epoch for producer_id, producer in state.producers.items() if producer.is_open
        }

    def membership_of(self, group: str) -> Membership:
        """Return who is in a group."""
        return self.live.get(group, NO_MEMBERS)

    def offsets_in_flight(self, group: str) -> Iterator[OffsetsAppend]:
        """Go over what is under way for one group."""
        return (append for append in self.in_flight if isinstance(append, OffsetsAppend) and append.group == group)

    def partitions_in_flight(self) -> dict[str, set[TopicPartition]]:
        """Return for each group the partitions whose offsets are about to change."""
        partitions: dict[str, set[TopicPartition]] = {}
        for append in self.in_flight:
            if isinstance(append, OffsetsAppend):
                partitions.setdefault(append.group, set()).update(partition for partition, _ in append.changes)
        return partitions


class ShardTable:
    """The shards of one coordinator, and which of them keeps which group."""

    def __init__(self, partitions: int) -> None:
        self.by_partition: dict[int, Shard] = {}
        self._verification_ids = count(1)
        self._partitions = partitions

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.by_partition.values())

    def partition_of(self, group: str) -> int:
        """Say which partition of `__consumer_offsets` keeps a group."""
        return partition_for_name(group, self._partitions)

    def open(self, offsets_partition: int, epoch: int) -> None:
        """Begin with a partition of `__consumer_offsets`, as yet without what it holds."""
        self.by_partition[offsets_partition] = Shard(offsets_partition, epoch, self._verification_ids)

    def find(self, group: str) -> Shard | ErrorCode:
        """Return the shard that a group belongs to, or why it cannot be asked here and now."""
        shard = self.by_partition.get(self.partition_of(group))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
