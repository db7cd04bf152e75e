"""ListGroups: key 16, versions 0 to 5.

Clients ask every broker; one that coordinates no groups has none to list.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall, ask_coordinator
from eagleray.broker.controller.nodes import Role
from eagleray.broker.groups.events import ListGroups
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(request: ListGroupsRequest, call: AdminCall) -> ListGroupsResponse:
    """List the groups that are coordinated here and pass the filters."""
    if Role.GROUPS not in call.host.spec.roles:
        return ListGroupsResponse()
    reply = await ask_coordinator(call, Role.GROUPS, ListGroups, request.states_filter, request.types_filter)
    if isinstance(reply, ErrorCode):
        return ListGroupsResponse(error_code=reply)
    groups = (ListedGroup(group.name, group.protocol_type, group.state, group.kind) for group in reply.groups)
    return ListGroupsResponse(groups=tuple(groups))
