"""SyncGroup: the leader brings the assignment of a generation, and every member takes its own."""

from __future__ import annotations

from eagleray.broker.groups.classic.answers import Answers, assignment_for
from eagleray.broker.groups.classic.events import GroupSynced, SyncGroup
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.log_records import encode_group
from eagleray.broker.groups.classic.rebalancing import Rebalancer
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.groups.context import GroupContext
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class SyncServer:
    """Lets members wait for their assignments, and hands those out when their leader has brought them."""

    def __init__(self, context: GroupContext, answers: Answers, rebalancer: Rebalancer) -> None:
        self._context = context
        self._answers = answers
        self._rebalancer = rebalancer

    def sync(self, request: SyncGroup, group: ClassicGroup, now_ms: int) -> None:
        """Take a request of a client that says to be in the generation."""
        error_code = _check(request, group)
        if error_code is not _NONE:
            self._context.say(group.shard, GroupSynced(request.request_id, error_code))
            return
        member = group.members[request.member_id]
        brings_assignments = group.is_completing_rebalance and group.leader == member.member_id
        refusal = self._context.refusal(group.shard) if brings_assignments else _NONE
        if refusal is not _NONE:
            self._context.say_at_once(GroupSynced(request.request_id, refusal))
            return
        group.pending_syncs.discard(member.member_id)
        if group.is_completing_rebalance:
            self._answers.refuse_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
            member.waiting_sync = request.request_id
        else:
            self._context.say(group.shard, assignment_for(group, member, request.request_id))
            group.heard_of(member, now_ms)
        if brings_assignments:
            self._assign(group, {given.member_id: given.assignment for given in request.assignments}, now_ms)

    def _assign(self, group: ClassicGroup, assignments: dict[str, bytes], now_ms: int) -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        if self._context.is_too_large(group.shard, (encode_group(group),)):
            for member in group.members.values():
                self._answers.refuse_sync(group, member, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)
            self._rebalancer.prepare(group, now_ms)
            return
        group.enter(GroupState.STABLE, now_ms)
        self._rebalancer.log(group)
        for member in group.members.values():
            self._answers.synced(group, member, now_ms)


def _check(request: SyncGroup, group: ClassicGroup) -> ErrorCode:
    error_code = group.check_member(request.member_id, request.group_instance_id)
    if error_code is not _NONE:
        return error_code
    if request.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    # Older versions do not say which protocol they mean.
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _NONE
