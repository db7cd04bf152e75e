"""Heartbeat: key 12, versions 0 to 4.

A member of a group is alive, and hears whether its generation still stands.
"""

from __future__ import annotations

from eagleray.actors.wire.call import Call
from eagleray.broker.controller.nodes import Role
from eagleray.broker.groups.classic.events import Heartbeat, HeartbeatAnswered
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(request: HeartbeatRequest, call: Call) -> None:
    """Tell the group's coordinator."""
    if not call.has_role(Role.GROUPS):
        call.answer(HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return

    def answer(reply: HeartbeatAnswered | None) -> None:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if reply is None else reply.error_code
        call.answer(HeartbeatResponse(error_code=error_code))

    call.ask_here(
        answer, Heartbeat, request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
