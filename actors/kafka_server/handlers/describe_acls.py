"""DescribeAcls: key 29, versions 1 to 3.

This broker has no access control, so there are no rules.
"""

from __future__ import annotations

from eagleray.actors.kafka_server.api_handler import ServedApi
from eagleray.actors.kafka_server.asking import AdminCall
from eagleray.actors.kafka_server.security import NO_AUTHORIZER
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

API = ServedApi(29, 1, 3)


async def handle(request: DescribeAclsRequest, call: AdminCall) -> DescribeAclsResponse:  # noqa: ARG001 - whatever it asks
    """Say that there are no access rules."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
