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


class GroupRequestServer:
    """Answers questions, and logs tombstones."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    # FetchOffsets

    def fetch(self, request: FetchOffsets, now_ms: int) -> None:  # noqa: ARG002 - all handlers take the time
        """Say how far a group has come."""
        shard = self._find_shard(request.group)
        if isinstance(shard, ErrorCode):
            self._context.say_at_once(OffsetsFetched(request.request_id, shard))
            return
        refusal = shard.membership_of(request.group).check_fetch(request.member_id, request.member_epoch)
        if refusal is not _NONE:
            self._context.say(shard, OffsetsFetched(request.request_id, refusal))
            return
        group = self._context.offsets_of(shard, request.group)
        unstable: set[TopicPartition] = set()
        pending: tuple[int, ...] = ()
        if request.require_stable:
            unstable.update(*group.pending.values())
            pending = tuple(group.pending)
        wanted = request.partitions
        if wanted is None:
            wanted = tuple(sorted(unstable.union(group.offsets)))
        offsets = tuple(_answer(group, partition, unstable) for partition in wanted)
        self._context.say(shard, OffsetsFetched(request.request_id, _NONE, offsets, pending))

    # DeleteOffsets and DeleteGroup

    def delete_offsets(self, request: DeleteOffsets, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Delete offsets, but none of a topic that a member reads; those that are not there are gone already."""
        shard = self._find_to_change(request)
        if shard is None:
            return
        membership = shard.membership_of(request.group)
        refusal = membership.check_delete_offsets()
        if refusal is not _NONE:
            self._context.reply(request.request_id, refusal, shard)
            return
        topics = {partition.topic for partition in request.partitions}
        read = {topic for topic in topics if membership.subscribes_to(topic)}
        known = self._context.offsets_of(shard, request.group).partitions()
        wanted = dict.fromkeys(partition for partition in request.partitions if partition.topic not in read)
        self._context.log_tombstones(shard, request.group, [partition for partition in wanted if partition in known])
        errors = tuple(_SUBSCRIBED if partition.topic in read else _NONE for partition in request.partitions)
        self._context.say(shard, OffsetsCommitted(request.request_id, _NONE, errors if read else ()))

    def delete_group(self, request: DeleteGroup, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Delete all offsets of a group, and what the log says of its members."""
        shard = self._find_to_change(request)
        if shard is None:
            return
        if shard.membership_of(request.group).has_members:
            self._context.reply(request.request_id, ErrorCode.NON_EMPTY_GROUP, shard)
            return
        partitions = sorted(self._context.offsets_of(shard, request.group).partitions())
        self._context.log_deletion(shard, request.group, partitions)
        self._context.reply(request.request_id, _NONE, shard)

    def _find_to_change(self, request: DeleteOffsets | DeleteGroup) -> Shard | None:
        """Return the shard of a group that there is, if its log takes something now; else answer why not."""
        shard = self._find_shard(request.group)
        if isinstance(shard, ErrorCode):
            self._context.reply(request.request_id, shard)
            return None
        refusal = self._context.refusal(shard)
        if refusal is not _NONE:
            self._context.reply(request.request_id, refusal)
            return None
        if request.group not in shard.live and request.group not in shard.state.groups:
            self._context.reply(request.request_id, ErrorCode.GROUP_ID_NOT_FOUND, shard)
            return None
        return shard

    # ListGroups

    def list_groups(self, request: ListGroups, now_ms: int) -> None:  # noqa: ARG002 - as above
        """Name all groups; a list that would lack some because they are being loaded is not given."""
        shards = self._context.shards
        if not all(shard.is_loaded for shard in shards):
            self._context.say_at_once(GroupsListed(request.request_id, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        groups = [
            _listed(name, shard.membership_of(name)) for shard in shards for name in {*shard.state.groups, *shard.live}
        ]
        wanted = tuple(sorted((group for group in groups if _is_wanted(group, request)), key=lambda group: group.name))
        self._context.runtime.say_of_all(shards, GroupsListed(request.request_id, _NONE, wanted))

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


def _answer(group: Group, partition: TopicPartition, unstable: set[TopicPartition]) -> CommittedOffset:
    if partition in unstable:
        return CommittedOffset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    found = group.offsets.get(partition)
    if found is None:
        return CommittedOffset(partition, _NONE)
    return CommittedOffset(partition, _NONE, found.offset, found.leader_epoch, found.metadata)
