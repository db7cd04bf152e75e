"""DeleteGroups: key 42, versions 0 to 3.

Clients send it to the coordinator of each group; one that has members stays.
"""

from __future__ import annotations

import asyncio

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.broker.groups.events import DeleteGroup
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

API = ServedApi(42, 0, 3)


async def handle(request: DeleteGroupsRequest, call: AdminCall) -> DeleteGroupsResponse:
    """Delete groups."""
    groups = dict.fromkeys(request.groups_names)
    results = await asyncio.gather(*(_delete(group, call) for group in groups))
    return DeleteGroupsResponse(results=tuple(results))


async def _delete(group: str, call: AdminCall) -> DeletableGroupResult:
    reply = await ask_coordinator(call, ProcessRole.GROUPS, DeleteGroup, group)
    if isinstance(reply, ErrorCode):
        return DeletableGroupResult(group, reply, reply.message)
    return DeletableGroupResult(group)
