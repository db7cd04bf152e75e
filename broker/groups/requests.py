"""What is asked about groups, and what admins want to be gone."""

from __future__ import annotations

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.events import (
    CommittedOffset,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    GroupsListed,
    ListGroups,
    OffsetsCommitted,
    OffsetsFetched,
)
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import Group
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_NOTHING = Group()


class RequestServer:
    """Answers questions from what is in the log, and has tombstones logged."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    # FetchOffsets

    def fetch(self, request: FetchOffsets, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Say how far a group has come."""
        shard = self._find_shard(request.group)
        if isinstance(shard, ErrorCode):
            self._context.emit(OffsetsFetched(request.request_id, shard))
            return
        group = shard.state.groups.get(request.group, _NOTHING)
        unstable = _unstable_partitions(shard, request.group, group) if request.require_stable else set()
        wanted = request.partitions
        if wanted is None:
            wanted = tuple(sorted(unstable.union(group.offsets)))
        offsets = tuple(_answer(group, partition, unstable) for partition in wanted)
        self._context.emit(OffsetsFetched(request.request_id, _NONE, offsets))

    # DeleteOffsets and DeleteGroup

    def delete_offsets(self, request: DeleteOffsets, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Have the offsets of some partitions deleted; those that a group does not have are gone already."""
        shard, known = self._find_deletable(request)
        if shard is not None:
            partitions = [partition for partition in dict.fromkeys(request.partitions) if partition in known]
            self._delete(shard, request, partitions)

    def delete_group(self, request: DeleteGroup, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Have all offsets of a group deleted."""
        shard, known = self._find_deletable(request)
        if shard is not None:
            self._delete(shard, request, sorted(known))

    def _find_deletable(self, request: DeleteOffsets | DeleteGroup) -> tuple[Shard | None, set[TopicPartition]]:
        """Return the shard of a group, and the partitions that it has offsets for, unless the request is refused."""
        shard = self._find_shard(request.group)
        known: set[TopicPartition] = set()
        if isinstance(shard, ErrorCode):
            error_code = shard
        elif self._context.membership_of(request.group).members:
            error_code = ErrorCode.NON_EMPTY_GROUP
        else:
            known = _partitions_to_come(shard, request.group)
            error_code = _NONE if known else ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(shard, ErrorCode) or error_code is not _NONE:
            self._context.reply(request.request_id, error_code)
            return None, known
        return shard, known

    def _delete(self, shard: Shard, request: DeleteOffsets | DeleteGroup, partitions: list[TopicPartition]) -> None:
        answer = OffsetsCommitted(request.request_id, _NONE)
        if partitions:
            self._context.log_tombstones(shard, request.group, partitions, answer)
        else:
            self._context.emit(answer)

    # ListGroups

    def list_groups(self, request: ListGroups, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Name all groups; a list that would lack some because they are being loaded is not given."""
        shards = self._context.shards
        if not all(shard.is_loaded for shard in shards):
            self._context.emit(GroupsListed(request.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        names = {name for shard in shards for name in shard.state.groups}
        for name, membership in self._context.memberships.items():
            if membership.members and shards.partition_of(name) in shards.by_partition:
                names.add(name)
        self._context.emit(GroupsListed(request.request_id, _NONE, tuple(sorted(names))))

    def _find_shard(self, group: str) -> Shard | ErrorCode:
        return self._context.shards.find(group) if group else ErrorCode.INVALID_GROUP_ID


def _unstable_partitions(shard: Shard, name: str, group: Group) -> set[TopicPartition]:
    """Return the partitions for which a transaction holds offsets, or is about to.

    What is on its way to the log counts as well: whoever commits it was a member when it was asked for. A successor
    that did not wait for it would begin at an offset that the transaction is about to go beyond.
    """
    unstable = set().union(*group.pending.values())
    for append in shard.offsets_in_flight(name):
        if append.producer is not None:
            unstable.update(partition for partition, _ in append.changes)
    return unstable


def _partitions_to_come(shard: Shard, name: str) -> set[TopicPartition]:
    """Return the partitions that a group may have offsets for when all that is under way has got somewhere.

    A tombstone that is under way takes none of them away: it may be lost, and the group be there all the same.
    """
    partitions = shard.state.groups.get(name, _NOTHING).partitions()
    for append in shard.offsets_in_flight(name):
        partitions.update(partition for partition, offset in append.changes if offset is not None)
    return partitions


def _answer(group: Group, partition: TopicPartition, unstable: set[TopicPartition]) -> CommittedOffset:
    if partition in unstable:
        return CommittedOffset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = group.offsets.get(partition)
    if found is None:
        return CommittedOffset(partition, _NONE)
    return CommittedOffset(partition, _NONE, found.offset, found.leader_epoch, found.metadata)
