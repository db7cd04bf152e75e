"""SyncGroup: key 14, versions 0 to 5.

A member asks for its assignment, and the group's leader sends those of all members; answered when the coordinator has
them in its log.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.call import Call
from eagleray.broker.groups.classic.events import GroupSynced, MemberAssignment, SyncGroup
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

API = ServedApi(14, 0, 5)


def handle(request: SyncGroupRequest, call: Call) -> None:
    """Ask the group's coordinator for the assignment."""
    if not call.has_role(ProcessRole.GROUPS):
        call.answer(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
        return

    def answer(reply: GroupSynced | None) -> None:
        if reply is None:
            call.answer(SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            call.answer(
                SyncGroupResponse(0, reply.error_code, reply.protocol_type, reply.protocol_name, reply.assignment)
            )

    call.ask_here(
        answer,
        SyncGroup,
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        tuple(MemberAssignment(given.member_id, given.assignment) for given in request.assignments),
    )
