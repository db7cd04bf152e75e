"""ListGroups: key 16, versions 0 to 5.

Clients ask every broker; one that coordinates no groups has none to list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagleray.actors.wire.asking import AdminCall, ask_coordinator
from eagleray.broker.controller.nodes import Role
from eagleray.broker.groups.events import ListGroups
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_EMPTY: Final = "Empty"
_CLASSIC: Final = "classic"


async def handle(request: ListGroupsRequest, call: AdminCall) -> ListGroupsResponse:
    """List the groups that are coordinated here and pass the filters."""
    if Role.GROUPS not in call.host.spec.roles:
        return ListGroupsResponse()
    reply = await ask_coordinator(call, Role.GROUPS, ListGroups)
    if isinstance(reply, ErrorCode):
        return ListGroupsResponse(error_code=reply)
    groups = map(_listed, reply.groups)
    return ListGroupsResponse(groups=tuple(group for group in groups if _is_asked_for(group, request)))


def _listed(group: str) -> ListedGroup:
    """A group that has committed offsets, and no members."""
    return ListedGroup(group, "", _EMPTY, _CLASSIC)


def _is_asked_for(group: ListedGroup, request: ListGroupsRequest) -> bool:
    return _passes(group.group_state, request.states_filter) and _passes(group.group_type, request.types_filter)


def _passes(value: str, wanted: Sequence[str]) -> bool:
    """Whether a filter names a value, in capitals or not; an empty filter lets everything pass."""
    return not wanted or value.lower() in {name.lower() for name in wanted}
