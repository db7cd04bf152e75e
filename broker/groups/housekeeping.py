"""What a group coordinator does because time has passed or topics are gone."""

from __future__ import annotations

from collections import deque

from eagleray.broker.groups.context import RETRY_MS, GroupContext
from eagleray.broker.groups.state import NO_TIME, Group, StoredOffset
from eagleray.broker.identities import TopicPartition
from eagleray.broker.runtime.deadlines import AT_ONCE_MS, NEVER_MS
from eagleray.protocol.errors import ErrorCode


class GroupHousekeeping:
    """Deletes the offsets that no group uses any more, and those of deleted topics.

    A group that has neither members nor offsets any more is deleted whole. What a log that takes nothing should have
    lost is found again at a later tick.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._next_expiry_check_ms = 0
        self._next_deletion_ms = NEVER_MS
        self._partitions_to_check: deque[int] = deque()

    @property
    def next_due_ms(self) -> int:
        """When there is something to do."""
        return AT_ONCE_MS if self._partitions_to_check else min(self._next_expiry_check_ms, self._next_deletion_ms)

    def tick(self, now_ms: int, *, may_expire: bool = True) -> None:
        """Do what is due by now; where nothing `may_expire`, offsets that are old stay."""
        if now_ms >= self._next_deletion_ms:
            self.topics_deleted((), now_ms)
        if now_ms >= self._next_expiry_check_ms:
            self._next_expiry_check_ms = now_ms + self._context.config.offsets_retention_check_interval_ms
            self._partitions_to_check = deque(self._context.shards.by_partition if may_expire else ())
        if self._partitions_to_check:
            # One partition a tick: there may be very many offsets, and meanwhile no request is served.
            self._expire(self._partitions_to_check.popleft(), now_ms)

    def topics_deleted(self, topics: tuple[str, ...], now_ms: int) -> None:
        """Delete the offsets of topics everywhere, with those of topics whose offsets a log did not let go before."""
        for shard in self._context.shards:
            self._context.delete_topics(shard, topics)
        is_unfinished = any(shard.deleted_topics and shard.is_loaded for shard in self._context.shards)
        self._next_deletion_ms = now_ms + RETRY_MS if is_unfinished else NEVER_MS

    def _expire(self, partition: int, now_ms: int) -> None:
        shard = self._context.shards.by_partition.get(partition)
        if shard is None or self._context.refusal(shard) is not ErrorCode.NONE:
            return
        for name in {*shard.state.groups, *shard.live}:
            membership = shard.membership_of(name)
            group = self._context.offsets_of(shard, name)
            if group.pending or membership.has_members:
                continue
            expired = self._expired(group, membership.empty_since_ms, now_ms)
            if len(expired) == len(group.offsets) and membership.tombstones():
                self._context.log_deletion(shard, name, expired)
            else:
                self._context.log_tombstones(shard, name, expired)

    def _expired(self, group: Group, empty_since_ms: int, now_ms: int) -> list[TopicPartition]:
        latest_ms = now_ms - self._context.config.offsets_retention_ms
        is_recent = empty_since_ms > latest_ms
        return [
            partition
            for partition, offset in group.offsets.items()
            if _is_expired(offset, latest_ms, now_ms, group_is_recent=is_recent)
        ]


def _is_expired(offset: StoredOffset, latest_ms: int, now_ms: int, *, group_is_recent: bool) -> bool:
    if offset.expires_ms != NO_TIME:
        return offset.expires_ms <= now_ms
    return not group_is_recent and offset.committed_ms <= latest_ms
