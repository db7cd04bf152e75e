"""DescribeGroups: key 15, versions 0 to 6.

Clients send it to the coordinator of each group. A group with committed offsets and no members is empty; an unknown one
is dead, or, from version 6 on, not found.
"""

from __future__ import annotations

import asyncio
from typing import Final

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall, ask_coordinator
from eagleray.actors.kafka_server.operations import GROUP_OPERATIONS, NOT_ASKED_FOR
from eagleray.broker.groups.classic.events import DescribedMember, DescribeGroup
from eagleray.broker.metadata.nodes import ProcessRole
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

API = ServedApi(15, 0, 6)

_NOT_FOUND_SINCE: Final = 6
_DEAD: Final = "Dead"


async def handle(request: DescribeGroupsRequest, call: AdminCall) -> DescribeGroupsResponse:
    """Describe groups."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    groups = await asyncio.gather(*(_describe(group, operations, call) for group in request.groups))
    return DescribeGroupsResponse(groups=tuple(groups))


async def _describe(group: str, operations: int, call: AdminCall) -> DescribedGroup:
    reply = await ask_coordinator(call, ProcessRole.GROUPS, DescribeGroup, group)
    if reply is ErrorCode.GROUP_ID_NOT_FOUND:
        error_code = reply if call.api_version >= _NOT_FOUND_SINCE else ErrorCode.NONE
        return DescribedGroup(error_code, _message(error_code, call), group, _DEAD, authorized_operations=operations)
    if isinstance(reply, ErrorCode):
        return DescribedGroup(reply, _message(reply, call), group)
    return DescribedGroup(
        group_id=group,
        group_state=reply.state,
        protocol_type=reply.protocol_type,
        protocol_data=reply.protocol_name,
        members=tuple(map(_member, reply.members)),
        authorized_operations=operations,
    )


def _member(found: DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        found.member_id, found.group_instance_id, found.client_id, found.client_host, found.metadata, found.assignment
    )


def _message(error_code: ErrorCode, call: AdminCall) -> str | None:
    has_message = error_code is not ErrorCode.NONE and call.api_version >= _NOT_FOUND_SINCE
    return error_code.message if has_message else None
