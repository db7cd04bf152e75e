"""The partitions of `__consumer_offsets` that a coordinator leads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TypeAlias

from eagleray.broker.groups.events import OFFSETS_TOPIC, CommitTransactionOffsets, Reply
from eagleray.broker.groups.log_writer import Entry
from eagleray.broker.groups.membership import NO_MEMBERS, Membership
from eagleray.broker.groups.state import OffsetsState
from eagleray.broker.hashing import partition_for_name
from eagleray.broker.identities import TopicPartition
from eagleray.broker.partitions.decisions import FinishedDecisions
from eagleray.broker.partitions.events import AskLastDecision, VerifyTransaction
from eagleray.broker.partitions.verification import Verifications
from eagleray.broker.runtime.connection_bindings import NO_QUESTION, ConnectionBindings
from eagleray.broker.runtime.coordinator_runtime import CoordinatorRuntime, CoordinatorShard
from eagleray.protocol.errors import ErrorCode

Said: TypeAlias = Reply | VerifyTransaction | AskLastDecision
"""What waits until the log on which it rests is committed; a question rests on nothing."""


class Shard(CoordinatorShard[int, Entry, Said]):
    """One partition of `__consumer_offsets` at one epoch.

    Owns: the state that its log comes to, and the commits that wait until their transaction is verified. Holds the
    groups that have members, for the protocols that they use. The records of a turn have their producer's id as a key.
    """

    __slots__ = ("bindings", "decisions", "deleted_topics", "live", "state", "verifications")

    def __init__(self, partition: int, epoch: int, verification_ids: Iterator[int], questions: Iterator[int]) -> None:
        super().__init__(partition, epoch)
        self.bindings: ConnectionBindings[int] = ConnectionBindings(questions)
        """By which connection each producer may commit offsets in transactions of version 1, by its id."""
        self.state = OffsetsState()
        self.live: dict[str, Membership] = {}
        """The groups that have, or have had, members, each of one protocol."""
        self.verifications: Verifications[CommitTransactionOffsets] = Verifications(verification_ids)
        self.decisions = FinishedDecisions(TopicPartition(OFFSETS_TOPIC, partition), verification_ids)
        self.deleted_topics: set[str] = set()
        """Topics whose offsets have to go before the log takes anything else."""

    def membership_of(self, group: str) -> Membership:
        """Return who is in a group."""
        return self.live.get(group, NO_MEMBERS)


GroupRuntime: TypeAlias = CoordinatorRuntime[Shard, int, Entry, Said]


class ShardTable:
    """The shards of one coordinator, and which of them keeps which group."""

    def __init__(self, partitions: int, shards: dict[int, Shard]) -> None:
        self.by_partition = shards
        self._verification_ids = count(1)
        self._questions = count(NO_QUESTION + 1)
        self._partitions = partitions

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.by_partition.values())

    def partition_of(self, group: str) -> int:
        """Say which partition of `__consumer_offsets` keeps a group."""
        return partition_for_name(group, self._partitions)

    def new_shard(self, partition: int, epoch: int) -> Shard:
        """Make the shard of a partition, as yet without what it holds."""
        return Shard(partition, epoch, self._verification_ids, self._questions)

    def find(self, group: str) -> Shard | ErrorCode:
        """Return the shard that a group belongs to, or why it cannot be asked here and now."""
        shard = self.by_partition.get(self.partition_of(group))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
