"""The limits on what a partition of `__consumer_offsets` keeps: groups, members and offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import Group
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from eagleray.broker.groups.context import GroupContext

LOOK_MS: Final = 1000
"""How soon everything is counted again when there is too much: newcomers cannot have it done each time."""


class Allowance:
    """Counts newcomers, and counts everything again, at most once a second, when there may be too much.

    What goes is not noted, so that it costs nothing: `taken` may be too high until the next count, and never too low.
    """

    __slots__ = ("_count", "_most", "_next_count_ms", "taken")

    def __init__(self, most: int, count: Callable[[], int], now_ms: int) -> None:
        self.taken = most
        self._most = most
        self._count = count
        self._next_count_ms = now_ms

    def take(self, now_ms: int) -> bool:
        """Take a newcomer, and return True, or False where there are as many as there may be."""
        if self.taken >= self._most and now_ms >= self._next_count_ms:
            self._next_count_ms = now_ms + LOOK_MS
            self.taken = self._count()
        if self.taken >= self._most:
            return False
        self.taken += 1
        return True


class _Allowances:
    """What one shard may take."""

    def __init__(self, shard: Shard, context: GroupContext, now_ms: int) -> None:
        config = context.config
        self.shard = shard
        self._context = context
        self.groups = Allowance(config.max_groups_per_partition, self._count_groups, now_ms)
        self.members = Allowance(config.max_members_per_partition, self._count_members, now_ms)
        self.offsets = Allowance(config.max_offsets_per_partition, self._count_offsets, now_ms)

    def _count_groups(self) -> int:
        """Delete the groups that have nothing any more, and count the others."""
        shard = self.shard
        for name in [name for name, each in shard.live.items() if not each.size and name not in shard.state.groups]:
            self._context.log_deletion(shard, name)
        return len(shard.live.keys() | shard.state.groups.keys())

    def _count_members(self) -> int:
        return sum(each.size for each in self.shard.live.values())

    def _count_offsets(self) -> int:
        return sum(map(size_of, self.shard.state.groups.values()))


class GroupLimits:
    """Says whether a partition takes one more group, member or offset.

    What is there is never refused: a member may come back, and an offset be committed again, whatever the limits are.
    Where there are too many groups, those that have neither members nor offsets make room; a stranger cannot make any
    other go. Asked when the log takes what is decided.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._by_partition: dict[int, _Allowances] = {}

    def _of(self, shard: Shard, now_ms: int) -> _Allowances:
        known = self._by_partition.get(shard.partition)
        if known is None or known.shard is not shard:
            known = self._by_partition[shard.partition] = _Allowances(shard, self._context, now_ms)
        return known

    def refusal_of_group(self, shard: Shard, group: str, now_ms: int) -> ErrorCode:
        """Say why a group cannot be there, or NONE."""
        is_known = group in shard.live or group in shard.state.groups
        has_room = is_known or self._of(shard, now_ms).groups.take(now_ms)
        return ErrorCode.NONE if has_room else ErrorCode.POLICY_VIOLATION

    def refusal_of_member(self, shard: Shard, now_ms: int) -> ErrorCode:
        """Say why a client that is no member cannot become one, or NONE."""
        return ErrorCode.NONE if self._of(shard, now_ms).members.take(now_ms) else ErrorCode.POLICY_VIOLATION

    def refusal_of_offset(
        self, shard: Shard, group: Group, size: int, partition: TopicPartition, now_ms: int
    ) -> ErrorCode:
        """Say why a group of some size cannot have an offset of a partition, or NONE."""
        if partition in group.offsets or any(partition in pending for pending in group.pending.values()):
            return ErrorCode.NONE
        has_room = size < self._context.config.max_offsets_per_group and self._of(shard, now_ms).offsets.take(now_ms)
        return ErrorCode.NONE if has_room else ErrorCode.POLICY_VIOLATION


def size_of(group: Group) -> int:
    """How many offsets a group has, decided or not."""
    return len(group.offsets) + sum(map(len, group.pending.values()))
