"""DescribeAcls: key 29, versions 1 to 3.

There are no access rules here, and nobody who would enforce them.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.actors.wire.security import NO_AUTHORIZER
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def handle(request: DescribeAclsRequest, call: AdminCall) -> DescribeAclsResponse:  # noqa: ARG001 - whatever it asks
    """Say that there are no access rules."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
