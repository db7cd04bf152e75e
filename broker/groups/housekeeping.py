"""What a group coordinator does because time has passed or topics are gone."""

from __future__ import annotations

from collections import deque

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.shards import OffsetsAppend, Shard
from eagleray.broker.groups.state import NO_TIME, Group, StoredOffset
from eagleray.broker.identities import TopicPartition
from eagleray.broker.runtime.deadlines import AT_ONCE_MS

_NOTHING = Group()


class GroupHousekeeping:
    """Deletes the offsets that no group uses any more, and those of deleted topics, and forgets idle producers.

    A group that has neither members nor offsets any more is deleted whole.

    A tombstone follows nothing that is under way for its partition: it was decided on without knowing of that. What a
    lost tombstone should have deleted is found again at a later tick.
    """

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._next_expiry_check_ms = 0
        self._partitions_to_check: deque[int] = deque()
        self._has_deletions = False

    @property
    def next_due_ms(self) -> int:
        """When there is something to do."""
        return AT_ONCE_MS if self._partitions_to_check or self._has_deletions else self._next_expiry_check_ms

    def tick(self, now_ms: int) -> None:
        """Do what is due by now."""
        if self._has_deletions:
            self._has_deletions = False
            for shard in self._context.shards:
                self.delete_topics(shard)
        if now_ms >= self._next_expiry_check_ms:
            self._next_expiry_check_ms = now_ms + self._context.config.offsets_retention_check_interval_ms
            self._partitions_to_check = deque(self._context.shards.by_partition)
        if self._partitions_to_check:
            # One partition a tick: there may be very many offsets, and meanwhile no request is served.
            self._expire(self._partitions_to_check.popleft(), now_ms)

    # Expiry

    def _expire(self, offsets_partition: int, now_ms: int) -> None:
        config = self._context.config
        shard = self._context.shards.by_partition.get(offsets_partition)
        if shard is None:
            return
        shard.state.forget_producers(now_ms - config.producer_id_expiration_ms)
        in_flight = shard.partitions_in_flight()
        for name in {*shard.state.groups, *shard.live}:
            membership = shard.membership_of(name)
            group = shard.state.groups.get(name, _NOTHING)
            if group.pending or membership.has_members:
                continue
            expired = self._expired(group, membership.empty_since_ms, in_flight.get(name, set()), now_ms)
            if len(expired) == len(group.offsets) and name not in in_flight and membership.tombstones():
                self._context.log_deletion(shard, name, expired)
            elif expired:
                self._context.log_tombstones(shard, name, expired)

    def _expired(
        self, group: Group, empty_since_ms: int, busy: set[TopicPartition], now_ms: int
    ) -> list[TopicPartition]:
        latest_ms = now_ms - self._context.config.offsets_retention_ms
        is_recent = empty_since_ms > latest_ms
        return [
            partition
            for partition, offset in group.offsets.items()
            if partition not in busy and _is_expired(offset, latest_ms, now_ms, group_is_recent=is_recent)
        ]

    # Deleted topics

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Have the offsets of topics deleted, everywhere, but none of a topic that gets the same name later."""
        for shard in self._context.shards:
            shard.deleted_topics.update(dict.fromkeys(topics, self._context.next_token))
            self.delete_topics(shard)

    def delete_topics(self, shard: Shard) -> None:
        """Try to finish what deleted topics have left in a shard, unless it does not know what it has."""
        if not shard.deleted_topics or not shard.is_loaded:
            return
        deleted, in_flight = shard.deleted_topics, shard.partitions_in_flight()
        unfinished = _topics_to_come(shard)
        for name, group in shard.state.groups.items():
            doomed = [partition for partition in group.partitions() if _is_doomed(group, partition, deleted)]
            unfinished.update(partition.topic for partition in doomed)
            free = [partition for partition in doomed if partition not in in_flight.get(name, ())]
            if free:
                self._context.log_tombstones(shard, name, free)
        shard.deleted_topics = {topic: position for topic, position in deleted.items() if topic in unfinished}
        self._has_deletions = self._has_deletions or bool(shard.deleted_topics)


def _topics_to_come(shard: Shard) -> set[str]:
    """Return the deleted topics of which offsets that were asked for before are still under way."""
    return {
        partition.topic
        for append in shard.in_flight
        if isinstance(append, OffsetsAppend)
        for partition, _ in append.changes
        if append.token < shard.deleted_topics.get(partition.topic, 0)
    }


def _is_expired(offset: StoredOffset, latest_ms: int, now_ms: int, *, group_is_recent: bool) -> bool:
    if offset.expires_ms != NO_TIME:
        return offset.expires_ms <= now_ms
    return not group_is_recent and offset.committed_ms <= latest_ms


def _is_doomed(group: Group, partition: TopicPartition, deleted: dict[str, int]) -> bool:
    """Say whether all that a group has for a partition is from before its topic was deleted."""
    position = deleted.get(partition.topic)
    if position is None:
        return False
    offsets = [group.offsets.get(partition), *(pending.get(partition) for pending in group.pending.values())]
    return all(offset is None or offset.position < position for offset in offsets)
