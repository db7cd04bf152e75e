"""ListGroups: key 16, versions 0 to 5.

Clients ask every broker; one that coordinates no groups returns none.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.broker.groups.events import ListGroups
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

API = ServedApi(16, 0, 5)


async def handle(request: ListGroupsRequest, call: AdminCall) -> ListGroupsResponse:
    """List the groups that are coordinated here and pass the filters."""
    if ProcessRole.GROUPS not in call.context.spec.roles:
        return ListGroupsResponse()
    reply = await ask_coordinator(call, ProcessRole.GROUPS, ListGroups, request.states_filter, request.types_filter)
    if isinstance(reply, ErrorCode):
        return ListGroupsResponse(error_code=reply)
    groups = (ListedGroup(group.name, group.protocol_type, group.state, group.kind) for group in reply.groups)
    return ListGroupsResponse(groups=tuple(groups))
