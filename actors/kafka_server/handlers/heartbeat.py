"""Heartbeat: key 12, versions 0 to 4.

A member of a classic group is alive, and learns whether its generation is still valid.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.groups.classic.events import Heartbeat, HeartbeatAnswered
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

API = ServedApi(12, 0, 4)


def handle(request: HeartbeatRequest, call: Call) -> None:
    """Pass the heartbeat to the group's coordinator."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return

    def answer(reply: HeartbeatAnswered | None) -> None:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if reply is None else reply.error_code
        call.answer(HeartbeatResponse(error_code=error_code))

    call.ask_here(
        answer, Heartbeat, request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
