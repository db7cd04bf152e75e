"""JoinGroup: key 11, versions 0 to 9.

A consumer joins the next generation of its group; answered when that begins. From version 4 on a new member first gets
its id and joins again with it, from 5 on it may be static, from 9 on a leader may be told to skip the assignment.
"""

from __future__ import annotations

from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.groups.classic.events import GroupJoined, JoinGroup, MemberProtocol
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

API = ServedApi(11, 0, 9)

_KNOWN_MEMBERS_SINCE: Final = 4
_NO_PROTOCOL_SINCE: Final = 7
_SKIPPING_SINCE: Final = 9


def handle(request: JoinGroupRequest, call: Call) -> None:
    """Ask the group's coordinator to let the member in."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, member_id=request.member_id))
        return

    def answer(reply: GroupJoined | None) -> None:
        if reply is None:
            call.answer(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id=request.member_id))
        else:
            call.answer(_response(reply, call.api_version))

    call.ask_here(
        answer,
        JoinGroup,
        request.group_id,
        request.member_id,
        request.protocol_type,
        tuple(MemberProtocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.group_instance_id,
        call.client_id or "",
        f"/{call.client_host}",
        call.api_version >= _KNOWN_MEMBERS_SINCE,
        call.api_version >= _SKIPPING_SINCE,
        request.reason,
    )


def _response(reply: GroupJoined, version: int) -> JoinGroupResponse:
    has_no_protocol = reply.protocol_name is None and version >= _NO_PROTOCOL_SINCE
    return JoinGroupResponse(
        error_code=reply.error_code,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=None if has_no_protocol else reply.protocol_name or "",
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=tuple(
            JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata)
            for member in reply.members
        ),
    )
