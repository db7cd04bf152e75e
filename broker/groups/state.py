"""What replaying one partition of `__consumer_offsets` gives: the offsets of its groups, decided and undecided.

The live coordinator and a recovery change it by the same few methods, each for one thing that is in the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import msgspec

from eagleray.broker.identities import TopicPartition

NO_TIME: Final = -1


class StoredOffset(msgspec.Struct, frozen=True, gc=False):
    """An offset that a group has committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    position: int
    """Where it stands in the order of the log: its offset there, or a number larger than all before it."""

    expires_ms: int = NO_TIME
    """When it expires, for one that an old client gave a lifetime of its own."""


class Group(msgspec.Struct):
    """The offsets of one group."""

    offsets: dict[TopicPartition, StoredOffset] = {}
    pending: dict[int, dict[TopicPartition, StoredOffset]] = {}
    """By producer id, those of transactions that are not decided."""

    def partitions(self) -> set[TopicPartition]:
        """Return all partitions that the group has an offset for, decided or not."""
        return set(self.offsets).union(*self.pending.values())


class MembersState(ABC):
    """What the records that one protocol of groups keeps of its members come to."""

    @abstractmethod
    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take one record that is in the log."""


class OffsetsState(msgspec.Struct):
    """One partition of `__consumer_offsets`: nothing here that its log does not say.

    A group is here as long as it has an offset, decided or not. What the log itself knows of producers is not here.
    """

    groups: dict[str, Group] = {}
    undecided: dict[int, set[str]] = {}
    """By producer id, the groups in which its transaction holds offsets."""

    time_set_by_ms: int = 0
    """By how much the times in the log are ahead of those here, which are of a clock that is never set."""

    members: dict[int, MembersState] = {}
    """By the type of a record's key, the protocol that takes it; other records are skipped."""

    next_position: int = 0
    """Larger than every position so far."""

    def commit(self, group: str, partition: TopicPartition, offset: StoredOffset) -> None:
        """Take an offset that was committed outside of any transaction."""
        self._group(group).offsets[partition] = offset

    def commit_in_transaction(
        self, producer_id: int, group: str, partition: TopicPartition, offset: StoredOffset
    ) -> None:
        """Take an offset that counts once its transaction is committed."""
        self.undecided.setdefault(producer_id, set()).add(group)
        self._group(group).pending.setdefault(producer_id, {})[partition] = offset

    def remove(self, group: str, partition: TopicPartition) -> None:
        """Take a tombstone: it removes the offset of a partition, and those that transactions hold for it."""
        known = self.groups.get(group)
        if known is None:
            return
        known.offsets.pop(partition, None)
        for producer_id in [pid for pid, offsets in known.pending.items() if partition in offsets]:
            del known.pending[producer_id][partition]
            if not known.pending[producer_id]:
                del known.pending[producer_id]
                self.undecided[producer_id].discard(group)
        self._forget_empty(group, known)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Take a marker: what the producer has pending becomes the groups' offsets, or vanishes."""
        for name in self.undecided.pop(producer_id, ()):
            group = self.groups[name]
            pending = group.pending.pop(producer_id)
            if commit:
                _take_over(group.offsets, pending)
            self._forget_empty(name, group)

    def topics(self) -> set[str]:
        """Return the topics that there are offsets of; the caller knows which of them are deleted."""
        return {partition.topic for group in self.groups.values() for partition in group.partitions()}

    def _group(self, name: str) -> Group:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = Group()
        return group

    def _forget_empty(self, name: str, group: Group) -> None:
        if not group.offsets and not group.pending:
            del self.groups[name]


def _take_over(offsets: dict[TopicPartition, StoredOffset], pending: dict[TopicPartition, StoredOffset]) -> None:
    """Let a transaction's offsets count, but for those that were committed before what is there already.

    The later commit wins, not the later marker: otherwise an offset could go back because its transaction was slow,
    and what a replay gives would depend on what compaction has left of the log.
    """
    for partition, offset in pending.items():
        known = offsets.get(partition)
        if known is None or known.position < offset.position:
            offsets[partition] = offset
