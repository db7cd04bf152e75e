"""Whom a heartbeat is from: a new member, a known one, one that comes back, or one that is no member any more."""

from __future__ import annotations

from msgspec.structs import replace

from eagleray.broker.groups.consumer.decisions import Draft, HeartbeatRefusal
from eagleray.broker.groups.consumer.member import JOINING, LEAVING_FOR_A_WHILE, Member, MemberState
from eagleray.broker.groups.consumer.partitions import Partitions
from eagleray.broker.groups.consumer.state import GroupState
from eagleray.broker.limits import shown
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def find_or_join(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, owned: Partitions | None, max_size: int
) -> Member | HeartbeatRefusal:
    """Return the member that a heartbeat is from, before whatever it changes; a new one is not in the group yet."""
    if request.member_epoch != JOINING:
        return find_member(draft.state, request, owned)
    holder = _holder(draft.state, request.instance_id)
    if holder is not None and holder.member_id != request.member_id:
        return _take_over(draft, holder, request)
    member = draft.state.members.get(request.member_id)
    if member is None:
        return _join(draft.state, request.member_id, max_size)
    # It was fenced, or has missed the answer when it joined: it owns nothing, and goes on with what it was told.
    return _returned(member) if member.epoch == LEAVING_FOR_A_WHILE else member


def find_member(
    state: GroupState, request: ConsumerGroupHeartbeatRequest, owned: Partitions | None
) -> Member | HeartbeatRefusal:
    """Return the member that a heartbeat is from, if it is one and its epoch is right."""
    member = find_by_id(state, request.member_id, request.instance_id)
    if isinstance(member, HeartbeatRefusal):
        return member
    is_current = request.member_epoch == member.epoch
    has_missed_an_answer = (
        member.epoch > request.member_epoch == member.previous_epoch and owned is not None and owned <= member.assigned
    )
    # A state that is not known here may mean anything, so the member has to begin without anything.
    is_clear = member.state is not MemberState.UNKNOWN or owned == frozenset()
    if (is_current or has_missed_an_answer) and is_clear:
        return member
    return HeartbeatRefusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"the member is at epoch {member.epoch} and not {request.member_epoch}: "
        "it has to give up its partitions and join again",
    )


def find_by_id(state: GroupState, member_id: str, instance_id: str | None) -> Member | HeartbeatRefusal:
    """Return the member with an id and, if it is a static one, with an instance id."""
    if instance_id is None:
        member = state.members.get(member_id)
    else:
        member = _holder(state, instance_id)
        if member is not None and member.member_id != member_id:
            return HeartbeatRefusal(
                ErrorCode.FENCED_INSTANCE_ID,
                f"member {member.member_id} has taken over the instance id {shown(instance_id)}",
            )
    if member is None:
        return HeartbeatRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"the group has no member {shown(member_id)}")
    return member


def _holder(state: GroupState, instance_id: str | None) -> Member | None:
    member_id = None if instance_id is None else state.static_members.get(instance_id)
    return None if member_id is None else state.members[member_id]


def _join(state: GroupState, member_id: str, max_size: int) -> Member | HeartbeatRefusal:
    if len(state.members) >= max_size:
        return HeartbeatRefusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {max_size} members and can have no more"
        )
    return Member(member_id=member_id)


def _take_over(draft: Draft, holder: Member, request: ConsumerGroupHeartbeatRequest) -> Member | HeartbeatRefusal:
    """Put a member in the place of the static member that it was before its restart, with all that that one had."""
    if holder.epoch != LEAVING_FOR_A_WHILE:
        return HeartbeatRefusal(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"member {holder.member_id} holds the instance id {request.instance_id} and has not left",
        )
    successor = replace(_returned(holder), member_id=request.member_id)
    target = draft.state.targets.get(holder.member_id)
    draft.remove_member(holder.member_id)
    draft.write_subscription(successor)
    if target is not None:
        draft.write_target(successor.member_id, target)
    draft.write_current(successor)
    return successor


def _returned(member: Member) -> Member:
    return replace(member, epoch=JOINING, previous_epoch=JOINING)
