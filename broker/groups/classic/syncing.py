"""SyncGroup: the leader brings the assignment of a generation, and every member takes its own."""

from __future__ import annotations

from eagleray.broker.groups.classic.answers import Answers, assignment_for
from eagleray.broker.groups.classic.events import GroupSynced, SyncGroup
from eagleray.broker.groups.classic.group import ClassicGroup
from eagleray.broker.groups.classic.members import Member
from eagleray.broker.groups.classic.rebalancing import Rebalancer
from eagleray.broker.groups.classic.states import GroupState
from eagleray.broker.groups.context import CODES_FOR_MEMBERS, GroupContext
from eagleray.protocol.errors import ErrorCode

_NONE = ErrorCode.NONE


class SyncServer:
    """Lets members wait for their assignments, and hands those out once the log has them."""

    def __init__(self, context: GroupContext, answers: Answers, rebalancer: Rebalancer) -> None:
        self._context = context
        self._answers = answers
        self._rebalancer = rebalancer

    def sync(self, request: SyncGroup, group: ClassicGroup, now_ms: int) -> None:
        """Take a request of somebody who says to be in the generation."""
        error_code = _check(request, group)
        if error_code is not _NONE:
            self._context.emit(GroupSynced(request.request_id, error_code))
            return
        member = group.members[request.member_id]
        group.pending_syncs.discard(member.member_id)
        if group.state is GroupState.STABLE:
            self._context.emit(assignment_for(group, member, request.request_id))
            group.heard_of(member, now_ms)
        else:
            self._wait(group, member, request, now_ms)

    def _wait(self, group: ClassicGroup, member: Member, request: SyncGroup, now_ms: int) -> None:
        self._answers.refuse_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        member.waiting_sync = request.request_id
        # What a leader brings for a second time is on its way to the log already.
        if group.leader == member.member_id and not group.is_assigning:
            self._log(group, {given.member_id: given.assignment for given in request.assignments})

    def _log(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        generation = group.generation
        group.is_assigning = True

        def finished(error_code: ErrorCode, now_ms: int) -> None:
            # A rebalance that has begun meanwhile has told everybody already.
            if group.is_completing_rebalance and group.generation == generation:
                self._finish(group, assignments, error_code, now_ms)

        self._rebalancer.log(group, assignments, finished)

    def _finish(self, group: ClassicGroup, assignments: dict[str, bytes], error_code: ErrorCode, now_ms: int) -> None:
        group.is_assigning = False
        members = group.members.values()
        if error_code is _NONE:
            group.enter(GroupState.STABLE, now_ms)
            for member in members:
                member.assignment = assignments.get(member.member_id, b"")
                self._answers.synced(group, member, now_ms)
            return
        for member in members:
            self._answers.refuse_sync(group, member, CODES_FOR_MEMBERS.get(error_code, error_code), now_ms)
        self._rebalancer.membership_changed(group, now_ms)


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
