"""LeaveGroup: key 13, versions 0 to 5.

Members leave their group: one up to version 2, any number from 3 on, static ones by their group.instance.id.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.groups.classic.events import GroupLeft, LeaveGroup, LeavingMember
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

API = ServedApi(13, 0, 5)

_MANY_SINCE: Final = 3


def handle(request: LeaveGroupRequest, call: Call) -> None:
    """Have the group's coordinator let the members go."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return

    def answer(reply: GroupLeft | None) -> None:
        if reply is None:
            call.answer(LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            call.answer(_response(reply, call.api_version))

    call.ask_here(answer, LeaveGroup, request.group_id, _members(request, call.api_version))


def _members(request: LeaveGroupRequest, version: int) -> tuple[LeavingMember, ...]:
    if version < _MANY_SINCE:
        return (LeavingMember(request.member_id),)
    return tuple(LeavingMember(member.member_id, member.group_instance_id, member.reason) for member in request.members)


def _response(reply: GroupLeft, version: int) -> LeaveGroupResponse:
    if version < _MANY_SINCE:
        # One member left, or did not: its outcome is that of the request.
        error_code = reply.error_code or (reply.members[0].error_code if reply.members else ErrorCode.NONE)
        return LeaveGroupResponse(error_code=error_code)
    members = tuple(
        MemberResponse(member.member_id, member.group_instance_id, member.error_code) for member in reply.members
    )
    return LeaveGroupResponse(error_code=reply.error_code, members=members)
