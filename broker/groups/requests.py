"""What is asked about groups, and what admins want to be gone."""

from __future__ import annotations

from eagleray.broker.groups.context import GroupContext
from eagleray.broker.groups.events import (
    CommittedOffset,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    GroupsListed,
    ListedGroup,
    ListGroups,
    OffsetsCommitted,
    OffsetsFetched,
)
from eagleray.broker.groups.membership import Membership
from eagleray.broker.groups.shards import Shard
from eagleray.broker.groups.state import Group
from eagleray.broker.identities import TopicPartition
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE
_SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
_NOTHING = Group()


class GroupRequestServer:
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
        refusal = shard.membership_of(request.group).check_fetch(request.member_id, request.member_epoch)
        if refusal is not _NONE:
            self._context.emit(OffsetsFetched(request.request_id, refusal))
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
        """Have offsets deleted, but none of a topic that a member reads; those that are not there are gone already."""
        shard = self._find_known(request)
        if isinstance(shard, ErrorCode):
            self._context.reply(request.request_id, shard)
            return
        membership = shard.membership_of(request.group)
        refusal = membership.check_delete_offsets()
        if refusal is not _NONE:
            self._context.reply(request.request_id, refusal)
            return
        topics = {partition.topic for partition in request.partitions}
        read = {topic for topic in topics if membership.subscribes_to(topic)}
        errors = tuple(_SUBSCRIBED if partition.topic in read else _NONE for partition in request.partitions)
        answer = OffsetsCommitted(request.request_id, _NONE, errors if read else ())
        known = _partitions_to_come(shard, request.group)
        wanted = [partition for partition in dict.fromkeys(request.partitions) if partition.topic not in read]
        partitions = [partition for partition in wanted if partition in known]
        if partitions:
            self._context.log_tombstones(shard, request.group, partitions, answer)
        else:
            self._context.emit(answer)

    def delete_group(self, request: DeleteGroup, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Have all offsets of a group deleted, and what the log says of its members."""
        shard = self._find_known(request)
        if isinstance(shard, ErrorCode):
            self._context.reply(request.request_id, shard)
        elif shard.membership_of(request.group).has_members:
            self._context.reply(request.request_id, ErrorCode.NON_EMPTY_GROUP)
        else:
            partitions = sorted(_partitions_to_come(shard, request.group))
            self._context.log_deletion(shard, request.group, partitions, OffsetsCommitted(request.request_id, _NONE))

    def _find_known(self, request: DeleteOffsets | DeleteGroup) -> Shard | ErrorCode:
        """Return the shard of a group that there is."""
        shard = self._find_shard(request.group)
        if isinstance(shard, ErrorCode) or request.group in shard.live:
            return shard
        return shard if _partitions_to_come(shard, request.group) else ErrorCode.GROUP_ID_NOT_FOUND

    # ListGroups

    def list_groups(self, request: ListGroups, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Name all groups; a list that would lack some because they are being loaded is not given."""
        shards = self._context.shards
        if not all(shard.is_loaded for shard in shards):
            self._context.emit(GroupsListed(request.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        groups = [
            _listed(name, shard.membership_of(name)) for shard in shards for name in {*shard.state.groups, *shard.live}
        ]
        wanted = tuple(sorted((group for group in groups if _is_wanted(group, request)), key=lambda group: group.name))
        self._context.emit(GroupsListed(request.request_id, _NONE, wanted))

    def _find_shard(self, group: str) -> Shard | ErrorCode:
        return self._context.shards.find(group) if group else ErrorCode.INVALID_GROUP_ID


def _listed(name: str, membership: Membership) -> ListedGroup:
    return ListedGroup(name, membership.kind, membership.state_name, membership.protocol_type)


def _is_wanted(group: ListedGroup, request: ListGroups) -> bool:
    return (
        _is_among(group.state, request.states)
        and _is_among(group.kind, request.kinds)
        and _is_among(group.protocol_type, request.protocol_types)
    )


def _is_among(found: str, wanted: tuple[str, ...]) -> bool:
    return not wanted or found.lower() in (name.lower() for name in wanted)


def _unstable_partitions(shard: Shard, name: str, group: Group) -> set[TopicPartition]:
    """Return the partitions for which a transaction holds offsets, or is about to.

    What is on its way to the log counts as well: the client that commits it was a member when it was asked for. A
    successor that did not wait for it would begin at an offset that the transaction is about to go beyond.
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
