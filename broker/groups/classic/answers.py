"""Answers to the members that wait in a classic group, each given once."""

from __future__ import annotations

from eagleray.broker.groups.classic.events import GroupJoined, GroupSynced, JoinedMember
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.members import Member
from eagleray.broker.groups.context import GroupContext
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class Answers:
    """Answers members, whose sessions begin anew with that: a member that waits for an answer sends no heartbeats."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context

    # Joins

    def joined(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Tell a member that waits for a generation that it has begun."""
        request_id = group.take_join(member)
        if request_id is not None:
            self._context.say(group.shard, self.generation_for(group, member, request_id))
        group.heard_of(member, now_ms)
        member.is_new = False

    def generation_for(self, group: ClassicGroup, member: Member, request_id: int) -> GroupJoined:
        """Describe the generation to one of its members; only the leader learns who the others are."""
        leads = group.leader == member.member_id
        return GroupJoined(
            request_id,
            _NONE,
            member.member_id,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader or "",
            members=members_of(group) if leads else (),
        )

    def refuse_join(self, group: ClassicGroup, member: Member, error_code: ErrorCode, member_id: str = "") -> None:
        """Tell a member that waits for a generation that it will not be in it."""
        request_id = group.take_join(member)
        if request_id is not None:
            self._context.say(group.shard, GroupJoined(request_id, error_code, member_id))

    # Syncs

    def synced(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        """Give a member that waits for it its assignment."""
        request_id, member.waiting_sync = member.waiting_sync, None
        if request_id is not None:
            self._context.say(group.shard, assignment_for(group, member, request_id))
            group.heard_of(member, now_ms)

    def refuse_sync(self, group: ClassicGroup, member: Member, error_code: ErrorCode, now_ms: int) -> None:
        """Tell a member that waits for its assignment that there will be none."""
        request_id, member.waiting_sync = member.waiting_sync, None
        if request_id is not None:
            self._context.say(group.shard, GroupSynced(request_id, error_code))
            group.heard_of(member, now_ms)

    # Both

    def refuse(self, group: ClassicGroup, member: Member, error_code: ErrorCode, now_ms: int) -> None:
        """Tell a member that it waits in vain, whatever it waits for."""
        self.refuse_join(group, member, error_code)
        self.refuse_sync(group, member, error_code, now_ms)


def members_of(group: ClassicGroup) -> tuple[JoinedMember, ...]:
    """Show a leader whom it leads."""
    return tuple(member.as_joined(group.protocol_name) for member in group.members.values())


def assignment_for(group: ClassicGroup, member: Member, request_id: int) -> GroupSynced:
    """Answer a request for an assignment with what the member has been given."""
    return GroupSynced(request_id, _NONE, group.protocol_type, group.protocol_name, member.assignment)
