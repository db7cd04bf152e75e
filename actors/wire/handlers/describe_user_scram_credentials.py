"""DescribeUserScramCredentials: key 50, version 0.

Nobody authenticates here, so nobody has credentials.
"""

from __future__ import annotations

from eagleray.actors.wire.asking import AdminCall
from eagleray.actors.wire.security import NO_AUTHENTICATION
from eagleray.protocol.errors import ErrorCode
from eagleray.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


async def handle(
    request: DescribeUserScramCredentialsRequest,  # noqa: ARG001 - whatever it asks
    call: AdminCall,  # noqa: ARG001 - all handlers take it
) -> DescribeUserScramCredentialsResponse:
    """Say that there are no credentials."""
    return DescribeUserScramCredentialsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHENTICATION)
